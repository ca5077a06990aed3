#include "gguf_model.hpp"
#include "infer/adapters/adapter_use.hpp"

#include "base/json.hpp"
#include "gguf_tokenizer.hpp"
#include "infer/adapters/lora_slots.hpp"
#include "lora_model.hpp"
#include "model/gguf.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <numbers>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using model::DType;
using nlohmann::ordered_json;

// How a stored matrix is converted to the layout that llama.cpp expects.
enum class Form {
    as_is,
    transposed,  // GPT-2 stores [in, out]
    query_heads, // llama.cpp's rotary positions rotate neighbors, ours the halves of a head: rows are interleaved
    key_heads
};

struct Mapping {
    const char* from; // '#' is the number of a layer
    const char* to;
    Form form = Form::as_is;
};

constexpr Mapping kGpt2[] = {
    {"transformer.wte.weight", "token_embd.weight"},
    {"transformer.wpe.weight", "position_embd.weight"},
    {"transformer.h.#.ln_1.weight", "blk.#.attn_norm.weight"},
    {"transformer.h.#.ln_1.bias", "blk.#.attn_norm.bias"},
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", Form::transposed},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias"},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", Form::transposed},
    {"transformer.h.#.attn.c_proj.bias", "blk.#.attn_output.bias"},
    {"transformer.h.#.ln_2.weight", "blk.#.ffn_norm.weight"},
    {"transformer.h.#.ln_2.bias", "blk.#.ffn_norm.bias"},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", Form::transposed},
    {"transformer.h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias"},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", Form::transposed},
    {"transformer.h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias"},
    {"transformer.ln_f.weight", "output_norm.weight"},
    {"transformer.ln_f.bias", "output_norm.bias"},
    {"lm_head.weight", "output.weight"},
};

constexpr Mapping kLlama[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Form::query_heads},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Form::query_heads},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Form::key_heads},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Form::key_heads},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias"},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"model.layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias"},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"model.layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias"},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"model.layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

// Returns the GGUF name of the tensor `name`, if the mapping applies to it.
std::optional<std::string> mapped_name(const Mapping& mapping, std::string_view name) {
    const std::string_view from = mapping.from;
    const std::size_t place = from.find('#');
    if (place == std::string_view::npos) return name == from ? std::optional<std::string>(mapping.to) : std::nullopt;
    const std::string_view tail = from.substr(place + 1);
    if (!name.starts_with(from.substr(0, place)) || !name.ends_with(tail) || name.size() <= place + tail.size())
        return std::nullopt;
    const std::string_view number = name.substr(place, name.size() - place - tail.size());
    if (number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    std::string to = mapping.to;
    return to.replace(to.find('#'), 1, number);
}

// The model's configuration as its architecture writes it; every key is present.
class Settings {
public:
    explicit Settings(ordered_json config) : config_(std::move(config)) {}
    uint32_t count(const char* key) const { return config_.at(key).get<uint32_t>(); }
    float real(const char* key) const { return config_.at(key).get<float>(); }
    const ordered_json& json() const { return config_; }
    ordered_json get(const char* key, ordered_json otherwise = {}) const {
        return config_.value(key, std::move(otherwise));
    }

private:
    ordered_json config_;
};

// Returns the bytes of a tensor after `change`, with the new shape.
model::TensorSource changed_source(const model::TensorInfo& info, const model::TensorView& view,
                                   std::function<void(std::span<const float>, std::span<float>)> change) {
    model::TensorSource source;
    static_cast<model::TensorInfo&>(source) = info;
    source.stream = [view, info, change = std::move(change)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const int64_t count, model::element_count(view.dims));
        std::vector<float> values(static_cast<std::size_t>(count)), out(values.size());
        HK_TRY(model::load_float32(view, values));
        change(values, out);
        model::TensorView changed;
        static_cast<model::TensorInfo&>(changed) = info;
        changed.dtype = DType::f32;
        changed.bytes = std::as_bytes(std::span<const float>(out));
        return model::converted_source(info.name, changed, info.dtype).stream(sink);
    };
    return source;
}

