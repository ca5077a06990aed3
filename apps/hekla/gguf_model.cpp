#include "gguf_model.hpp"
#include "infer/adapters/adapter_use.hpp"

#include "base/json.hpp"
#include "gguf_decoder.hpp"
#include "gguf_tensors.hpp"
#include "gguf_tokenizer.hpp"
#include "infer/adapters/lora_slots.hpp"
#include "lora_model.hpp"
#include "model/gguf.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using model::DType;
using nlohmann::ordered_json;

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

Status gpt2_keys(const GgufSettings& s, model::GgufKeys& keys) {
    HK_TRY(
        require_key(s.get("activation_function") == "gelu_new" || s.get("activation_function") == "gelu_pytorch_tanh",
                    "activation_function", "gelu_new"));
    HK_TRY(require_key(s.get("scale_attn_weights") == true, "scale_attn_weights", "true"));
    HK_TRY(require_key(s.get("scale_attn_by_inverse_layer_idx") == false, "scale_attn_by_inverse_layer_idx", "false"));
    const uint32_t width = s.count("n_embd");
    keys.emplace_back("gpt2.vocab_size",
                      s.count("vocab_size")); // llama.cpp opens no file without a tokenizer that lacks it
    keys.emplace_back("gpt2.context_length", s.count("n_positions"));
    keys.emplace_back("gpt2.embedding_length", width);
    keys.emplace_back("gpt2.block_count", s.count("n_layer"));
    keys.emplace_back("gpt2.feed_forward_length", s.get("n_inner").is_null() ? 4 * width : s.count("n_inner"));
    keys.emplace_back("gpt2.attention.head_count", s.count("n_head"));
    keys.emplace_back("gpt2.attention.layer_norm_epsilon", s.real("layer_norm_epsilon"));
    return {};
}

// Of GPT-2 without a decoder.
std::vector<Mapping> mappings_of(const GgufDecoder* decoder) {
    return decoder != nullptr ? decoder->mappings() : std::vector<Mapping>(std::begin(kGpt2), std::end(kGpt2));
}

uint32_t file_type(DType dtype) { return dtype == DType::f16 ? 1 : dtype == DType::bf16 ? 32 : 0; }

} // namespace

Status write_gguf_model(const StoredModel& m, const fs::path& to, std::optional<DType> dtype, const Log& log) {
    const std::string where = m.folder.path().string();
    const std::string architecture(m.composition->architecture().id);
    const bool gpt2 = architecture == "gpt2";
    const GgufDecoder* const decoder = GgufDecoder::find(architecture);
    if (m.reference->head != "lm" || (!gpt2 && decoder == nullptr))
        return unsupported(fmt::format("{}: is a {}; GGUF is written of language models of the types gpt2, {}", where,
                                       m.reference->name, GgufDecoder::known()));
    HK_ASSIGN(const std::string config, m.composition->write_config());
    HK_ASSIGN(ordered_json settings, parse_ordered_json_object(config, where + ": config.json"));
    const GgufSettings s(std::move(settings));
    if (!gpt2) HK_TRY(decoder->check(s).with_context(where));
    const std::vector<Mapping> mappings = mappings_of(decoder);

    std::vector<model::TensorSource> tensors;
    DType largest = DType::f32; // the type that matrices are stored in
    for (const SavedTensor& tensor : m.tensors) {
        std::string_view from; // one tensor may become several, by mappings of the same name
        const model::TensorView& view = *tensor.stored;
        for (const Mapping& mapping : mappings) {
            if (!from.empty() && from != mapping.from) continue;
            const std::optional<std::string> name = mapped_name(mapping, tensor.name);
            if (!name) continue;
            from = mapping.from;
            const bool small = is_always_float32(*name, view.dims.size());
            const DType stored = view.dtype == DType::f64 ? DType::f32 : view.dtype;
            const DType type = small ? DType::f32 : dtype.value_or(stored);
            if (!small) largest = type;
            tensors.push_back(source_for(*name, mapping.form, view, type, s));
        }
        if (from.empty()) return unsupported(fmt::format("{}: tensor {} has no name in GGUF", where, tensor.name));
    }

    model::GgufKeys keys{{"general.architecture", gpt2 ? "gpt2" : decoder->name()},
                         {"general.name", fs::absolute(m.folder.path()).lexically_normal().filename().string()},
                         {"general.file_type", file_type(largest)}};
    std::vector<GgufVector> vectors; // must outlive the writing of the file
    std::vector<std::string> notes;
    const Status fits = gpt2 ? gpt2_keys(s, keys) : decoder->add_keys(s, {decoder->name(), keys, vectors, notes});
    HK_TRY(fits.with_context(where));
    for (const std::string& note : notes) log.warning(fmt::format("{}: {}", where, note));
    for (const GgufVector& vector : vectors) {
        model::TensorView view;
        view.name = vector.name;
        view.dims = {std::ssize(vector.values)};
        view.bytes = std::as_bytes(std::span<const float>(vector.values));
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
    const bool gpt2 = m.spec.architecture == "gpt2";
    const GgufDecoder* const decoder = GgufDecoder::find(m.spec.architecture);
    if (!m.is_lora()) return refuse(fmt::format("the adapter '{}'; expected 'lora'", m.adapter_text()));
    if (!gpt2 && decoder == nullptr)
        return refuse(fmt::format("adapters of the architecture '{}'; expected gpt2, {}", m.spec.architecture,
                                  GgufDecoder::known()));
    const ordered_json own = m.adapter_config();
    if (own.value("use_dora", false)) return refuse("DoRA; merge the adapter instead (hekla adapter merge)");
    HK_ASSIGN(const std::string config, m.composition->write_config());
    HK_ASSIGN(ordered_json settings, parse_ordered_json_object(config, where + ": config.json"));
    const GgufSettings s(std::move(settings));
    const std::vector<Mapping> mappings = mappings_of(decoder);
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
    model::GgufKeys keys{{"general.architecture", gpt2 ? "gpt2" : decoder->name()},
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
