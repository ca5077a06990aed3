#include "gguf_decoder.hpp"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

uint32_t head_width(const GgufSettings& s) {
    return s.get("head_dim").is_number_integer() ? s.count("head_dim")
                                                 : s.count("hidden_size") / s.count("num_attention_heads");
}

// Whether a key has one of two values, which mean the same.
bool is_one_of(const ordered_json& value, const char* a, const char* b) { return value == a || value == b; }

Status require_false(const GgufSettings& s, const char* key) {
    return require_key(s.get(key, false) == false, key, "false");
}

Status check_silu(const GgufSettings& s) {
    return require_key(is_one_of(s.get("hidden_act"), "silu", "swish"), "hidden_act", "silu");
}
Status check_layers_without_biases(const GgufSettings& s) {
    HK_TRY(require_false(s, "attention_bias"));
    return require_false(s, "mlp_bias");
}
Status check_no_biases(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    return check_layers_without_biases(s);
}
Status check_qwen3_moe(const GgufSettings& s) {
    HK_TRY(check_no_biases(s));
    HK_TRY(require_key(s.get("norm_topk_prob") == true, "norm_topk_prob", "true"));
    return require_key(s.get("mlp_only_layers").empty(), "mlp_only_layers", "empty");
}
Status check_whole_heads(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    return require_key(head_width(s) * s.count("num_attention_heads") == s.count("hidden_size"), "head_dim",
                       "hidden_size / num_attention_heads");
}
Status check_smollm3(const GgufSettings& s) {
    HK_TRY(check_no_biases(s));
    const ordered_json rotated = s.get("no_rope_layers", ordered_json::array());
    bool usual = true; // which layers have positions is not a key of llama.cpp
    for (std::size_t i = 0; i < rotated.size(); ++i) usual = usual && (rotated[i] != 0) == ((i + 1) % 4 != 0);
    return require_key(usual, "no_rope_layers", "0 in every fourth layer alone");
}
// llama.cpp knows which layers have a window by their number alone.
Status check_layer_types(const GgufSettings& s, std::size_t period, const char* ordinal) {
    const ordered_json types = s.get("layer_types", ordered_json::array());
    bool usual = true;
    for (std::size_t i = 0; i < types.size(); ++i)
        usual = usual && (types[i] == "full_attention") == ((i + 1) % period == 0);
    return require_key(usual, "layer_types", fmt::format("full_attention in every {} layer alone", ordinal));
}
Status check_gelu(const GgufSettings& s, const char* key) {
    HK_TRY(require_false(s, "attention_bias"));
    return require_key(is_one_of(s.get(key), "gelu_pytorch_tanh", "gelu_new"), key, "gelu_pytorch_tanh");
}
Status check_gemma(const GgufSettings& s) { return check_gelu(s, "hidden_act"); }
Status check_gemma2(const GgufSettings& s) {
    HK_TRY(check_gelu(s, "hidden_activation"));
    HK_TRY(check_layer_types(s, 2, "second"));
    HK_TRY(require_key(s.get("attn_logit_softcapping").is_number(), "attn_logit_softcapping", "a number"));
    HK_TRY(require_key(s.get("final_logit_softcapping").is_number(), "final_logit_softcapping", "a number"));
    // The largest is known by its layers, as for Gemma 3.
    const uint32_t width =
        s.count("num_hidden_layers") == 46 ? s.count("hidden_size") / s.count("num_attention_heads") : head_width(s);
    return require_key(s.real("query_pre_attn_scalar") == static_cast<float>(width), "query_pre_attn_scalar",
                       std::to_string(width));
}
Status check_gemma3(const GgufSettings& s) {
    HK_TRY(check_gelu(s, "hidden_activation"));
    HK_TRY(check_layer_types(s, 6, "sixth"));
    // llama.cpp knows the largest Gemma 3 by its layers, whose scores have another scale.
    const uint32_t width =
        s.count("num_hidden_layers") == 62 ? s.count("hidden_size") / s.count("num_attention_heads") : head_width(s);
    HK_TRY(require_key(s.real("query_pre_attn_scalar") == static_cast<float>(width), "query_pre_attn_scalar",
                       std::to_string(width)));
    const ordered_json local = s.json().at("rope_parameters").at("sliding_attention");
    return require_key(local.at("rope_type") == "default", "rope_parameters.sliding_attention.rope_type", "default");
}

