// The layout of a text in a row of an encoder, as data: the objective's transformation of a text, for a model that is
// used without its plugins.
#pragma once

#include "data/batcher.hpp"
#include "infer/texts/source_rows.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

struct SourceLayout {
    // The content of every row: `before`, for each token of the text `each`, `after`, and `padding` up to the longest
    // row.
    struct Field {
        std::string name;
        std::vector<int32_t> before, after;
        std::optional<int32_t> each; // nothing: the token itself
        int32_t padding = 0;
    };
    std::vector<Field> fields; // includes "input_ids"
};

// Makes the objective's batch of texts, given as token ids.
using MakeBatch = std::function<Result<std::vector<data::Field>>(std::span<const std::vector<int32_t>> texts)>;

// Derives the layout from batches of a few texts. Error: unsupported, if the objective uses another kind of layout.
Result<SourceLayout> source_layout(const MakeBatch& make);

// Lays out texts as the objective would.
SourceRows laid_out(const SourceLayout& layout, std::span<const std::vector<int32_t>> texts);

// Convert a layout to JSON and back; layout_from() throws a JSON exception for other values.
nlohmann::json layout_json(const SourceLayout& layout);
SourceLayout layout_from(const nlohmann::json& json);

} // namespace hekla::infer
