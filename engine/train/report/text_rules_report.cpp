#include "train/report/text_rules_report.hpp"
#include "hekla/plugin/objective.h"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/composition_spec.hpp"

#include "base/json.hpp"
#include "batch/collate.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"
#include "plugin/composition/text_record.hpp"
#include "text/text_encoder.hpp"
#include "train/run/run_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

// Returns the tokens of a row that an objective makes of one example, without its padding; empty where it makes none.
Result<std::vector<int32_t>> row_of(const plugin::Composition& composition, const batch::DrawnExample& drawn,
                                    int64_t longest) {
    const int64_t needed = batch::example_length(composition, drawn.example);
    const int64_t length = std::clamp<int64_t>(needed, 1, longest);
    std::vector<data::Field> fields;
    // An example that the objective refuses is reported by the training, with its line; and rows of rollouts have more
    // columns than an example.
    if (!batch::make_fields(composition, std::span(&drawn, 1), nullptr, 0, 1, length, fields).ok())
        return std::vector<int32_t>();
    std::vector<int32_t> ids, mask;
    for (const data::Field& field : fields)
        if (field.name == "input_ids" || field.name == "attention_mask") {
            const graph::Tensor tensor = batch::tensor_of(field);
            std::vector<int32_t>& out = field.name == "input_ids" ? ids : mask;
            out.assign(tensor.data.begin(),
                       tensor.data.begin() + std::min<std::ptrdiff_t>(length, std::ssize(tensor.data)));
        }
    std::vector<int32_t> row;
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (mask.size() != ids.size() || mask[i] != 0) row.push_back(ids[i]);
    return row;
}

} // namespace

Result<std::vector<std::string>> report_text_rules(const Recipe& recipe, const plugin::Registry& registry,
                                                   const plugin::CompositionSpec& spec,
                                                   const plugin::Composition& composition,
                                                   const text::Tokenizer& tokenizer, const RunData& data) {
    std::vector<std::string> messages;
    if (composition.example_kind() != HK_EXAMPLE_ROW) return messages;
    const batch::DrawnExample first = data.train().at(0);
    HK_ASSIGN(const std::vector<int32_t> now, row_of(composition, first, recipe.train.context_length));
    const auto row_by = [&](const plugin::CompositionSpec& other) -> Result<std::vector<int32_t>> {
        HK_ASSIGN(const auto composed, plugin::Composition::create(registry, other, &tokenizer));
        return row_of(*composed, first, recipe.train.context_length);
    };
    if (!recipe.model.from.empty()) {
        HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.model.from));
        HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
        HK_ASSIGN(const nlohmann::json config,
                  parse_json_object(folder.config_json(), (from / "config.json").string()));
        const text::TextRules theirs = plugin::text_rules_of(config);
        plugin::CompositionSpec other = spec;
        other.text_rules = theirs;
        std::vector<int32_t> before = now;
        if (theirs.framed != spec.text_rules.framed) { HK_ASSIGN(before, row_by(other)); }
        if (before != now)
            messages.push_back(
                fmt::format("model.from = {}: was trained before rows had the special tokens that its tokenizer puts "
                            "around texts; this run has them. The ids of the first row by its rules: {}; now: {}",
                            recipe.model.from, fmt::join(before, " "), fmt::join(now, " ")));
        const bool has_special = std::ranges::any_of(first.example.columns, [&](const data::EncodedColumn& column) {
            return column.kind == HK_COLUMN_TOKENS &&
                   std::ranges::any_of(column.ids, [&](int32_t id) { return tokenizer.vocabulary().is_special(id); });
        });
        if (has_special && !theirs.parses_special && spec.text_rules.parses_special)
            messages.push_back(fmt::format("model.from = {}: read the text of special tokens in rows as characters; "
                                           "this run parses it (data.special_tokens = \"text\" does not)",
                                           recipe.model.from));
    }
    if (!spec.text_rules.parses_special)
        messages.push_back(
            "data.special_tokens = \"text\": rows have special tokens as characters; `generate` and other "
            "programs parse them");
    const auto layout = spec.objective_config.find("layout");
    if (layout != spec.objective_config.end() && *layout != "auto" && spec.text_rules.framed) {
        plugin::CompositionSpec other = spec;
        other.objective_config.erase("layout");
        HK_ASSIGN(const std::vector<int32_t> theirs, row_by(other));
        if (theirs != now)
            messages.push_back(fmt::format("objective.layout = {}: rows differ from what other programs make of the "
                                           "saved folder. The first row: {}; by its tokenizer: {}",
                                           layout->dump(), fmt::join(now, " "), fmt::join(theirs, " ")));
    }
    return messages;
}

} // namespace hekla::train
