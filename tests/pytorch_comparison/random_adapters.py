#!/usr/bin/env python3
"""Compare Hekla with PEFT for random adapters of random models: configurations of LoRA, Poly, (IA)^3, tuned norms,
prompts and prefixes as PEFT saves them, then changed as people, other tools and other versions do: keys of other
methods, nulls, missing keys, patterns. For each the logits must be equal, or Hekla must refuse the adapter by name; none
may be silently different.

Usage: random_adapters.py HEKLA PLUGINS [--count N] [--seed N] [--keep FOLDER]
  PLUGINS   plugins/architectures: the manifests name the classes
  --keep    the folder for those that differ

Prints a line for each kind of adapter: equal, refused, and those that PEFT itself cannot compute (not counted). The
exit status is 1 if one differs, 77 without PyTorch, transformers or PEFT.
"""
import json
import random
import sys
import warnings

import random_configs as configs

warnings.filterwarnings("ignore")
try:
    import peft
    import torch
    import transformers as T
    from safetensors.torch import load_file, save_file
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

CLASSES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "gpt_neox": "GPTNeoXForCausalLM", "bert": "BertForMaskedLM",
           "t5": "T5ForConditionalGeneration", "bart": "BartForConditionalGeneration"}
LINEAR = {"gpt2": ["c_attn", "c_fc", "mlp.c_proj"], "llama": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
          "gpt_neox": ["query_key_value", "dense_h_to_4h", "dense_4h_to_h"], "bert": ["query", "value", "intermediate.dense"],
          "t5": ["q", "v", "o", "wo"], "bart": ["q_proj", "v_proj", "fc1", "fc2"]}
FEEDFORWARD = {"mlp.c_proj", "down_proj", "dense_4h_to_h", "wo", "fc2"}
NORMS = {"gpt2": ["ln_1", "ln_2"], "llama": ["input_layernorm"], "gpt_neox": ["input_layernorm"], "bert": ["LayerNorm"],
         "t5": ["layer_norm"], "bart": ["self_attn_layer_norm"]}
EMBEDDINGS = {"gpt2": "wte", "llama": "embed_tokens", "gpt_neox": "embed_in", "bert": "word_embeddings"}
OF_TUNER = ("lora_", "ia3_", "ln_tuning", "poly_")  # prompts are loaded apart from the others

# Keys, and what they may be: of all kinds of adapters, each also where it does not belong.
ODD = {"use_rslora": [True, False, None], "use_dora": [True, False, None], "lora_alpha": [1, 3.5, 16], "r": [2, None],
       "fan_in_fan_out": [True, False], "bias": ["none", "all", "lora_only", None], "lora_bias": [False, True],
       "alpha_pattern": [{}, {"0.*": 3}, {"c_attn": 5}, {"q_proj": 7, "v_proj": 1}, {".*query": 2}, None],
       "rank_pattern": [{}, {"c_attn": 5}, {"nothing": 3}, None], "modules_to_save": [None, [], ["lm_head"], ["nothing"]],
       "layers_to_transform": [None, [], [0], 0, [1], [0, 1]], "layers_pattern": [None, [], "", "layers", ["h"], "layer"],
       "exclude_modules": [None, [], ["v_proj"], ["0"], ".*0.*", "nothing"], "target_parameters": [None, [], ["weight"]],
       "megatron_config": [None, {}, {"a": 1}], "megatron_core": ["megatron.core", None], "loftq_config": [{}, {"loftq_bits": 4}, None],
       "trainable_token_indices": [None, [], [7, 8], {"embed_tokens": [7]}], "eva_config": [None, {"rho": 2.0}],
       "corda_config": [None, {"cache_file": None}], "lora_ga_config": [None], "velora_config": [None, {}],
       "kasa_config": [None, {}], "monteclora_config": [None, {}], "arrow_config": [None, {}], "use_bdlora": [None, False, {}],
       "use_qalora": [False, True], "qalora_group_size": [16, 4], "layer_replication": [None, [], [[0, 1]], [[0, 1], [0, 1]]],
       "runtime_config": [{"ephemeral_gpu_offload": False}], "ensure_weight_tying": [False, True], "inference_mode": [False, True],
       "revision": [None, "main"], "task_type": [None, "CAUSAL_LM", "FEATURE_EXTRACTION"], "auto_mapping": [None, {"base_model_class": "A"}],
       "init_lora_weights": [True, False, None, "gaussian", "eva", "orthogonal", "pissa", "pissa_niter_2", "olora", "mica", "loftq"],
       "alora_invocation_tokens": [None, [7], [6, 7]], "peft_version": ["0.5.0"], "something_else": [1, None, {"a": [1]}],
       "feedforward_modules": [None, [], "nothing"], "init_ia3_weights": [False], "target_modules": [None, "all-linear", ".*nothing"],
       "n_skills": [2, 3], "n_splits": [1, 2], "poly_type": ["poly", None], "n_tasks": [1, 2], "init_weights": [False],
       "num_transformer_submodules": [None, 1, 2], "token_dim": [None, 4], "num_attention_heads": [None, 2], "num_layers": [None, 1],
       "encoder_hidden_size": [None, 8], "prefix_projection": [True], "prompt_tuning_init": ["TEXT", "RANDOM"],
       "prompt_tuning_init_text": ["a b"], "tokenizer_name_or_path": ["nothing"], "num_virtual_tokens": [2, 3], "use_foo": [False, True]}


