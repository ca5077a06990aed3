#!/usr/bin/env python3
"""Compare Hekla with transformers for random configurations of all architectures that Hekla reads: random sizes and
options, keys that transformers or others know, nulls, missing keys, nested keys, old and new spellings of rotary positions,
classes and model types of others. For each the outputs must be equal, or Hekla must refuse the model by name; none may be
silently different.

Usage: random_configs.py HEKLA PLUGINS [--count N] [--seed N] [--keep FOLDER] [--only FAMILY ...]
  PLUGINS   plugins/architectures: the manifests name the classes
  --keep    the folder for those that differ
  --only    these families alone

Prints a line for each family: equal, refused, and those that transformers itself cannot compute (not counted). The exit
status is 1 if one differs, 77 without PyTorch or transformers.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
try:
    import torch
    import transformers as T
    from safetensors.torch import save_file
    from torch.overrides import TorchFunctionMode
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)
T.utils.logging.disable_progress_bar()
T.utils.logging.set_verbosity(50)

BATCH, ROW = 2, 9
VOCABULARY = 60
TOLERANCE = 1e-6  # of the largest output; the float32 in which both are stored has 6e-8
DROPOUT = ("pdrop", "dropout", "layerdrop")

# Random options of each family, all small.
def sizes(r):
    heads = r.choice([1, 2, 4])
    return heads, heads * 2 * r.choice([2, 4, 8])


def rotary(r, config):
    kind = r.choice(["none", "default", "default", "linear", "llama3", "yarn", "dynamic", "longrope"])
    if kind == "none": return
    rope = {"rope_type": kind, "rope_theta": r.choice([10000.0, 500.0, 1e6])}
    if kind != "default": rope["factor"] = r.choice([2.0, 4.0])
    if kind == "llama3": rope.update(low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]))
    if kind in ("llama3", "yarn") and r.random() < 0.6: rope["original_max_position_embeddings"] = r.choice([8, 16])
    if kind == "yarn" and r.random() < 0.5:
        rope.update(r.choice([{"beta_fast": 4.0, "beta_slow": 1.0}, {"attention_factor": 1.3}, {"truncate": False},
                              {"mscale": 1.0, "mscale_all_dim": 0.5}]))
    if kind == "longrope":  # fit_longrope() corrects the lengths of most
        rope.update(short_factor=[1.0] * 64, long_factor=[2.0] * 64)
        if r.random() < 0.6: rope["original_max_position_embeddings"] = r.choice([4, 16])
        if r.random() < 0.3: del rope["factor"]
    if kind == "dynamic": config["max_position_embeddings"] = r.choice([4, 8, 16])  # shorter than the rows
    config["rope_parameters"] = rope


def fit_longrope(r, config):
    """Gives the lists of longrope the length that the heads need."""
    width = config.get("head_dim") or config.get("hidden_size", 0) // max(config.get("num_attention_heads", 1), 1)
    rope = config.get("rope_parameters") or {}
    for one in [rope, *(x for x in rope.values() if isinstance(x, dict))]:
        if "short_factor" not in one: continue
        half = int(width * one.get("partial_rotary_factor", 1.0)) // 2
        one["short_factor"] = [1.0 + r.random() for _ in range(half)]
        one["long_factor"] = [1.0 + 4 * r.random() for _ in range(half)]


def decoder(r):
    heads, hidden = sizes(r)
    c = dict(vocab_size=VOCABULARY, hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=r.choice([1, 2, 3]),
             intermediate_size=r.choice([16, 24]), max_position_embeddings=r.choice([16, 32, 64]), pad_token_id=0,
             hidden_act=r.choice(["silu", "gelu", "relu", "gelu_pytorch_tanh"]),
             tie_word_embeddings=r.random() < 0.4, attention_bias=r.random() < 0.4)
    rotary(r, c)
    return c


def llama(r):
    c = decoder(r)
    c.update(num_key_value_heads=r.choice([None, 1, c["num_attention_heads"]]), mlp_bias=r.random() < 0.4,
             rms_norm_eps=r.choice([1e-6, 1e-5, 1e-2]), head_dim=r.choice([None, 4, 8]))
    return c


def qwen3(r):
    c = llama(r)
    del c["mlp_bias"]
    c.update(head_dim=r.choice([4, 8]), use_sliding_window=r.random() < 0.5, sliding_window=r.choice([3, 4, 100]),
             max_window_layers=r.choice([0, 1, 2]))
    if r.random() < 0.3:
        c["layer_types"] = [r.choice(["full_attention", "sliding_attention"]) for _ in range(c["num_hidden_layers"])]
    return c


def layer_types(r, c, share=0.5):
    if r.random() < share:
        c["layer_types"] = [r.choice(["full_attention", "sliding_attention"]) for _ in range(c["num_hidden_layers"])]


def without(c, *keys):
    return {k: v for k, v in c.items() if k not in keys}


def grouped(r):
    """A decoder with fewer heads for keys and values."""
    c = decoder(r)
    c.update(num_key_value_heads=r.choice([1, c["num_attention_heads"]]), rms_norm_eps=r.choice([1e-6, 1e-5, 1e-2]))
    return c


def qwen2(r):
    c = without(qwen3(r), "attention_bias", "head_dim")
    if r.random() < 0.2: c["head_dim"] = 8
    return c


def mistral(r):
    c = without(grouped(r), "attention_bias")
    c.update(sliding_window=r.choice([None, 3, 4, 100]), head_dim=r.choice([None, 4, 8]))
    return c


def ministral(r):
    c = dict(mistral(r), head_dim=r.choice([4, 8]))
    layer_types(r, c)
    return c


def ministral3(r):
    c = mistral(r)
    rope = c.setdefault("rope_parameters", {"rope_type": "default", "rope_theta": 1e4})
    rope.update(llama_4_scaling_beta=r.choice([0.1, 0.5]), original_max_position_embeddings=r.choice([2, 4]))
    return c


def smollm3(r):
    c = grouped(r)
    c.update(mlp_bias=r.random() < 0.4, use_sliding_window=r.random() < 0.5, sliding_window=r.choice([None, 3]),
             no_rope_layer_interval=r.choice([2, 4]))
    if r.random() < 0.5: c["no_rope_layers"] = [r.choice([0, 1]) for _ in range(c["num_hidden_layers"])]
    layer_types(r, c, 0.3)
    return c


def granite(r):
    return dict(grouped(r), mlp_bias=r.random() < 0.4, embedding_multiplier=r.choice([1.0, 3.0]), logits_scaling=r.choice([1.0, 4.0]),
                attention_multiplier=r.choice([0.1, 1.0]), residual_multiplier=r.choice([0.3, 1.0]))


def olmo3(r):
    c = dict(grouped(r), sliding_window=r.choice([3, 4]))
    layer_types(r, c)
    return c


def phi3(r):
    c = without(grouped(r), "attention_bias")
    c.update(sliding_window=r.choice([None, 3, 4]), original_max_position_embeddings=r.choice([4, 8, 16]))
    rope = c.get("rope_parameters")
    if rope and rope["rope_type"] not in ("default", "longrope"): c["rope_parameters"] = dict(rope_type="default", rope_theta=500.0)
    if rope and r.random() < 0.6: c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.5, 1.0])
    return c


def gemma(r):
    return dict(grouped(r), head_dim=r.choice([4, 8]))


def gemma2(r):
    c = gemma(r)
    c["hidden_activation"] = c.pop("hidden_act")
    c.update(sliding_window=r.choice([3, 4]), query_pre_attn_scalar=r.choice([4, 12]),
             attn_logit_softcapping=r.choice([None, 0.5, 2.0]), final_logit_softcapping=r.choice([None, 2.0]))
    layer_types(r, c)
    return c


def gemma3_text(r):
    c = dict(gemma2(r), attn_logit_softcapping=None)
    rope = {k: c["rope_parameters"] for k in ("full_attention", "sliding_attention") if r.random() < 0.7 and "rope_parameters" in c}
    c.pop("rope_parameters", None)
    if rope: c["rope_parameters"] = {k: dict(v) for k, v in rope.items()}
    if r.random() < 0.3: c["sliding_window_pattern"] = 2
    return c


def experts(r, c, count="num_local_experts"):
    c[count] = r.choice([1, 2, 4])
    c.update(num_experts_per_tok=r.choice([1, 2, 4]), output_router_logits=r.random() < 0.2)
    c["num_experts_per_tok"] = min(c["num_experts_per_tok"], c[count])
    return c


def mixtral(r):
    return experts(r, mistral(r))


def qwen3_moe(r):
    c = experts(r, without(grouped(r)), r.choice(["num_experts", "num_local_experts"]))
    c.update(head_dim=r.choice([None, 4, 8]), moe_intermediate_size=r.choice([4, 8]), norm_topk_prob=r.random() < 0.6,
             decoder_sparse_step=r.choice([1, 1, 2]), use_sliding_window=r.random() < 0.4, sliding_window=r.choice([None, 3, 4]))
    if r.random() < 0.5: c["mlp_only_layers"] = r.choice([[], [0], [1]])
    return c


def gpt_oss(r):
    c = experts(r, grouped(r))
    c.update(head_dim=r.choice([4, 8]), sliding_window=r.choice([3, 4, 100]))
    layer_types(r, c)
    return c


def gemma4_text(r):
    c = without(gemma3_text(r), "query_pre_attn_scalar", "attn_logit_softcapping", "sliding_window_pattern")
    c.update(global_head_dim=r.choice([0, 4, 16]), num_kv_shared_layers=r.choice([0, 0, 1]), use_double_wide_mlp=r.random() < 0.5,
             hidden_size_per_layer_input=r.choice([0, 4]), vocab_size_per_layer_input=VOCABULARY,
             attention_k_eq_v=r.random() < 0.3, num_global_key_value_heads=1, enable_moe_block=r.random() < 0.4, num_experts=4,
             top_k_experts=r.choice([1, 2]), moe_intermediate_size=r.choice([4, 8]))
    rope = c.pop("rope_parameters", {})
    if rope:  # the class has no defaults for one of the two
        usual = {"rope_type": "default", "rope_theta": r.choice([10000.0, 500.0])}
        proportional = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": r.choice([0.25, 0.5, 1.0])}
        c["rope_parameters"] = {"sliding_attention": rope.get("sliding_attention", usual),
                                "full_attention": proportional}  # the others have tables for head_dim there
    return c


def qwen3_5_text(r):
    c = grouped(r)
    heads = r.choice([1, 2])
    c.update(head_dim=r.choice([8, 16]), linear_num_key_heads=heads, linear_num_value_heads=heads * r.choice([1, 2]),
             linear_key_head_dim=r.choice([3, 4]), linear_value_head_dim=r.choice([4, 5]), linear_conv_kernel_dim=r.choice([1, 2, 4]))
    c["layer_types"] = r.sample(["full_attention", "linear_attention"], 2) + r.choice([[], ["linear_attention"]])
    c["num_hidden_layers"] = len(c["layer_types"])  # the class needs one of each
    if "rope_parameters" in c and r.random() < 0.5: c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.25, 0.5, 1.0])
    return c


def qwen3_5_moe_text(r):
    c = experts(r, without(qwen3_5_text(r), "intermediate_size"), "num_experts")
    c.update(moe_intermediate_size=r.choice([4, 8]), shared_expert_intermediate_size=r.choice([4, 6]))
    return c


def lfm2(r):
    c = without(grouped(r), "rms_norm_eps", "hidden_act", "attention_bias")
    c.update(norm_eps=r.choice([1e-5, 1e-2]), conv_L_cache=r.choice([1, 2, 3]), conv_bias=r.random() < 0.5,
             block_auto_adjust_ff_dim=r.random() < 0.7, block_multiple_of=r.choice([1, 8]),
             block_ffn_dim_multiplier=r.choice([None, 1.0, 1.3]))
    if r.random() < 0.7: c["layer_types"] = [r.choice(["full_attention", "conv"]) for _ in range(c["num_hidden_layers"])]
    elif r.random() < 0.5: c["full_attn_idxs"] = [0]
    return c


def arcee(r):
    return dict(grouped(r), mlp_bias=r.random() < 0.4, head_dim=r.choice([None, 4, 8]), hidden_act=r.choice(["relu2", "silu"]))


def cohere2(r):
    c = without(grouped(r), "rms_norm_eps")
    c.update(layer_norm_eps=r.choice([1e-5, 1e-2]), logit_scale=r.choice([0.0625, 1.0, 2.0]), sliding_window=r.choice([3, 4]))
    layer_types(r, c)
    return c


def stablelm(r):
    c = without(grouped(r), "rms_norm_eps", "attention_bias")
    c.update(layer_norm_eps=r.choice([1e-5, 1e-2]), use_qkv_bias=r.random() < 0.5, qk_layernorm=r.random() < 0.5,
             use_parallel_residual=r.random() < 0.5)
    if "rope_parameters" in c and r.random() < 0.5: c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.5, 1.0])
    return c


def glm4(r):
    c = dict(grouped(r), head_dim=r.choice([4, 8]))
    if "rope_parameters" in c and r.random() < 0.5: c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.5, 1.0])
    return c


def gpt_neox(r):
    c = decoder(r)
    c.update(use_parallel_residual=r.random() < 0.5, layer_norm_eps=r.choice([1e-5, 1e-2]))
    if "rope_parameters" in c and r.random() < 0.5: c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.5, 1.0])
    return c


def gpt2(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, n_embd=hidden, n_head=heads, n_layer=r.choice([1, 2]), n_positions=32, pad_token_id=0,
                n_inner=r.choice([None, 24]), activation_function=r.choice(["gelu_new", "gelu", "relu", "silu", "tanh"]),
                layer_norm_epsilon=r.choice([1e-5, 1e-2]), scale_attn_weights=r.random() < 0.7,
                scale_attn_by_inverse_layer_idx=r.random() < 0.3, tie_word_embeddings=r.random() < 0.7)


def openai_gpt(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, n_embd=hidden, n_head=heads, n_layer=r.choice([1, 2]), n_positions=32, pad_token_id=0,
                afn=r.choice(["gelu", "relu", "silu", "swish"]), layer_norm_epsilon=r.choice([1e-5, 1e-2]))


def bert(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=r.choice([1, 2]),
                intermediate_size=24, max_position_embeddings=32, type_vocab_size=r.choice([1, 2]),
                hidden_act=r.choice(["gelu", "relu", "silu", "gelu_new"]), layer_norm_eps=r.choice([1e-12, 1e-3]),
                pad_token_id=0, is_decoder=r.random() < 0.15, tie_word_embeddings=r.random() < 0.8)


def roberta(r):
    return dict(bert(r), pad_token_id=1)


def albert(r):
    c = bert(r)
    del c["is_decoder"]
    c.update(embedding_size=r.choice([8, 16]), num_hidden_groups=1, inner_group_num=r.choice([1, 2]))
    if c["num_hidden_layers"] == 2: c["num_hidden_groups"] = r.choice([1, 2])
    return c


def deberta(r):
    c = bert(r)
    del c["is_decoder"]
    c.update(relative_attention=r.random() < 0.7, max_relative_positions=r.choice([-1, 4, 32]), pos_att_type=r.choice(
        [None, ["c2p"], ["p2c"], ["c2p", "p2c"], "c2p|p2c"]), position_biased_input=r.random() < 0.5,
        type_vocab_size=r.choice([0, 2]), legacy=r.random() < 0.7)
    return c


def deberta_v2(r):
    c = deberta(r)
    c.update(position_buckets=r.choice([-1, 4, 8]), share_att_key=r.random() < 0.5,
             norm_rel_ebd=r.choice(["none", "layer_norm"]), conv_kernel_size=r.choice([0, 0, 3]), conv_act="gelu")
    return c


def distilbert(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, dim=hidden, n_heads=heads, n_layers=r.choice([1, 2]), hidden_dim=24, pad_token_id=0,
                max_position_embeddings=32, activation=r.choice(["gelu", "relu"]), sinusoidal_pos_embds=r.random() < 0.3,
                tie_word_embeddings=r.random() < 0.8)


def modernbert(r):
    heads, hidden = sizes(r)
    c = dict(vocab_size=VOCABULARY, hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=r.choice([1, 2, 4]),
             intermediate_size=r.choice([16, 24]), max_position_embeddings=r.choice([16, 32]), pad_token_id=0, bos_token_id=1,
             eos_token_id=1, cls_token_id=1, sep_token_id=1, local_attention=r.choice([2, 5, 8]), norm_eps=r.choice([1e-5, 1e-2]),
             hidden_activation=r.choice(["gelu", "silu"]), classifier_activation=r.choice(["gelu", "relu"]),
             classifier_pooling=r.choice(["cls", "mean"]))
    c.update({key: r.random() < 0.4 for key in ("norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias")})
    if r.random() < 0.4: c["global_attn_every_n_layers"] = 2
    layer_types(r, c, 0.4)
    return c


def flaubert(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, emb_dim=hidden, n_heads=heads, n_layers=r.choice([1, 2]), pre_norm=r.random() < 0.5,
                gelu_activation=r.random() < 0.7, causal=r.random() < 0.2, n_langs=1, max_position_embeddings=32,
                pad_token_id=2, layer_norm_eps=r.choice([1e-12, 1e-3]), sinusoidal_embeddings=r.random() < 0.2)


def xlnet(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, d_model=hidden, n_head=heads, n_layer=r.choice([1, 2]), d_inner=24,
                ff_activation=r.choice(["gelu", "relu"]), attn_type=r.choice(["bi", "bi", "uni"]),
                clamp_len=r.choice([-1, -1, 4]), summary_type=r.choice(["last", "first", "mean"]),
                summary_activation=r.choice(["tanh", "relu"]), pad_token_id=5)


def t5(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, d_model=hidden, num_heads=heads, d_kv=r.choice([4, 8]), d_ff=24, num_layers=r.choice([1, 2]),
                num_decoder_layers=r.choice([None, 1, 2]), relative_attention_num_buckets=r.choice([8, 32]),
                relative_attention_max_distance=r.choice([32, 128]), tie_word_embeddings=r.random() < 0.5,
                feed_forward_proj=r.choice(["relu", "gated-gelu", "gelu", "gated-silu"]), pad_token_id=0,
                decoder_start_token_id=0, layer_norm_epsilon=r.choice([1e-6, 1e-2]))


def bart(r):
    heads, hidden = sizes(r)
    return dict(vocab_size=VOCABULARY, d_model=hidden, encoder_layers=r.choice([1, 2]), decoder_layers=r.choice([1, 2]),
                encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=24, decoder_ffn_dim=16,
                activation_function=r.choice(["gelu", "relu", "swish"]), scale_embedding=r.random() < 0.5,
                max_position_embeddings=32, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)


def marian(r):
    return dict(bart(r), pad_token_id=59, decoder_start_token_id=59)


def vit(r):
    heads, hidden = sizes(r)
    return dict(hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=r.choice([1, 2]), intermediate_size=24,
                image_size=8, patch_size=r.choice([2, 4]), num_channels=r.choice([1, 3]), qkv_bias=r.random() < 0.6,
                hidden_act=r.choice(["gelu", "relu"]), layer_norm_eps=r.choice([1e-12, 1e-3]))


FAMILIES = {"llama": llama, "qwen3": qwen3, "qwen2": qwen2, "mistral": mistral, "ministral": ministral, "ministral3": ministral3,
            "smollm3": smollm3, "granite": granite, "olmo2": grouped, "olmo3": olmo3, "phi3": phi3, "gemma": gemma, "gemma2": gemma2,
            "gemma3_text": gemma3_text, "arcee": arcee, "cohere2": cohere2, "stablelm": stablelm, "glm4": glm4, "gpt_neox": gpt_neox, "gpt2": gpt2, "openai-gpt": openai_gpt, "bert": bert,
            "roberta": roberta, "albert": albert, "deberta": deberta, "deberta-v2": deberta_v2, "distilbert": distilbert, "modernbert": modernbert,
            "mixtral": mixtral, "qwen3_moe": qwen3_moe, "gpt_oss": gpt_oss, "gemma4_text": gemma4_text, "qwen3_5_text": qwen3_5_text,
            "qwen3_5_moe_text": qwen3_5_moe_text, "lfm2": lfm2, "flaubert": flaubert, "xlnet": xlnet, "t5": t5, "bart": bart, "marian": marian, "vit": vit}

# Keys of other models, and what they may be.
ODD = {"sliding_window": [None, 3], "use_sliding_window": [False, True], "layer_types": [None, ["full_attention"], ["chunked_attention"]],
       "attention_bias": [False, True], "qkv_bias": [False, True], "mlp_bias": [False, True], "lm_head_bias": [False, True],
       "attn_logit_softcapping": [None, 2.0], "final_logit_softcapping": [None, 2.0], "logit_scale": [None, 1.0, 0.1],
       "logits_scaling": [1, 8.0], "embedding_multiplier": [1.0, 12.0], "residual_multiplier": [1.0, 0.2],
       "query_pre_attn_scalar": [None, 3], "partial_rotary_factor": [None, 1.0, 0.5], "rotary_pct": [None, 0.5],
       "rope_theta": [None, 10000.0, 777.0], "rotary_emb_base": [None, 777], "no_rope_layers": [None, [1, 1], [0, 1]],
       "rope_scaling": [None, {}, {"type": "linear", "factor": 2.0}, {"rope_type": "default"}, {"type": "yarn", "factor": 2.0},
                        {"rope_type": "llama3", "type": "linear", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}],
       "rope_parameters": [None, {}, {"rope_type": "default", "rope_theta": 99.0},
                           {"full_attention": {"rope_type": "default", "rope_theta": 99.0}}],
       "original_max_position_embeddings": [8], "position_embedding_type": [None, "absolute", "relative_key", "alibi", "nope"],
       "alibi": [False, True], "qk_norm": [False, True], "use_qk_norm": [False, True], "parallel_attn": [False, True],
       "use_parallel_residual": [False, True], "clip_qkv": [None, 1.0], "head_dim": [None, 4, 8], "num_experts": [None, 0, 4],
       "num_local_experts": [None, 2], "kv_lora_rank": [None, 8], "use_bidirectional_attention": [None, False, True],
       "is_causal": [None, True, False], "is_decoder": [False, True], "add_cross_attention": [False, True],
       "hidden_act": [None, "relu", "tanh"], "activation_function": [None, "relu"], "tie_word_embeddings": [True, False, None],
       "scale_attn_by_inverse_layer_idx": [False, True], "scale_embedding": [False, True], "normalize_before": [False, True],
       "add_final_layer_norm": [False, True], "pre_norm": [False, True], "pruned_heads": [{}, {"0": [0]}],
       "embedding_size": [None, 8], "same_length": [False, True], "bi_data": [False, True], "untie_r": [True, False],
       "d_head": [None, 4], "summary_use_proj": [True, False], "talking_head": [False, True], "conv_groups": [1, 2],
       "attention_head_size": [None, 4, 16], "asm": [False, True], "lm_head": [None], "auto_map": [{}],
       "quantization_config": [None, {"quant_method": "gptq", "bits": 4}], "text_config": [None, {}],
       "transformers_version": ["4.0.0"], "something_else": [1], "num_nextn_predict_layers": [1],
       "layer_norm_eps": [1e-5, 0.1], "rms_norm_eps": [0.1], "layer_norm_epsilon": [0.1], "legacy": [True, False],
       "scale_decoder_outputs": [True, False], "max_window_layers": [0, 1], "num_key_value_heads": [None, 1],
       "window_size": [None, 4], "norm_rel_ebd": ["none", "layer_norm"], "feed_forward_proj": ["relu", "gated-gelu"],
       "dense_act_fn": ["relu", "gelu"], "is_gated_act": [False, True], "layernorm_embedding": [False], "n_ctx": [16]}
NESTED = {"partial_rotary_factor": [1.0, 0.5], "factor": [2.0], "type": ["linear", "default"], "beta_fast": [32.0],
          "attention_factor": [1.0, 2.0], "original_max_position_embeddings": [8], "mscale": [1.0], "other": [1],
          "low_freq_factor": [1.0], "rope_theta": [123.0], "full_attention": [{"rope_type": "default"}]}


def edit(r, config, classes, model_type):
    """Changes a saved config.json as people and older versions do; returns what was done."""
    done = []
    for _ in range(r.choice([0, 1, 1, 2, 3])):
        kind = r.random()
        if kind < 0.45:
            key = r.choice(list(ODD))
            config[key] = r.choice(ODD[key])
            done.append(f"{key} = {json.dumps(config[key])}")
        elif kind < 0.60:
            key = r.choice(list(config))
            config[key] = None
            done.append(f"{key} = null")
        elif kind < 0.72:
            key = r.choice(list(config))
            del config[key]
            done.append(f"without {key}")
        elif kind < 0.82 and isinstance(config.get("rope_parameters"), dict):
            key = r.choice(list(NESTED))
            config["rope_parameters"][key] = r.choice(NESTED[key])
            done.append(f"rope_parameters.{key} = {json.dumps(config['rope_parameters'][key])}")
        elif kind < 0.92 and isinstance(config.get("rope_parameters"), dict):  # the older spelling
            rope = config.pop("rope_parameters")
            theta = rope.pop("rope_theta", None)
            if theta is not None: config[r.choice(["rope_theta", "rotary_emb_base"])] = theta
            if "partial_rotary_factor" in rope: config["rotary_pct"] = rope.pop("partial_rotary_factor")
            if rope.get("rope_type", "default") != "default":
                if r.random() < 0.5: rope["type"] = rope.pop("rope_type")
                config["rope_scaling"] = rope
            done.append("old rope keys")
        elif kind < 0.96:
            config["architectures"] = [r.choice(classes)]
            done.append(f"architectures = {config['architectures']}")
        elif r.random() < 0.5:
            config["model_type"] = r.choice(["llama", "granite", "bert", "gpt2", "mistral", "cohere", "qwen3_moe"])
            done.append(f"model_type = {config['model_type']}")
    return done


def random_model(r, model_type, cls):
    config_class = T.CONFIG_MAPPING[model_type]
    given = FAMILIES[model_type](r)
    if r.random() < 0.9: fit_longrope(r, given)
    base = config_class(**({"head_dim": 8} if model_type == "ministral" else {}))
    given.update({k: 0.0 for k, v in base.to_dict().items() if any(d in k for d in DROPOUT) and isinstance(v, float)})
    config = config_class(**given)
    config._attn_implementation = config._experts_implementation = "eager"
    model = cls(config)
    g = torch.Generator().manual_seed(r.getrandbits(30))
    with torch.no_grad():
        for _, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=g) * 0.1)
            else:
                p.mul_(4.0)
    return model


def inputs_of(r, model_type, cls, config):
    g = torch.Generator().manual_seed(r.getrandbits(30))
    if model_type == "vit":
        return {"pixel_values": torch.rand((BATCH, config.num_channels, config.image_size, config.image_size), generator=g)}
    ids = torch.randint(6, VOCABULARY - 2, (BATCH, ROW), generator=g)
    mask = torch.ones_like(ids)
    mask[1, ROW - 2:] = 0
    pad = config.pad_token_id
    if pad is not None and 0 <= pad < VOCABULARY: ids[1, ROW - 2:] = pad
    if model_type == "bart": ids[0, -1] = ids[1, ROW - 3] = config.eos_token_id or 2
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.randint(6, VOCABULARY - 2, (BATCH, 6), generator=g)
    return inputs


class Float64(TorchFunctionMode):
    """Computes norms and the softmax of scores in float64 where transformers rounds to float32: scores of hundreds, which
    the large weights here have, would then have an error of 1e-5. Angles of rotary positions stay float32, as they are in
    Hekla."""

    def __init__(self, model):
        super().__init__()
        self.angles = 0
        for module in model.modules():
            if "Rotary" in type(module).__name__:
                module.register_forward_pre_hook(lambda *_: self.count(1))
                module.register_forward_hook(lambda *_: self.count(-1), always_call=True)

    def count(self, by):
        self.angles += by

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if self.angles == 0 and args and torch.is_tensor(args[0]) and args[0].dtype == torch.float64:
            rounds = any(x is torch.float32 for x in (*args[1:], kwargs.get("dtype")))
            if function is torch.Tensor.float or (function is torch.Tensor.to and rounds): return args[0]
            if rounds and kwargs.get("dtype") is torch.float32: kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


def double(model):
    if isinstance(model, (T.XLNetLMHeadModel, T.XLNetModel, T.XLNetForSequenceClassification, T.XLNetForTokenClassification)):
        body = getattr(model, "transformer", model)
        table = body.relative_positional_encoding
        body.relative_positional_encoding = lambda *a, **k: table(*a, **k).double()
    return model.double().eval()


def write_case(r, folder, manifest, model_type, reference, all_classes):
    """Writes a fixture for `hekla doctor --test`. Returns (what was done, whether the reference computes it)."""
    cls = getattr(T, reference["class"])
    while True:  # until the options go together
        try:
            random_model(r, model_type, cls).save_pretrained(folder)
            break
        except Exception:  # noqa: transformers raises of many kinds
            continue
    path = folder / "config.json"
    config = json.loads(path.read_text())
    done = edit(r, config, all_classes, model_type)
    path.write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    expected, inputs = {}, {}
    try:
        loaded = T.AutoConfig.from_pretrained(folder)
        if type(loaded) is not cls.config_class: raise ValueError("another model_type")
        model, info = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        if info["missing_keys"] or info["mismatched_keys"] or info["unexpected_keys"]: raise ValueError("other tensors")
        model.config._experts_implementation = "eager"
        inputs = inputs_of(r, model_type, cls, model.config)
        names = {a for a, _ in (reference["outputs"].items() if isinstance(reference["outputs"], dict) else reference["outputs"])}
        with torch.no_grad(), Float64(model):
            out = double(model)(**{k: v.double() if v.is_floating_point() else v for k, v in inputs.items()})
        expected = {f"out.{k}": v.float().contiguous() for k, v in out.items()
                    if k in names and torch.is_tensor(v) and v.is_floating_point() and torch.isfinite(v).all()}
    except Exception as problem:  # transformers raises errors of many kinds
        done.append(f"[{type(problem).__name__}: {str(problem)[:100]}]")
    computed = bool(expected)
    if not computed:
        inputs = {"input_ids": torch.ones((1, 1), dtype=torch.long)}
        expected = {"out.logits": torch.zeros((1, 1, 1))}
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "inputs.safetensors")
    save_file(expected, folder / "expected.safetensors")
    (folder / "fixture.json").write_text(json.dumps({"class": reference["class"]}))
    return done, computed


def arguments(about, more={}):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hekla")
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    for flag, options in more.items(): parser.add_argument(flag, **options)
    return parser.parse_args()


def compare(a, write, library):
    """Writes a.count cases with write(number, folder), which returns (family, name, what was done, whether the library
    computes it), compares Hekla with them, prints the counts and exits."""
    torch.set_num_threads(1)
    counts = collections.defaultdict(collections.Counter)
    reasons, different, largest = collections.Counter(), [], collections.Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
        root, number = pathlib.Path(temporary), 0
        while number < a.count:
            batch = {}
            for number in range(number, min(number + 50, a.count)):
                folder = root / f"{number}"
                batch[folder.name] = write(number, folder)
            number += 1
            ran = subprocess.run([a.hekla, "verify", "--reference", "--json", *[root / name for name in batch]],
                                 capture_output=True, text=True)
            try:
                reports = json.loads(ran.stdout)
            except json.JSONDecodeError:
                sys.exit(f"hekla doctor --test: {ran.stdout[-500:]} {ran.stderr[-2000:]}")
            for report in reports:
                family, name, done, computed = batch[report["fixture"]]
                problem = report.get("problem") or report.get("error") or ""
                if not computed:
                    counts[family][f"not computed by {library}"] += 1
                elif not problem and (report.get("outputs") or 0) < TOLERANCE:
                    counts[family]["equal"] += 1
                    largest[family] = max(largest[family], report.get("outputs") or 0)
                elif problem:
                    counts[family]["refused"] += 1
                    reasons[f"{name}: {'; '.join(done)} -> {problem[:260]}"] += 1
                else:
                    counts[family]["DIFFERENT"] += 1
                    different.append(f"{report['fixture']} {name}: {'; '.join(done)}: {json.dumps(report)[:300]}")
                    if a.keep: shutil.copytree(root / report["fixture"], a.keep / report["fixture"], dirs_exist_ok=True)
                shutil.rmtree(root / report["fixture"])
    for family, counter in sorted(counts.items()): print(f"{family:14s} {dict(counter)}, error up to {largest[family]:.1e}")
    total = sum(counts.values(), collections.Counter())
    print(f"{'all':14s} {dict(total)}")
    if a.keep:
        a.keep.mkdir(parents=True, exist_ok=True)
        (a.keep / "refused.txt").write_text("\n".join(sorted(reasons)) + "\n")
    for line in different: print(f"DIFFERENT {line}")
    sys.exit(1 if different else 0)


def main():
    a = arguments(__doc__, {"--only": {"nargs": "+", "default": [], "metavar": "FAMILY"}})
    cases = []
    for manifest in sorted(a.plugins.glob("*/manifest.json")):
        for part in json.loads(manifest.read_text())["provides"]:
            for model_type in part.get("model_types", []):
                if model_type in FAMILIES:
                    cases += [(part, model_type, c) for c in part["classes"]
                              if hasattr(T, c["class"]) and "DoubleHeads" not in c["class"]
                              and getattr(T, c["class"]).config_class is T.CONFIG_MAPPING[model_type]]  # not of images, too
    classes = [c["class"] for _, _, c in cases] + ["GraniteForCausalLM", "NoSuchModel"]
    by_type = collections.defaultdict(list)
    for case in cases: by_type[case[1]].append(case)
    types = sorted(t for t in by_type if not a.only or t in a.only)

    def write(number, folder):
        r = random.Random(f"{a.seed}/{number}")
        model_type = types[number % len(types)]
        part, _, reference = r.choice(by_type[model_type])
        done, computed = write_case(r, folder, part, model_type, reference, classes)
        return model_type, reference["class"], done, computed

    compare(a, write, "transformers")


if __name__ == "__main__":
    main()
