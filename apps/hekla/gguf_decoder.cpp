#include "gguf_decoder.hpp"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

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

// Whether a key has one of two values, which mean the same.
bool is_one_of(const ordered_json& value, const char* a, const char* b) { return value == a || value == b; }

Status check_silu(const GgufSettings& s) {
    return require_key(is_one_of(s.get("hidden_act"), "silu", "swish"), "hidden_act", "silu");
}
Status check_no_biases(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    HK_TRY(require_key(s.get("attention_bias", false) == false, "attention_bias", "false"));
    return require_key(s.get("mlp_bias", false) == false, "mlp_bias", "false");
}
Status check_qwen3_moe(const GgufSettings& s) {
    HK_TRY(check_no_biases(s));
    HK_TRY(require_key(s.get("norm_topk_prob") == true, "norm_topk_prob", "true"));
    return require_key(s.get("mlp_only_layers").empty(), "mlp_only_layers", "empty");
}
Status check_whole_heads(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    return require_key(s.count("head_dim") * s.count("num_attention_heads") == s.count("hidden_size"), "head_dim",
                       "hidden_size / num_attention_heads");
}
Status check_smollm3(const GgufSettings& s) {
    HK_TRY(check_no_biases(s));
    const ordered_json rotated = s.get("no_rope_layers", ordered_json::array());
    bool usual = true; // which layers have positions is not a key of llama.cpp
    for (std::size_t i = 0; i < rotated.size(); ++i) usual = usual && (rotated[i] != 0) == ((i + 1) % 4 != 0);
    return require_key(usual, "no_rope_layers", "0 in every fourth layer alone");
}
Status check_gelu(const GgufSettings& s, const char* key) {
    HK_TRY(require_key(s.get("attention_bias", false) == false, "attention_bias", "false"));
    return require_key(is_one_of(s.get(key), "gelu_pytorch_tanh", "gelu_new"), key, "gelu_pytorch_tanh");
}
Status check_gemma(const GgufSettings& s) { return check_gelu(s, "hidden_act"); }
Status check_gemma3(const GgufSettings& s) {
    HK_TRY(check_gelu(s, "hidden_activation"));
    const ordered_json types = s.get("layer_types", ordered_json::array());
    bool usual = true;
    for (std::size_t i = 0; i < types.size(); ++i)
        usual = usual && (types[i] == "full_attention") == ((i + 1) % 6 == 0);
    HK_TRY(require_key(usual, "layer_types", "full_attention in every sixth layer alone"));
    // llama.cpp knows the largest Gemma 3 by its layers, whose scores have another scale.
    const uint32_t width = s.count("num_hidden_layers") == 62 ? s.count("hidden_size") / s.count("num_attention_heads")
                                                              : s.count("head_dim");
    HK_TRY(require_key(s.real("query_pre_attn_scalar") == static_cast<float>(width), "query_pre_attn_scalar",
                       std::to_string(width)));
    const ordered_json local = s.json().at("rope_parameters").at("sliding_attention");
    return require_key(local.at("rope_type") == "default", "rope_parameters.sliding_attention.rope_type", "default");
}

// Llama 3's scaling of low frequencies, as a divisor for each: 1 for short waves, `factor` for long ones.
std::vector<float> frequency_divisors(const ordered_json& rotary, uint32_t width) {
    const double base = rotary.at("rope_theta"), factor = rotary.at("factor"), low = rotary.at("low_freq_factor"),
                 high = rotary.at("high_freq_factor"), before = rotary.at("original_max_position_embeddings");
    std::vector<float> divisors;
    for (uint32_t i = 0; i < width / 2; ++i) {
        const double wave = 2.0 * std::numbers::pi * std::pow(base, 2.0 * i / width);
        const double smooth = (before / wave - low) / (high - low);
        divisors.push_back(static_cast<float>(wave < before / high  ? 1.0
                                              : wave > before / low ? factor
                                                                    : 1.0 / ((1.0 - smooth) / factor + smooth)));
    }
    return divisors;
}

} // namespace