def some(r, of):
    return sorted(r.sample(of, r.randint(1, len(of))))


def lora(r, t):
    targets = some(r, LINEAR[t] + ([EMBEDDINGS[t]] if t in EMBEDDINGS and r.random() < 0.3 else []))
    c = dict(r=r.choice([1, 2, 4]), lora_alpha=r.choice([1, 4, 7]), target_modules=targets, use_rslora=r.random() < 0.3,
             bias=r.choice(["none", "none", "none", "lora_only", "all"]), fan_in_fan_out=t == "gpt2")
    if r.random() < 0.2: c["target_modules"] = ".*(" + "|".join(targets).replace(".", r"\.") + ")$"
    elif r.random() < 0.3: c["layers_to_transform"] = r.choice([0, [0], [0, 1]])
    if r.random() < 0.3: c["rank_pattern"] = {r.choice(targets): r.choice([1, 3])}
    if r.random() < 0.3: c["alpha_pattern"] = {r.choice([targets[0], f".*0.*{targets[-1]}"]): r.choice([2, 9])}
    if r.random() < 0.2: c["exclude_modules"] = r.choice([[targets[0]], f".*1.*{targets[0]}"])
    if r.random() < 0.25 and c["bias"] == "none": c["use_dora"] = True
    return peft.LoraConfig(**c)


def task_of(t):
    return "SEQ_2_SEQ_LM" if t in ("t5", "bart") else "CAUSAL_LM"


def poly(r, t):
    return peft.PolyConfig(task_type=task_of(t), r=r.choice([2, 4]), target_modules=some(r, LINEAR[t]), n_tasks=r.choice([1, 2]),
                           n_skills=r.choice([2, 4]), n_splits=r.choice([1, 2]), init_weights=False)


def ia3(r, t):
    targets = some(r, LINEAR[t])
    return peft.IA3Config(target_modules=targets, feedforward_modules=[m for m in targets if m in FEEDFORWARD and r.random() < 0.8],
                          fan_in_fan_out=t == "gpt2")


def ln_tuning(r, t):
    return peft.LNTuningConfig(target_modules=NORMS[t])


def prompt(r, t):
    return peft.PromptTuningConfig(task_type=task_of(t), num_virtual_tokens=r.choice([2, 3]))


def prefix(r, t):
    return peft.PrefixTuningConfig(task_type=task_of(t), num_virtual_tokens=r.choice([2, 3]), prefix_projection=r.random() < 0.3,
                                   encoder_hidden_size=8)


