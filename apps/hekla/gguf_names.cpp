#include "gguf_names.hpp"

namespace hekla::app {
namespace {

constexpr Mapping kCommon[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Form::query_heads},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Form::query_heads},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Form::key_heads},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Form::key_heads},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight"},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias"},
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias"},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias"},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight"},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias"},
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"model.layers.#.mlp.experts.gate_proj.weight", "blk.#.ffn_gate_exps.weight"},
    {"model.layers.#.mlp.experts.up_proj.weight", "blk.#.ffn_up_exps.weight"},
    {"model.layers.#.mlp.experts.down_proj.weight", "blk.#.ffn_down_exps.weight"},
    {"model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"model.layers.#.block_sparse_moe.experts.w1.weight", "blk.#.ffn_gate_exps.weight"},
    {"model.layers.#.block_sparse_moe.experts.w3.weight", "blk.#.ffn_up_exps.weight"},
    {"model.layers.#.block_sparse_moe.experts.w2.weight", "blk.#.ffn_down_exps.weight"},
    {"lm_head.weight", "output.weight"},
};

// The norms, which the decoders have in different places.
constexpr Mapping kBefore[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
    {"model.norm.weight", "output_norm.weight"},
};
constexpr Mapping kAfter[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
    {"model.norm.weight", "output_norm.weight"},
};
constexpr Mapping kGemma[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", Form::plus_one},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", Form::plus_one},
    {"model.norm.weight", "output_norm.weight", Form::plus_one},
};
constexpr Mapping kGemma3[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", Form::plus_one},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", Form::plus_one},
    {"model.layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", Form::plus_one},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", Form::plus_one},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", Form::plus_one},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", Form::plus_one},
    {"model.norm.weight", "output_norm.weight", Form::plus_one},
};
// LayerNorms, with biases where the model has them.
constexpr Mapping kLayerNorms[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.input_layernorm.bias", "blk.#.attn_norm.bias"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias"},
    {"model.norm.weight", "output_norm.weight"},
    {"model.norm.bias", "output_norm.bias"},
};
constexpr Mapping kGlm4[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.post_self_attn_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.post_mlp_layernorm.weight", "blk.#.post_ffw_norm.weight"},
    {"model.norm.weight", "output_norm.weight"},
};
// Experts are [E, in, out] here, gates and values alternate.
constexpr Mapping kGptOss[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"},
    {"model.layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight"},
    {"model.layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias"},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", Form::even_columns},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", Form::odd_columns},
    {"model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", Form::even_columns},
    {"model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", Form::odd_columns},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", Form::all_columns},
    {"model.layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias"},
    {"model.norm.weight", "output_norm.weight"},
};
constexpr Mapping kLfm2[] = {
    {"model.layers.#.operator_norm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.conv.conv.weight", "blk.#.shortconv.conv.weight", Form::without_middle},
    {"model.layers.#.conv.in_proj.weight", "blk.#.shortconv.in_proj.weight"},
    {"model.layers.#.conv.out_proj.weight", "blk.#.shortconv.out_proj.weight"},
    {"model.layers.#.self_attn.q_layernorm.weight", "blk.#.attn_q_norm.weight"},
    {"model.layers.#.self_attn.k_layernorm.weight", "blk.#.attn_k_norm.weight"},
    {"model.layers.#.self_attn.out_proj.weight", "blk.#.attn_output.weight"},
    {"model.layers.#.feed_forward.w1.weight", "blk.#.ffn_gate.weight"},
    {"model.layers.#.feed_forward.w3.weight", "blk.#.ffn_up.weight"},
    {"model.layers.#.feed_forward.w2.weight", "blk.#.ffn_down.weight"},
    {"model.embedding_norm.weight", "token_embd_norm.weight"},
};

} // namespace

std::span<const Mapping> mappings_of(GgufNames names) {
    switch (names) {
    case GgufNames::common: return kCommon;
    case GgufNames::norms_before: return kBefore;
    case GgufNames::norms_after: return kAfter;
    case GgufNames::gemma: return kGemma;
    case GgufNames::gemma_twice: return kGemma3;
    case GgufNames::layer_norms: return kLayerNorms;
    case GgufNames::glm4: return kGlm4;
    case GgufNames::gpt_oss: return kGptOss;
    case GgufNames::lfm2: return kLfm2;
    }
    return {};
}

} // namespace hekla::app