void transpose(std::size_t rows, std::size_t columns, std::span<const float> in, std::span<float> out) {
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
}

// In each head, row i of the first half becomes row 2 i, and row i of the second half row 2 i + 1.
void interleave_halves(std::size_t heads, std::size_t rows, std::size_t columns, std::span<const float> in,
                       std::span<float> out) {
    const std::size_t half = rows / heads / 2;
    for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < half; ++i)
            for (std::size_t side = 0; side < 2; ++side) {
                const float* from = in.data() + ((h * 2 + side) * half + i) * columns;
                std::copy(from, from + columns, out.data() + ((h * half + i) * 2 + side) * columns);
            }
}

model::TensorSource source_for(const std::string& name, Form form, const model::TensorView& view, DType dtype,
                               const Settings& s) {
    const auto rows = static_cast<std::size_t>(view.dims[0]);
    const auto columns = view.dims.size() > 1 ? static_cast<std::size_t>(view.dims[1]) : 1;
    if (form == Form::as_is) return model::converted_source(name, view, dtype);
    if (form == Form::transposed)
        return changed_source({name, dtype, {view.dims[1], view.dims[0]}}, view,
                              [=](auto in, auto out) { transpose(rows, columns, in, out); });
    const std::size_t heads = s.count(form == Form::query_heads ? "num_attention_heads" : "num_key_value_heads");
    return changed_source({name, dtype, view.dims}, view,
                          [=](auto in, auto out) { interleave_halves(heads, rows, columns, in, out); });
}

// llama.cpp hard-codes these values; a model with others is rejected.
Status require(bool same, const char* key, const std::string& expected) {
    return same ? Status() : unsupported(fmt::format("llama.cpp cannot run this model: {} must be {}", key, expected));
}

Status gpt2_keys(const Settings& s, model::GgufKeys& keys) {
    HK_TRY(require(s.get("activation_function") == "gelu_new" || s.get("activation_function") == "gelu_pytorch_tanh",
                   "activation_function", "gelu_new"));
    HK_TRY(require(s.get("scale_attn_weights") == true, "scale_attn_weights", "true"));
    HK_TRY(require(s.get("scale_attn_by_inverse_layer_idx") == false, "scale_attn_by_inverse_layer_idx", "false"));
    const uint32_t width = s.count("n_embd");
    keys.emplace_back("gpt2.context_length", s.count("n_positions"));
    keys.emplace_back("gpt2.embedding_length", width);
    keys.emplace_back("gpt2.block_count", s.count("n_layer"));
    keys.emplace_back("gpt2.feed_forward_length", s.get("n_inner").is_null() ? 4 * width : s.count("n_inner"));
    keys.emplace_back("gpt2.attention.head_count", s.count("n_head"));
    keys.emplace_back("gpt2.attention.layer_norm_epsilon", s.real("layer_norm_epsilon"));
    return {};
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

Status llama_keys(const Settings& s, model::GgufKeys& keys, std::vector<float>& divisors) {
    HK_TRY(require(s.get("hidden_act") == "silu" || s.get("hidden_act") == "swish", "hidden_act", "silu"));
    const uint32_t width = s.count("head_dim");
    const ordered_json& rotary = s.json().at("rope_parameters");
    HK_TRY(require(width % 2 == 0 && rotary.value("partial_rotary_factor", 1.0) == 1.0, "head_dim",
                   "even, and turned as a whole"));
    keys.emplace_back("llama.vocab_size", s.count("vocab_size"));
    keys.emplace_back("llama.context_length", s.count("max_position_embeddings"));
    keys.emplace_back("llama.embedding_length", s.count("hidden_size"));
    keys.emplace_back("llama.block_count", s.count("num_hidden_layers"));
    keys.emplace_back("llama.feed_forward_length", s.count("intermediate_size"));
    keys.emplace_back("llama.attention.head_count", s.count("num_attention_heads"));
    keys.emplace_back("llama.attention.head_count_kv", s.count("num_key_value_heads"));
    keys.emplace_back("llama.attention.key_length", width);
    keys.emplace_back("llama.attention.value_length", width);
    keys.emplace_back("llama.attention.layer_norm_rms_epsilon", s.real("rms_norm_eps"));
    keys.emplace_back("llama.rope.dimension_count", width);
    keys.emplace_back("llama.rope.freq_base", rotary.at("rope_theta").get<float>());
    const std::string type = rotary.at("rope_type");
    if (type == "linear") {
        keys.emplace_back("llama.rope.scaling.type", "linear");
        keys.emplace_back("llama.rope.scaling.factor", rotary.at("factor").get<float>());
    } else if (type == "llama3") {
        divisors = frequency_divisors(rotary, width);
    }
    return {};
}

uint32_t file_type(DType dtype) { return dtype == DType::f16 ? 1 : dtype == DType::bf16 ? 32 : 0; }

} // namespace