KINDS = {"LORA": lora, "IA3": ia3, "LN_TUNING": ln_tuning, "POLY": poly, "PROMPT_TUNING": prompt, "PREFIX_TUNING": prefix}


def edit(r, config):
    done = []
    for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
        kind = r.random()
        key = r.choice(list(ODD)) if kind < 0.75 else r.choice([k for k in config if k != "peft_type"])
        if kind < 0.75: config[key] = r.choice(ODD[key])
        elif kind < 0.88: config[key] = None
        else: del config[key]
        done.append(f"{key} = {json.dumps(config[key])}" if key in config else f"without {key}")
    return done


def write_case(r, folder, kind, model_type):
    """Writes a fixture for `hekla doctor --test`. Returns (what was done, whether PEFT computes it)."""
    cls = getattr(T, CLASSES[model_type])
    for _ in range(100):  # until the options go together
        try:
            torch.manual_seed(r.getrandbits(30))
            base = configs.random_model(r, model_type, cls)
            base.save_pretrained(folder)
            model = peft.get_peft_model(base, KINDS[kind](r, model_type))
            with torch.no_grad():
                for _, p in model.named_parameters():
                    if p.requires_grad: p.add_(torch.randn(p.shape) * 0.3)
            model.save_pretrained(folder / "adapter")
            break
        except Exception:  # noqa: transformers and PEFT raise errors of many kinds
            continue
    else:
        sys.exit(f"no {kind} for {model_type}: PEFT refuses all options")
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = ".."
    done = edit(r, config)
    path.write_text(json.dumps(config, indent=1) + "\n")
    expected, inputs = {}, {}
    try:
        base = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
        inputs = configs.inputs_of(r, model_type, cls, base.config)
        inputs["input_ids"] = inputs["input_ids"] % configs.VOCABULARY
        model = peft.PeftModel.from_pretrained(base, folder / "adapter")
        tensors = load_file(folder / "adapter" / "adapter_model.safetensors")
        found = peft.set_peft_model_state_dict(model, tensors)
        lost = [k for k in found.missing_keys if any(part in k for part in OF_TUNER)]
        if lost: raise ValueError(f"no tensors for {lost[:2]}")
        if kind == "POLY": inputs["adapter_rows"] = torch.tensor([0, int(config.get("n_tasks") or 1) - 1])
        run = {k.replace("adapter_rows", "task_ids"): v for k, v in inputs.items()}
        with torch.no_grad(), configs.Float64(model):
            logits = model.double().eval()(**run).logits
        if torch.isfinite(logits).all(): expected = {"out.logits": logits.float().contiguous()}
    except Exception as problem:  # PEFT raises errors of many kinds
        done.append(f"[{type(problem).__name__}: {str(problem)[:100]}]")
    computed = bool(expected)
    if not computed:
        inputs = {"input_ids": torch.ones((1, 1), dtype=torch.long)}
        expected = {"out.logits": torch.zeros((1, 1, 1))}
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "inputs.safetensors")
    save_file(expected, folder / "expected.safetensors")
    (folder / "fixture.json").write_text(json.dumps({"class": CLASSES[model_type]}))
    return [model_type, *done], computed


def main():
    a = configs.arguments(__doc__)
    kinds = sorted(KINDS)

    def write(number, folder):
        r = random.Random(f"{a.seed}/{number}")
        kind = r.choice([*kinds, "LORA", "LORA", "LORA"])
        without = {"POLY": ("bert", "gpt2"), "PROMPT_TUNING": ("bert",), "PREFIX_TUNING": ("bert",)}.get(kind, ())
        possible = [t for t in CLASSES if t not in without]
        done, computed = write_case(r, folder, kind, r.choice(possible))
        return kind, kind, done, computed

    configs.compare(a, write, "PEFT")


if __name__ == "__main__":
    main()