std::span<const GgufDecoder> GgufDecoder::all() {
    static constexpr GgufDecoder kAll[] = {
        {"llama", "llama", true, kBefore, check_silu},
        {"mistral", "llama", true, kBefore, check_silu},
        {"qwen2", "qwen2", false, kBefore, check_silu},
        {"qwen3", "qwen3", false, kBefore, check_no_biases},
        {"smollm3", "smollm3", true, kBefore, check_smollm3},
        {"granite", "granite", true, kBefore, check_whole_heads},
        {"olmo2", "olmo2", false, kAfter, check_no_biases},
        {"phi3", "phi3", false, kBefore, check_whole_heads},
        {"mixtral", "llama", true, kBefore, check_silu},
        {"qwen3_moe", "qwen3moe", false, kBefore, check_qwen3_moe},
        {"gemma", "gemma", false, kGemma, check_gemma},
        {"gemma3_text", "gemma3", false, kGemma3, check_gemma3},
    };
    return kAll;
}

const GgufDecoder* GgufDecoder::find(std::string_view architecture) {
    for (const GgufDecoder& one : all())
        if (one.is(architecture)) return &one;
    return nullptr;
}

std::string GgufDecoder::known() {
    std::string names;
    for (const GgufDecoder& one : all()) names += (names.empty() ? "" : ", ") + std::string(one.architecture_);
    return names;
}

std::vector<Mapping> GgufDecoder::mappings() const {
    std::vector<Mapping> mappings(norms_.begin(), norms_.end());
    for (Mapping one : kCommon) {
        if (!interleaved_ && (one.form == Form::query_heads || one.form == Form::key_heads)) one.form = Form::as_is;
        mappings.push_back(one);
    }
    return mappings;
}

Status GgufDecoder::add_keys(const GgufSettings& s, model::GgufKeys& keys, std::vector<GgufVector>& vectors,
                             std::vector<std::string>& notes) const {
    HK_TRY(check_(s));
    const uint32_t width = s.count("head_dim");
    keys.emplace_back(key("vocab_size"), s.count("vocab_size"));
    keys.emplace_back(key("context_length"), s.count("max_position_embeddings"));
    keys.emplace_back(key("embedding_length"), s.count("hidden_size"));
    keys.emplace_back(key("block_count"), s.count("num_hidden_layers"));
    keys.emplace_back(key("feed_forward_length"), s.count("intermediate_size"));
    keys.emplace_back(key("attention.head_count"), s.count("num_attention_heads"));
    keys.emplace_back(key("attention.head_count_kv"), s.count("num_key_value_heads"));
    keys.emplace_back(key("attention.key_length"), width);
    keys.emplace_back(key("attention.value_length"), width);
    keys.emplace_back(key("attention.layer_norm_rms_epsilon"), s.real("rms_norm_eps"));
    HK_TRY(add_rotary(s, keys, vectors));
    if (is("mixtral") || is("qwen3_moe")) {
        keys.emplace_back(key("expert_count"), s.count(is("mixtral") ? "num_local_experts" : "num_experts"));
        keys.emplace_back(key("expert_used_count"), s.count("num_experts_per_tok"));
    }
    if (is("qwen3_moe")) keys.emplace_back(key("expert_feed_forward_length"), s.count("moe_intermediate_size"));
    if (is("granite")) {
        keys.emplace_back(key("attention.scale"), s.real("attention_multiplier"));
        keys.emplace_back(key("embedding_scale"), s.real("embedding_multiplier"));
        keys.emplace_back(key("residual_scale"), s.real("residual_multiplier"));
        keys.emplace_back(key("logit_scale"), s.real("logits_scaling"));
    }
    if (is("gemma3_text") && s.get("final_logit_softcapping").is_number())
        keys.emplace_back(key("final_logit_softcapping"), s.real("final_logit_softcapping"));
    add_windows(s, keys, notes);
    return {};
}

