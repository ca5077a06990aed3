// What a head says of a batch: its decode over the program's outputs.
#pragma once

#include "data/batcher.hpp"
#include "graph/reference.hpp"
#include "plugin/compose.hpp"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace hekla::infer {

// One object a row, for the first `rows` rows of the batch. outputs: what decode_ports() names, by port. Errors: a head
// without decode, what it says is no JSON object.
Result<std::vector<nlohmann::json>> decode_rows(const plugin::Composition& composition,
                                                const std::map<std::string, graph::Tensor, std::less<>>& outputs,
                                                std::span<data::Field> fields, std::size_t rows);

// Adds "label_name" beside "label" and "label_names" beside "labels", a number or an array of them, where they are.
void name_labels(nlohmann::json& said, const std::function<nlohmann::json(const nlohmann::json& label)>& name_of);

} // namespace hekla::infer
