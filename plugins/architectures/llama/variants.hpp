// What distinguishes the decoders of the Llama family, one row for each model_type. Defaults of configuration keys are
// in the manifest.
#pragma once

#include "experts.hpp"
#include "rotary.hpp"

namespace llama {

using hekla::plugin::Arrangement;
using hekla::plugin::ExpertForm;
using hekla::plugin::RotaryDefaults;

enum class Norm { rms, rms_plus_one, layer, layer_without_bias }; // rms_plus_one: the gain is 1 + weight

// Which queries and keys are normalized before they are rotated: those of each head with one gain for all heads, the
// whole projection, or those of each head with a gain of its own, if qk_layernorm is set.
enum class HeadNorm { none, shared, whole, own };

// Layers with a window of sliding_window tokens.
enum class Windows {
    none,
    all,         // every layer, unless sliding_window is null
    all_if_used, // if use_sliding_window: as all
    listed,      // layer_types; without it as all
    periodic,    // layer_types; without it all but every `period`-th layer
    after_first, // if use_sliding_window: layer_types; without it those from max_window_layers on
    unrotated,   // if use_sliding_window: layer_types; without it those without rotary positions
};

// Layers whose queries and keys are rotated.
enum class Rotated { all, windows, no_rope_layers };

struct Norms { // names; empty: there is none
    const char* before_attention = "input_layernorm";
    const char* after_attention = "";
    const char* before_feed_forward = "post_attention_layernorm";
    const char* after_feed_forward = "";
};
constexpr Norms kAfterNorms{"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
constexpr Norms kBothNorms{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                           "post_feedforward_layernorm"};

struct Variant {
    const char* id;
    Norm norm = Norm::rms;
    Norms norms{};
    HeadNorm head_norm = HeadNorm::none;
    const char* bias_key = ""; // of the biases of queries, keys and values
    bool bias = false;         // they have biases if there is no key
    bool output_bias = false;  // the attention's output has a bias if they have one
    bool mlp_bias = false;     // the key mlp_bias is read
    bool joined = false;       // one matrix for queries, keys and values
    bool joined_gate = false;  // one matrix for the gate and the values it multiplies
    bool gated = true;
    Arrangement arrangement = Arrangement::serial;
    bool parallel_key = false; // use_parallel_residual selects the arrangement
    bool head_dim = true;      // the key head_dim is read
    const char* activation_key = "hidden_act";
    const char* epsilon_key = "rms_norm_eps";
    const char* residual_dropout_key = "";
    bool residual_dropout_after_attention = false;
    Windows windows = Windows::none;
    int64_t period = 0;
    const char* period_key = ""; // an older key with the period
    Rotated rotated = Rotated::all;
    bool interleaved = false;   // rotated pairs are (2i, 2i + 1)
    bool even_rotation = false; // the reference cannot rotate an odd number of features
    bool rope_by_type = false;  // rope_parameters differ by layer type
    RotaryDefaults rotary{};
    bool scaled_embedding = false; // by the root of the width
    bool multipliers = false;      // embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling
    bool logit_scale = false;
    bool query_scalar = false; // scores are multiplied by query_pre_attn_scalar^-0.5
    bool logit_cap = false;    // the key final_logit_softcapping is read
    bool score_cap = false;    // the key attn_logit_softcapping is read
    bool both_sides = false;   // the key use_bidirectional_attention is read
    bool sinks = false;        // each head has one (attention)
    ExpertForm experts{};
    bool original_positions =
        false; // original_max_position_embeddings outside of rope_parameters is a key of the class
};

// clang-format off
constexpr Variant kVariants[] = {
    {.id = "llama", .bias_key = "attention_bias", .output_bias = true, .mlp_bias = true},
    {.id = "qwen3", .head_norm = HeadNorm::shared, .bias_key = "attention_bias", .output_bias = true,
     .windows = Windows::after_first},
    {.id = "qwen2", .bias = true, .windows = Windows::after_first},
    {.id = "mistral", .windows = Windows::all},
    {.id = "ministral", .windows = Windows::listed},
    {.id = "ministral3", .windows = Windows::all, .rotary = {.query_scaling = true}},
    {.id = "smollm3", .bias_key = "attention_bias", .output_bias = true, .mlp_bias = true,
     .windows = Windows::unrotated, .rotated = Rotated::no_rope_layers, .rotary = {.theta = 2e6}},
    {.id = "granite", .bias_key = "attention_bias", .output_bias = true, .mlp_bias = true, .multipliers = true},
    {.id = "olmo2", .norms = kAfterNorms, .head_norm = HeadNorm::whole, .bias_key = "attention_bias",
     .output_bias = true},
    {.id = "olmo3", .norms = kAfterNorms, .head_norm = HeadNorm::whole, .bias_key = "attention_bias",
     .output_bias = true, .windows = Windows::periodic, .period = 4},
    {.id = "phi3", .joined = true, .joined_gate = true, .residual_dropout_key = "resid_pdrop",
     .residual_dropout_after_attention = true, .windows = Windows::all,
     .rotary = {.partial_factor = 1.0, .longrope_only = true}, .original_positions = true},
    {.id = "gemma", .norm = Norm::rms_plus_one, .bias_key = "attention_bias", .output_bias = true,
     .scaled_embedding = true},
    {.id = "gemma2", .norm = Norm::rms_plus_one, .norms = kBothNorms, .bias_key = "attention_bias",
     .output_bias = true, .activation_key = "hidden_activation", .windows = Windows::periodic, .period = 2,
     .scaled_embedding = true, .query_scalar = true, .logit_cap = true, .score_cap = true},
    {.id = "gemma3_text", .norm = Norm::rms_plus_one, .norms = kBothNorms, .head_norm = HeadNorm::shared,
     .bias_key = "attention_bias", .output_bias = true, .activation_key = "hidden_activation",
     .windows = Windows::periodic, .period = 6, .period_key = "sliding_window_pattern", .rope_by_type = true,
     .rotary = {.theta = 1e6, .layer_type = "full_attention"}, .scaled_embedding = true, .query_scalar = true,
     .logit_cap = true, .both_sides = true},
    {.id = "arcee", .bias_key = "attention_bias", .output_bias = true, .mlp_bias = true, .gated = false},
    {.id = "cohere2", .norm = Norm::layer_without_bias, .norms = {.before_feed_forward = ""},
     .bias_key = "attention_bias", .output_bias = true, .arrangement = Arrangement::parallel, .head_dim = false,
     .epsilon_key = "layer_norm_eps", .windows = Windows::periodic, .period = 4,
     .period_key = "sliding_window_pattern", .rotated = Rotated::windows, .interleaved = true, .logit_scale = true},
    {.id = "stablelm", .norm = Norm::layer, .head_norm = HeadNorm::own, .bias_key = "use_qkv_bias",
     .parallel_key = true, .head_dim = false, .epsilon_key = "layer_norm_eps",
     .residual_dropout_key = "hidden_dropout", .even_rotation = true, .rotary = {.partial_factor = 0.25}},
    {.id = "glm4",
     .norms = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"},
     .bias_key = "attention_bias", .joined_gate = true, .interleaved = true, .rotary = {.partial_factor = 0.5}},
    {.id = "mixtral", .windows = Windows::all, .rotary = {.theta = 1e6},
     .experts = {.module = "block_sparse_moe.", .gate = "experts.w1.weight", .up = "experts.w3.weight",
                 .down = "experts.w2.weight", .jitter = true}},
    {.id = "qwen3_moe", .head_norm = HeadNorm::shared, .bias_key = "attention_bias", .output_bias = true,
     .windows = Windows::all_if_used,
     .experts = {.module = "mlp.", .count_key = "num_experts", .count = 128, .width_key = "moe_intermediate_size",
                 .normalized_key = true, .dense_layers = true}},
    {.id = "gpt_oss", .bias_key = "attention_bias", .output_bias = true, .windows = Windows::periodic, .period = 2,
     .rotary = {.theta = 150000.0}, .sinks = true,
     .experts = {.module = "mlp.", .router = "router", .count = 128, .joined = true}},
};
// clang-format on

} // namespace llama
