// What a head says of a batch: its decode over the program's outputs.
#pragma once

#include "data/batcher.hpp"
#include "graph/reference.hpp"
#include "plugin/compose.hpp"

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

} // namespace hekla::infer