Status GgufDecoder::add_rotary(const GgufSettings& s, model::GgufKeys& keys, std::vector<GgufVector>& vectors) const {
    const ordered_json& parameters = s.json().at("rope_parameters");
    const bool by_type = is("gemma3_text");
    const ordered_json& rotary = by_type ? parameters.at("full_attention") : parameters;
    const uint32_t width = s.count("head_dim");
    const auto rotated = static_cast<uint32_t>(rotary.value("partial_rotary_factor", 1.0) * width);
    HK_TRY(
        require_key(rotated % 2 == 0 && (rotated == width || is("phi3")), "head_dim", "even, and turned as a whole"));
    keys.emplace_back(key("rope.dimension_count"), rotated);
    keys.emplace_back(key("rope.freq_base"), rotary.at("rope_theta").get<float>());
    if (by_type)
        keys.emplace_back(key("rope.freq_base_swa"), parameters.at("sliding_attention").at("rope_theta").get<float>());
    const std::string type = rotary.at("rope_type");
    if (type == "linear") {
        keys.emplace_back(key("rope.scaling.type"), "linear");
        keys.emplace_back(key("rope.scaling.factor"), rotary.at("factor").get<float>());
    } else if (type == "llama3" && std::string_view(name_) == "llama") {
        vectors.push_back({"rope_freqs.weight", frequency_divisors(rotary, width)});
    } else if (type == "yarn" && !is("phi3")) {
        HK_TRY(require_key(rotary.value("attention_factor", ordered_json()).is_null() &&
                               rotary.value("mscale", ordered_json()).is_null() && rotary.value("truncate", true),
                           "rope_parameters", "yarn without attention_factor, mscale and truncate"));
        keys.emplace_back(key("rope.scaling.type"), "yarn");
        keys.emplace_back(key("rope.scaling.factor"), rotary.at("factor").get<float>());
        keys.emplace_back(key("rope.scaling.original_context_length"),
                          rotary.at("original_max_position_embeddings").get<uint32_t>());
        keys.emplace_back(key("rope.scaling.yarn_beta_fast"), rotary.value("beta_fast", 32.0f));
        keys.emplace_back(key("rope.scaling.yarn_beta_slow"), rotary.value("beta_slow", 1.0f));
    } else if (type == "longrope" && is("phi3")) {
        const auto original = s.count("original_max_position_embeddings");
        const double grown = static_cast<double>(s.count("max_position_embeddings")) / original;
        HK_TRY(require_key(rotary.value("attention_factor", ordered_json()).is_null(),
                           "rope_parameters.attention_factor", "missing"));
        vectors.push_back({"rope_factors_long.weight", rotary.at("long_factor").get<std::vector<float>>()});
        vectors.push_back({"rope_factors_short.weight", rotary.at("short_factor").get<std::vector<float>>()});
        keys.emplace_back(
            key("rope.scaling.attn_factor"),
            static_cast<float>(grown > 1.0 ? std::sqrt(1.0 + std::log(grown) / std::log(original)) : 1.0));
    } else {
        HK_TRY(require_key(type == "default", "rope_parameters.rope_type", fmt::format("another one than '{}'", type)));
    }
    if (is("phi3"))
        keys.emplace_back(key("rope.scaling.original_context_length"), s.count("original_max_position_embeddings"));
    return {};
}

void GgufDecoder::add_windows(const GgufSettings& s, model::GgufKeys& keys, std::vector<std::string>& notes) const {
    const ordered_json window = s.get("sliding_window");
    const bool used =
        window.is_number_integer() && window.get<int64_t>() > 0 && s.get("use_sliding_window", true) == true;
    if (is("gemma3_text")) {
        if (used) keys.emplace_back(key("attention.sliding_window"), window.get<uint32_t>());
        return;
    }
    if (is("phi3")) keys.emplace_back(key("attention.sliding_window"), used ? window.get<uint32_t>() : 0u);
    if (used)
        notes.push_back(fmt::format("llama.cpp has no window in models of this kind: in rows of more than {} tokens "
                                    "each token sees all before it, and the model was made for the last {}",
                                    window.get<int64_t>(), window.get<int64_t>()));
}

} // namespace hekla::app
