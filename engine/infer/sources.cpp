#include "infer/sources.hpp"

#include "infer/collate.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::infer {

using nlohmann::json;

Result<SourceRows> source_rows(const plugin::Registry& registry, const Model& model,
                               std::span<const std::string> texts) {
    // The objective that knows these rows; how they were laid out in training stands in the folder.
    plugin::CompositionSpec spec;
    spec.config = model.config;
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
    std::vector<DrawnExample> examples;
    int64_t length = 1;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        data::EncodedColumn column;
        column.name = "source";
        HK_ASSIGN(column.ids, model.tokenizer->encode(texts[i]));
        if (column.ids.empty())
            return invalid_argument(fmt::format("text {} is empty: give at least one character", i + 1));
        DrawnExample& drawn = examples.emplace_back();
        drawn.example.columns.push_back(std::move(column));
        length = std::max(length, example_length(*composition, drawn.example));
    }
    std::vector<data::Field> fields;
    HK_TRY(make_fields(*composition, examples, nullptr, 0, static_cast<int64_t>(texts.size()), length, fields));
    SourceRows rows;
    for (const data::Field& field : fields) {
        if (field.name == "labels" || field.name.starts_with("decoder_")) continue;
        std::vector<int32_t> values(field.bytes.size() / 4);
        std::memcpy(values.data(), field.bytes.data(), field.bytes.size());
        if (field.name == "input_ids") {
            for (std::size_t row = 0; row < texts.size(); ++row) {
                const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * length;
                rows.ids.emplace_back(begin, begin + length);
            }
            continue;
        }
        rows.fields.emplace(
            field.name, graph::Tensor{graph::Kind::int32, graph::Shape(field.shape), {values.begin(), values.end()}});
    }
    return rows;
}

} // namespace hekla::infer
