// What a trained model says of new examples: collate, the network, the head's decode.
#pragma once

#include "data/task_table.hpp"
#include "infer/model.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <span>

namespace hekla::infer {

struct PredictOptions {
    int64_t batch = 8;  // rows at a time
    int64_t length = 0; // of a row, at most; 0: as it was trained, or as its configuration allows
};

// Gives false to stop.
using PredictRow = std::function<bool(std::size_t row, const nlohmann::json& said)>;

// The columns of texts that the model reads; what is to be predicted is not among them. unsupported where the folder
// does not say what the model was trained for, or that was plain text.
Result<std::vector<data::TaskColumn>> text_columns(const Model& model);

// The model must be open with its objective. Rows of like length share a pass, so they come in no order: use `row`.
// Labels get their names where config.json has them. cancelled: `give` said stop.
Status predict(Model& model, std::span<const data::EncodedExample> examples, const PredictOptions& options,
               const PredictRow& give);

} // namespace hekla::infer