Status check_arcee(const GgufSettings& s) {
    HK_TRY(require_key(s.get("hidden_act") == "relu2", "hidden_act", "relu2"));
    return check_layers_without_biases(s);
}
Status check_cohere2(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    HK_TRY(require_false(s, "attention_bias"));
    return check_layer_types(s, 4, "fourth");
}
Status check_stablelm(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    return require_key(s.get("qk_layernorm", false) == false, "qk_layernorm",
                       "false, or Hekla would have to join norms");
}
Status check_gpt_oss(const GgufSettings& s) {
    HK_TRY(check_layer_types(s, 2, "second"));
    return require_key(s.get("swiglu_limit", 7.0) == 7.0, "swiglu_limit", "7");
}
Status check_lfm2(const GgufSettings& s) { return require_false(s, "conv_bias"); }
Status check_ministral3(const GgufSettings& s) {
    HK_TRY(check_silu(s));
    const ordered_json& rotary = s.json().at("rope_parameters");
    return require_key(rotary.value("mscale", 1.0) == rotary.value("mscale_all_dim", 1.0), "rope_parameters.mscale",
                       "equal to mscale_all_dim");
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

// The keys that one architecture has alone.
void add_experts(const GgufSettings& s, const GgufTarget& target) {
    const bool qwen = s.json().contains("num_experts");
    target.put("expert_count", s.count(qwen ? "num_experts" : "num_local_experts"));
    target.put("expert_used_count", s.count("num_experts_per_tok"));
    if (qwen) target.put("expert_feed_forward_length", s.count("moe_intermediate_size"));
}
void add_granite(const GgufSettings& s, const GgufTarget& target) {
    target.put("attention.scale", s.real("attention_multiplier"));
    target.put("embedding_scale", s.real("embedding_multiplier"));
    target.put("residual_scale", s.real("residual_multiplier"));
    target.put("logit_scale", s.real("logits_scaling"));
}
bool has_window(const GgufSettings& s) {
    const ordered_json window = s.get("sliding_window");
    return window.is_number_integer() && window.get<int64_t>() > 0 && s.get("use_sliding_window", true) == true;
}
void add_window(const GgufSettings& s, const GgufTarget& target) {
    if (has_window(s)) target.put("attention.sliding_window", s.count("sliding_window"));
}
void add_gemma(const GgufSettings& s, const GgufTarget& target) { // 2 and 3
    add_window(s, target);
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
        if (s.get(cap).is_number()) target.put(cap, s.real(cap));
}
void add_phi3(const GgufSettings& s, const GgufTarget& target) {
    target.put("attention.sliding_window", has_window(s) ? s.count("sliding_window") : 0u);
    target.put("rope.scaling.original_context_length", s.count("original_max_position_embeddings"));
}
void add_olmo3(const GgufSettings& s, const GgufTarget& target) {
    add_window(s, target);
    std::vector<bool> windows;
    for (const ordered_json& type : s.get("layer_types")) windows.push_back(type == "sliding_attention");
    target.put("attention.sliding_window_pattern", std::move(windows));
}
void add_cohere2(const GgufSettings& s, const GgufTarget& target) {
    add_window(s, target);
    target.put("logit_scale", s.real("logit_scale"));
    target.put("rope.scaling.type", "none");
}
void add_stablelm(const GgufSettings& s, const GgufTarget& target) {
    target.put("use_parallel_residual", s.get("use_parallel_residual", false) == true);
}
void add_gpt_oss(const GgufSettings& s, const GgufTarget& target) {
    add_experts(s, target);
    add_window(s, target);
    target.put("expert_feed_forward_length", s.count("intermediate_size"));
}
void add_lfm2(const GgufSettings& s, const GgufTarget& target) {
    std::vector<uint32_t> heads; // a layer without keys is a convolution
    for (const ordered_json& type : s.get("layer_types"))
        heads.push_back(type == "full_attention" ? s.count("num_key_value_heads") : 0u);
    target.put("attention.head_count_kv", std::move(heads));
    target.put("shortconv.l_cache", s.count("conv_L_cache"));
}
void add_ministral3(const GgufSettings& s, const GgufTarget& target) {
    const ordered_json& rotary = s.json().at("rope_parameters");
    target.put("rope.scaling.yarn_log_multiplier", rotary.value("mscale_all_dim", 1.0f));
    target.put("attention.temperature_scale", rotary.value("llama_4_scaling_beta", 0.0f));
}

// LFM2 computes the width of its feed-forward layer.
uint32_t feed_forward_width(const GgufSettings& s) {
    if (s.get("block_auto_adjust_ff_dim", false) != true) return s.count("intermediate_size");
    const auto adjusted = static_cast<uint32_t>(2 * s.count("intermediate_size") / 3);
    const ordered_json factor = s.get("block_ffn_dim_multiplier");
    const uint32_t width = factor.is_number() ? static_cast<uint32_t>(factor.get<double>() * adjusted) : adjusted;
    const uint32_t multiple = s.count("block_multiple_of");
    return (width + multiple - 1) / multiple * multiple;
}

} // namespace

