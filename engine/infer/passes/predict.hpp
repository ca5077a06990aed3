// Predictions of a trained model for new examples: collate, the network, and the head's decode.
#pragma once

#include "data/task_table.hpp"
#include "infer/open/model.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <span>

namespace hekla::infer {

struct PredictOptions {
    int64_t batch = 8;  // rows at a time
    int64_t length = 0; // of a row, at most; 0: as it was trained, or as its configuration allows
    StopPoll stop = {}; // between batches
};

// Returns false to stop.
using PredictRow = std::function<bool(std::size_t row, const nlohmann::json& predicted)>;

// Returns the columns of texts that the model reads, without the targets. Error: unsupported, if the folder does not
// contain the model's objective, or if that reads plain text.
Result<std::vector<data::TaskColumn>> text_columns(const Model& model);

// Returns the length of the longest useful row of a model: as it was trained, or as its configuration allows.
int64_t longest_row(const Model& model);
// Returns the length of the pass that an example needs, `most` at most: a multiple of 8, so that few programs are
// created.
int64_t pass_length(const Model& model, const data::EncodedExample& example, int64_t most);

// Predicts for a table of rows. The model must be open with its objective. Rows of similar length share a pass, so
// results come in any order: use `row`. Labels get names where config.json has them. Error: cancelled, when `give`
// returns false or `stop` true.
Status predict(Model& model, std::span<const data::EncodedExample> examples, const PredictOptions& options,
               const PredictRow& give);

} // namespace hekla::infer