Status write_gguf_model(const StoredModel& m, const fs::path& to, std::optional<DType> dtype, const Log& log) {
    const std::string where = m.folder.path().string();
    const bool gpt2 = m.reference->name == "GPT2LMHeadModel", llama = m.reference->name == "LlamaForCausalLM";
    if (!gpt2 && !llama)
        return unsupported(fmt::format("{}: is a {}; GGUF is written of GPT2LMHeadModel and LlamaForCausalLM", where,
                                       m.reference->name));
    HK_ASSIGN(const std::string config, m.composition->write_config());
    HK_ASSIGN(ordered_json settings, parse_ordered_json_object(config, where + ": config.json"));
    const Settings s(std::move(settings));
    const std::span<const Mapping> mappings = gpt2 ? std::span<const Mapping>(kGpt2) : std::span<const Mapping>(kLlama);

    std::vector<model::TensorSource> tensors;
    DType largest = DType::f32; // the type that matrices are stored in
    for (const SavedTensor& tensor : m.tensors) {
        std::optional<std::string> name;
        const model::TensorView& view = *tensor.stored;
        for (const Mapping& mapping : mappings) {
            if (!(name = mapped_name(mapping, tensor.name))) continue;
            const bool small = view.dims.size() < 2 || *name == "position_embd.weight";
            const DType stored = view.dtype == DType::f64 ? DType::f32 : view.dtype;
            const DType type = small ? DType::f32 : dtype.value_or(stored);
            if (!small) largest = type;
            tensors.push_back(source_for(*name, mapping.form, view, type, s));
            break;
        }
        if (!name) return unsupported(fmt::format("{}: tensor {} has no name in GGUF", where, tensor.name));
    }

    model::GgufKeys keys{{"general.architecture", gpt2 ? "gpt2" : "llama"},
                         {"general.name", fs::absolute(m.folder.path()).lexically_normal().filename().string()},
                         {"general.file_type", file_type(largest)}};
    std::vector<float> divisors; // must outlive the writing of the file
    const Status fits = gpt2 ? gpt2_keys(s, keys) : llama_keys(s, keys, divisors);
    HK_TRY(fits.with_context(where));
    if (!divisors.empty()) {
        model::TensorView view;
        view.name = "rope_freqs.weight";
        view.dims = {std::ssize(divisors)};
        view.bytes = std::as_bytes(std::span<const float>(divisors));
        tensors.push_back(model::source_of(view));
    }
    HK_TRY(add_tokenizer_keys(m.folder.path(), s.json(), s.count("vocab_size"), keys, log));
    return model::write_gguf_file(to, keys, tensors).status();
}

