#include "infer/texts/prompt_fields.hpp"

#include "batch/collate.hpp"
#include "infer/exported/exported_model.hpp"
#include "infer/texts/source_layout.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/text_record.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {

using nlohmann::json;

Result<std::vector<data::Field>> source_fields(const plugin::Registry& registry, const Model& model,
                                               std::span<const std::vector<int32_t>> texts) {
    // The objective that made these rows; their layout in training is stored in the folder.
    plugin::CompositionSpec spec;
    spec.config = model.config;
    spec.text_rules = plugin::text_rules_of(model.config);
    spec.config.erase("hekla");
    spec.refuse_unknown_keys = false;
    spec.architecture = model.composition->architecture().id;
    spec.objective = "seq2seq";
    if (const auto own = model.config.find("hekla"); own != model.config.end() && own->is_object()) {
        const json trained = own->value("objective_config", json::object());
        for (const char* key : {"layout", "pad_token_id", "decoder_start_token_id"})
            if (trained.contains(key)) spec.objective_config[key] = trained[key];
    }
    HK_ASSIGN(const std::unique_ptr<plugin::Composition> composition,
              plugin::Composition::create(registry, spec, model.tokenizer.get()));
    std::vector<batch::DrawnExample> examples;
    int64_t length = 1;
    for (const std::vector<int32_t>& text : texts) {
        data::EncodedColumn column;
        column.name = "source";
        column.ids = text;
        batch::DrawnExample& drawn = examples.emplace_back();
        drawn.example.columns.push_back(std::move(column));
        length = std::max(length, batch::example_length(*composition, drawn.example));
    }
    std::vector<data::Field> fields;
    HK_TRY(batch::make_fields(*composition, examples, nullptr, 0, static_cast<int64_t>(texts.size()), length, fields));
    return fields;
}

Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts) {
    const std::string prefix = trained_prefix(model.config, "source");
    std::vector<std::vector<int32_t>> ids(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        HK_ASSIGN(ids[i], text_encoder(model).encode(text::TextUse::continuation, with_prefix(prefix, texts[i])));
        if (ids[i].empty())
            return invalid_argument(fmt::format("text {} is empty: give at least one character", i + 1));
    }
    if (model.exported != nullptr) {
        HK_ASSIGN(const SourceLayout layout, exported_source_layout(*model.exported));
        return laid_out(layout, ids);
    }
    HK_ASSIGN(const std::vector<data::Field> fields, source_fields(registry, model, ids));
    return source_rows(fields);
}

Result<std::vector<std::vector<int32_t>>> source_ids(const plugin::Registry& registry, const Model& model,
                                                     std::span<const std::string> texts) {
    HK_ASSIGN(SourceRows rows, source_rows(registry, model, texts));
    const auto mask = rows.fields.find("attention_mask");
    for (const auto& [name, tensor] : rows.fields)
        if (name != "attention_mask")
            return unsupported(fmt::format("this model's encoder reads the field '{}', expected input_ids and "
                                           "attention_mask only",
                                           name));
    for (std::size_t i = 0; i < rows.ids.size() && mask != rows.fields.end(); ++i) {
        std::vector<int32_t> kept;
        for (std::size_t t = 0; t < rows.ids[i].size(); ++t)
            if (mask->second.data[i * rows.ids[i].size() + t] != 0.0) kept.push_back(rows.ids[i][t]);
        rows.ids[i] = std::move(kept);
    }
    return std::move(rows.ids);
}

} // namespace hekla::infer