std::span<const GgufDecoder> GgufDecoder::all() {
    using enum GgufNames;
    static constexpr GgufDecoder kAll[] = {
        {"llama", "llama", true, norms_before, check_silu},
        {"mistral", "llama", true, norms_before, check_silu},
        {"ministral3", "mistral3", true, norms_before, check_ministral3, add_ministral3},
        {"qwen2", "qwen2", false, norms_before, check_silu},
        {"qwen3", "qwen3", false, norms_before, check_no_biases},
        {"smollm3", "smollm3", true, norms_before, check_smollm3},
        {"granite", "granite", true, norms_before, check_whole_heads, add_granite},
        {"arcee", "arcee", true, norms_before, check_arcee},
        {"olmo2", "olmo2", false, norms_after, check_no_biases},
        {"olmo3", "olmo2", false, norms_after, check_no_biases, add_olmo3},
        {"phi3", "phi3", false, norms_before, check_whole_heads, add_phi3},
        {"cohere2", "cohere2", false, layer_norms, check_cohere2, add_cohere2},
        {"stablelm", "stablelm", false, layer_norms, check_stablelm, add_stablelm},
        {"glm4", "glm4", false, glm4, check_silu},
        {"mixtral", "llama", true, norms_before, check_silu, add_experts},
        {"qwen3_moe", "qwen3moe", false, norms_before, check_qwen3_moe, add_experts},
        {"gpt_oss", "gpt-oss", false, gpt_oss, check_gpt_oss, add_gpt_oss},
        {"gemma", "gemma", false, gemma, check_gemma},
        {"gemma2", "gemma2", false, gemma_twice, check_gemma2, add_gemma},
        {"gemma3_text", "gemma3", false, gemma_twice, check_gemma3, add_gemma},
        {"lfm2", "lfm2", false, lfm2, check_lfm2, add_lfm2},
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
    const std::span<const Mapping> own = mappings_of(names_);
    std::vector<Mapping> mappings(own.begin(), own.end());
    for (Mapping one : mappings_of(GgufNames::common)) {
        if (!interleaved_ && (one.form == Form::query_heads || one.form == Form::key_heads)) one.form = Form::as_is;
        mappings.push_back(one);
    }
    return mappings;
}

Status GgufDecoder::add_keys(const GgufSettings& s, const GgufTarget& target) const {
    const uint32_t width = head_width(s);
    target.put("vocab_size", s.count("vocab_size"));
    target.put("context_length", s.count("max_position_embeddings"));
    target.put("embedding_length", s.count("hidden_size"));
    target.put("block_count", s.count("num_hidden_layers"));
    target.put("feed_forward_length", feed_forward_width(s));
    target.put("attention.head_count", s.count("num_attention_heads"));
    if (!is("lfm2")) target.put("attention.head_count_kv", s.count("num_key_value_heads"));
    target.put("attention.key_length", width);
    target.put("attention.value_length", width);
    if (s.json().contains("layer_norm_eps"))
        target.put("attention.layer_norm_epsilon", s.real("layer_norm_eps"));
    else
        target.put("attention.layer_norm_rms_epsilon",
                   s.real(s.json().contains("norm_eps") ? "norm_eps" : "rms_norm_eps"));
    HK_TRY(add_rotary(s, target));
    if (more_ != nullptr) more_(s, target);
    const bool knows_windows = is("gemma2") || is("gemma3_text") || is("olmo3") || is("cohere2") || is("gpt_oss");
    if (has_window(s) && !knows_windows)
        target.notes.push_back(fmt::format(
            "llama.cpp has no window in models of this kind: in rows of more than {} tokens each token sees "
            "all before it, and the model was made for the last {}",
            s.count("sliding_window"), s.count("sliding_window")));
    return {};
}

Status GgufDecoder::add_rotary(const GgufSettings& s, const GgufTarget& target) const {
    const ordered_json& parameters = s.json().at("rope_parameters");
    const bool by_type = is("gemma3_text");
    const ordered_json& rotary = by_type ? parameters.at("full_attention") : parameters;
    const uint32_t width = head_width(s);
    const auto rotated = static_cast<uint32_t>(rotary.value("partial_rotary_factor", 1.0) * width);
    const bool partial = is("phi3") || is("glm4") || is("stablelm");
    HK_TRY(require_key(rotated % 2 == 0 && (rotated == width || partial), "head_dim", "even, and turned as a whole"));
    target.put("rope.dimension_count", rotated);
    target.put("rope.freq_base", rotary.at("rope_theta").get<float>());
    if (by_type) target.put("rope.freq_base_swa", parameters.at("sliding_attention").at("rope_theta").get<float>());
    const std::string type = rotary.at("rope_type");
    if (type == "linear") {
        target.put("rope.scaling.type", "linear");
        target.put("rope.scaling.factor", rotary.at("factor").get<float>());
    } else if (type == "llama3" && std::string_view(name_) == "llama") {
        target.vectors.push_back({"rope_freqs.weight", frequency_divisors(rotary, width)});
    } else if (type == "yarn" && !is("phi3")) {
        const bool plain = rotary.value("attention_factor", ordered_json()).is_null() &&
                           (is("ministral3") || rotary.value("mscale", ordered_json()).is_null()) &&
                           (is("gpt_oss") || rotary.value("truncate", true));
        HK_TRY(require_key(plain, "rope_parameters", "yarn without attention_factor, mscale and truncate"));
        target.put("rope.scaling.type", "yarn");
        target.put("rope.scaling.factor", rotary.at("factor").get<float>());
        target.put("rope.scaling.original_context_length",
                   rotary.at("original_max_position_embeddings").get<uint32_t>());
        if (is("gpt_oss")) target.put("rope.scaling.yarn_truncate", rotary.value("truncate", true));
        target.put("rope.scaling.yarn_beta_fast", rotary.value("beta_fast", 32.0f));
        target.put("rope.scaling.yarn_beta_slow", rotary.value("beta_slow", 1.0f));
    } else if (type == "longrope" && is("phi3")) {
        const auto original = s.count("original_max_position_embeddings");
        const double grown = static_cast<double>(s.count("max_position_embeddings")) / original;
        HK_TRY(require_key(rotary.value("attention_factor", ordered_json()).is_null(),
                           "rope_parameters.attention_factor", "missing"));
        target.vectors.push_back({"rope_factors_long.weight", rotary.at("long_factor").get<std::vector<float>>()});
        target.vectors.push_back({"rope_factors_short.weight", rotary.at("short_factor").get<std::vector<float>>()});
        target.put("rope.scaling.attn_factor",
                   static_cast<float>(grown > 1.0 ? std::sqrt(1.0 + std::log(grown) / std::log(original)) : 1.0));
    } else {
        HK_TRY(require_key(type == "default", "rope_parameters.rope_type", fmt::format("another one than '{}'", type)));
    }
    return {};
}

} // namespace hekla::app