Status write_gguf_adapter(const AdaptedModel& m, const fs::path& to) {
    const std::string where = m.foreign ? m.foreign->weights.path().string() : m.own->path().string();
    const auto refuse = [&](const std::string& what) {
        return unsupported(fmt::format("{}: GGUF has no form of {}", where, what));
    };
    const bool gpt2 = m.spec.architecture == "gpt2", llama = m.spec.architecture == "llama";
    if (!m.is_lora()) return refuse(fmt::format("the adapter '{}'; expected 'lora'", m.adapter_text()));
    if (!gpt2 && !llama)
        return refuse(fmt::format("adapters of the architecture '{}'; expected gpt2 or llama", m.spec.architecture));
    const ordered_json own = m.adapter_config();
    if (own.value("use_dora", false)) return refuse("DoRA; merge the adapter instead (hekla adapter merge)");
    HK_ASSIGN(const std::string config, m.composition->write_config());
    HK_ASSIGN(ordered_json settings, parse_ordered_json_object(config, where + ": config.json"));
    const Settings s(std::move(settings));
    const std::span<const Mapping> mappings = gpt2 ? std::span<const Mapping>(kGpt2) : std::span<const Mapping>(kLlama);
    const double alpha = own.value("lora_alpha", 8.0);
    if (alpha == 0.0) return refuse("lora_alpha = 0");
    std::vector<model::TensorSource> tensors;
    for (const model::TensorView& tensor : m.adapter_tensors) {
        const plugin::Site* site = nullptr;
        bool second = false;
        for (const plugin::Site& one : m.described.sites)
            for (const char* matrix : {"lora_A.weight", "lora_B.weight"})
                if (one.kind == HK_SITE_LINEAR &&
                    tensor.name == fmt::format("{}{}.{}", plugin::kAdapter, one.name, matrix)) {
                    site = &one;
                    second = matrix[5] == 'B';
                }
        if (site == nullptr) return refuse(fmt::format("the tensor {}", tensor.name));
        if (site->parameter != site->name + ".weight")
            return refuse(fmt::format("an adapter of '{}', which shares {}", site->name, site->parameter));
        const Mapping* found = nullptr;
        std::optional<std::string> name;
        for (const Mapping& mapping : mappings)
            if ((name = mapped_name(mapping, site->parameter))) {
                found = &mapping;
                break;
            }
        if (!name) return refuse(fmt::format("an adapter of {}", site->parameter));
        const auto rows = static_cast<std::size_t>(tensor.dims[0]), columns = static_cast<std::size_t>(tensor.dims[1]);
        if (!second) {
            tensors.push_back(model::converted_source(*name + ".lora_a", tensor, DType::f32));
            continue;
        }
        HK_ASSIGN(const double whole, infer::lora_scale(m.adapter_config(), site->name, tensor.dims[1]));
        // llama.cpp multiplies by alpha / rank; what differs from that is part of B.
        const double scale = whole / (alpha / static_cast<double>(columns));
        std::size_t heads = 0; // of rotary rows
        if (found->form == Form::query_heads) heads = s.count("num_attention_heads");
        if (found->form == Form::key_heads) heads = s.count("num_key_value_heads");
        tensors.push_back(changed_source({*name + ".lora_b", DType::f32, tensor.dims}, tensor, [=](auto in, auto out) {
            if (heads > 0)
                interleave_halves(heads, rows, columns, in, out);
            else
                std::ranges::copy(in, out.begin());
            for (float& value : out) value = static_cast<float>(static_cast<double>(value) * scale);
        }));
    }
    model::GgufKeys keys{{"general.architecture", gpt2 ? "gpt2" : "llama"},
                         {"general.type", "adapter"},
                         {"general.name", fs::absolute(to).stem().string()},
                         {"adapter.type", "lora"},
                         {"adapter.lora.alpha", static_cast<float>(alpha)}};
    for (const plugin::Invocation& invocation : m.composition->invocations())
        keys.emplace_back("adapter.alora.invocation_tokens",
                          std::vector<uint32_t>(invocation.tokens.begin(), invocation.tokens.end()));
    return model::write_gguf_file(to, keys, tensors).status();
}

} // namespace hekla::app
