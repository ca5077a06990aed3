#!/usr/bin/env python3
"""Write parity fixtures of AdapterHub's LoRA on GPT-2, prefixes and prompts (tests/fixtures/adapters/hub-*): the model of
a fixture, an adapter in AdapterHub's files, and what PyTorch computes with both in float64.

Usage: adapterhub.py FIXTURES OUT [NAME ...]     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers and safetensors. AdapterHub's library needs other versions of these, so the methods are
defined here as it has them: LoRAMergedLinear, PrefixTuningLayer, PromptTuning.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from bottleneck import expected_of, f32

FIXTURES = [
    {"name": "hub-lora-gpt2", "model": "gpt2-clm", "config": {
        "architecture": "lora", "r": 3, "alpha": 6, "attn_matrices": ["v", "q"], "intermediate_lora": True}},
    {"name": "hub-lora-gpt2-keys", "model": "gpt2-clm", "config": {
        "architecture": "lora", "r": 2, "alpha": 5, "attn_matrices": ["k"]}},
    {"name": "hub-prefix-gpt2", "model": "gpt2-clm", "config": {
        "architecture": "prefix_tuning", "flat": True, "prefix_length": 5, "leave_out": []}},
    {"name": "hub-prefix-bert", "model": "bert-tagger", "config": {
        "architecture": "prefix_tuning", "flat": False, "prefix_length": 3, "bottleneck_size": 10, "non_linearity": "tanh",
        "leave_out": [0]}},
    {"name": "hub-prompt-bert", "model": "bert-tagger", "config": {
        "architecture": "prompt_tuning", "prompt_length": 4, "prompt_init": "random_uniform", "combine": "prefix"}},
]
LORA = {"selfattn_lora": True, "intermediate_lora": False, "output_lora": False, "dropout": 0.0, "leave_out": [],
        "composition_mode": "add", "init_weights": "lora", "use_gating": False}
PREFIX = {"encoder_prefix": True, "cross_prefix": True, "dropout": 0.0, "use_gating": False, "shared_gating": True}


def drawn(*shape):
    """A parameter of float32 values, in float64."""
    return nn.Parameter((torch.randn(*shape) * 0.3).to(torch.float32).double())


def attach_lora(model, config, trained, saved):
    r, scale = config["r"], config["alpha"] / config["r"]
    thirds = [i for i, name in enumerate("qkv") if name in config["attn_matrices"]]
    for i, block in enumerate(model.transformer.h):
        at = f"transformer.h.{i}.attn.c_attn"
        width, out = block.attn.c_attn.weight.shape
        a, stacked = drawn(len(thirds) * r, width), drawn(len(thirds) * out // 3, r)
        # The same as one B for the stacked A: zeros where a third's outputs do not see another's part of A.
        spread = torch.zeros(out, len(thirds) * r, dtype=torch.float64)
        for j, third in enumerate(thirds):
            spread[third * out // 3:(third + 1) * out // 3, j * r:(j + 1) * r] = \
                stacked[j * out // 3:(j + 1) * out // 3].detach()
        b = nn.Parameter(spread)
        x = torch.randn(2, 5, width, dtype=torch.float64)
        grouped = torch.conv1d((x @ a.T).transpose(-2, -1), stacked.unsqueeze(-1), groups=len(thirds)).transpose(-2, -1)
        padded = torch.zeros(2, 5, 3, out // 3, dtype=torch.float64)
        padded[:, :, thirds] = grouped.unflatten(-1, (len(thirds), out // 3))
        assert torch.allclose(padded.flatten(-2), x @ a.T @ b.T, atol=1e-12)
        layers = [(block.attn.c_attn, at, a, b, stacked)]
        if config["intermediate_lora"]:
            inner = block.mlp.c_fc.weight.shape[1]
            a, b = drawn(r, width), drawn(inner, r)
            layers.append((block.mlp.c_fc, f"transformer.h.{i}.mlp.c_fc", a, b, b))
        for module, name, a, b, in_file in layers:
            module.register_forward_hook(
                lambda module, given, y, a=a, b=b: y + given[0] @ a.T @ b.T * scale)
            saved[f"{name}.loras.test.lora_A"], saved[f"{name}.loras.test.lora_B"] = f32(a), f32(in_file)
            trained[f"adapter.{name}.lora_A.weight"], trained[f"adapter.{name}.lora_B.weight"] = a, b
    return lambda run: model(**run)


def attention_with(module_of_model, change):
    """Lets change(module, key, value, mask) replace what the attention of a family of models sees."""
    family = sys.modules[module_of_model.__module__]
    plain = family.eager_attention_forward

    def attend(module, query, key, value, mask, **options):
        return plain(module, query, *change(module, key, value, mask), **options)
    family.eager_attention_forward = attend
    return lambda: setattr(family, "eager_attention_forward", plain)


def attach_prefix(model, config, trained, saved):
    count, width, heads = config["prefix_length"], model.config.hidden_size, model.config.num_attention_heads
    layers = [i for i in range(model.config.num_hidden_layers) if i not in config["leave_out"]]
    base = model.base_model_prefix
    hub = f"{base}.prefix_tuning.prefix_tunings.test.self_prefix."
    if config["flat"]:
        parts = [drawn(count, 2 * width) for _ in layers]
        saved[hub + "control_trans"] = f32(torch.stack(parts, 1).flatten())
        trained.update({f"adapter.prompt_embeddings.{i}": p for i, p in zip(layers, parts)})
        values = lambda: parts
    else:
        inner = config["bottleneck_size"]
        tokens, first, first_bias = drawn(count, width), drawn(inner, width), drawn(inner)
        weights, biases = [drawn(2 * width, inner) for _ in layers], [drawn(2 * width) for _ in layers]
        saved.update({hub + "wte.weight": f32(tokens), hub + "control_trans.0.weight": f32(first),
                      hub + "control_trans.0.bias": f32(first_bias),
                      hub + "control_trans.2.weight": f32(torch.cat(weights)),
                      hub + "control_trans.2.bias": f32(torch.cat(biases))})
        trained.update({"adapter.embedding.weight": tokens, "adapter.transform.0.weight": first,
                        "adapter.transform.0.bias": first_bias})
        trained.update({f"adapter.transform.2.weight.{i}": w for i, w in zip(layers, weights)})
        trained.update({f"adapter.transform.2.bias.{i}": b for i, b in zip(layers, biases)})
        hidden = lambda: torch.tanh(tokens @ first.T + first_bias)
        values = lambda: [hidden() @ w.T + b for w, b in zip(weights, biases)]

    def change(module, key, value, mask):
        if module.layer_idx not in layers:
            return key, value, mask
        # [tokens, keys and values, heads, width of a head]
        both = values()[layers.index(module.layer_idx)].view(count, 2, heads, width // heads).permute(1, 2, 0, 3)
        rows = key.shape[0]
        key = torch.cat([both[0].expand(rows, -1, -1, -1), key], 2)
        value = torch.cat([both[1].expand(rows, -1, -1, -1), value], 2)
        if mask is not None:
            mask = torch.cat([mask.new_zeros(*mask.shape[:3], count), mask], -1)
        return key, value, mask
    model.restore = attention_with(type(model), change)
    return lambda run: model(**run)


def attach_prompt(model, config, trained, saved):
    count, width = config["prompt_length"], model.config.hidden_size
    prompt = drawn(count, width)
    saved["bert.prompt_tuning.prompt_tunings.test.prompt_embedding.weight"] = f32(prompt)
    trained["adapter.prompt_embeddings"] = prompt
    seen = {}
    model.bert.embeddings.register_forward_hook(
        lambda module, given, y: torch.cat([prompt.expand(y.shape[0], -1, -1), y], 1))

    def change(module, key, value, mask):
        full = torch.cat([torch.ones(key.shape[0], count), seen["mask"].double()], 1)
        return key, value, ((1.0 - full) * torch.finfo(torch.float64).min)[:, None, None, :]
    model.restore = attention_with(type(model), change)

    def forward(run):
        seen["mask"] = run["attention_mask"]
        labels = torch.cat([torch.full((len(run["labels"]), count), -100), run["labels"]], 1)
        return model(**{**run, "labels": labels})
    return forward


def generated(model, prompt, count=8):
    """A case of fixture.json: the most probable token, again and again, without a cache."""
    ids = prompt
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, model(input_ids=ids).logits[:, -1:].argmax(-1)], 1)
    return {"prompt": prompt.tolist(), "ids": ids.tolist(),
            "args": {"max_new_tokens": count, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}}


def make(spec, fixtures, root):
    source, out = fixtures / spec["model"], root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "inputs.safetensors"):
        shutil.copy(source / name, out / name)
    info = json.loads((source / "fixture.json").read_text())
    kind = spec["config"]["architecture"]
    config = {**{"lora": LORA, "prefix_tuning": PREFIX, "prompt_tuning": {}}[kind], **spec["config"]}
    model = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager").double().train()
    for p in model.parameters():
        p.requires_grad = False
    torch.manual_seed(11)
    trained, saved = {}, {}
    attach = {"lora": attach_lora, "prefix_tuning": attach_prefix, "prompt_tuning": attach_prompt}[kind]
    forward = attach(model, config, trained, saved)
    folder = out / "adapter"
    folder.mkdir(exist_ok=True)
    save_file(saved, folder / "adapter.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "config": config, "config_id": "0", "hidden_size": model.config.hidden_size, "model_class": info["class"],
        "model_name": "..", "model_type": model.config.model_type, "name": "test", "version": "adapters.1.3.0"},
        indent=1, sort_keys=True) + "\n")
    inputs = load_file(source / "inputs.safetensors")
    run = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    info = {k: v for k, v in info.items() if k != "generate"}
    if model.config.model_type == "gpt2":
        info["generate"] = [generated(model, inputs["input_ids"][:, :4])]
    expected = expected_of(lambda: forward(run), trained, info["adamw"])
    getattr(model, "restore", lambda: None)()
    save_file(expected, out / "expected.safetensors")
    (out / "fixture.json").write_text(json.dumps({**info, "adapter": spec["config"]}, indent=1) + "\n")
    print(f"{spec['name']:28s} trains {sum(p.numel() for p in trained.values()):>6d}  loss {float(expected['loss']):.6f}")


def main():
    fixtures, root, only = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), set(sys.argv[3:])
    for spec in FIXTURES:
        if not only or spec["name"] in only:
            make(spec, fixtures, root)


if __name__ == "__main__":
    main()
