// A head's predictions for a batch: its decode over the program's outputs.
#pragma once

#include "data/batcher.hpp"
#include "graph/reference.hpp"
#include "plugin/composition/compose.hpp"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

// Returns one object per row, for the first `rows` rows of the batch. outputs: of the ports in decode_ports(). Errors:
// a head without decode; a text from decode that is not a JSON object.
Result<std::vector<nlohmann::json>> decode_rows(const plugin::Composition& composition,
                                                const std::map<std::string, graph::Tensor, std::less<>>& outputs,
                                                std::span<data::Field> fields, std::size_t rows);

// Adds "label_name" to an object with "label", and "label_names" to one with "labels", for a number or an array.
void name_labels(nlohmann::json& predicted, const std::function<nlohmann::json(const nlohmann::json& label)>& name_of);

} // namespace hekla::infer
