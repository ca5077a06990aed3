// Predictions of an evaluation compared with the data: pairs of classes, correct or not, shares by group.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

// One prediction as hk_evaluate reports it: "place", the columns, "group", "said".
using PredictedRow = nlohmann::ordered_json;

// The true class of each classified item, and the predicted one; empty for a word without a prediction, since its row
// was cut before it.
using ClassPairs = std::vector<std::pair<std::string, std::optional<std::string>>>;
void add_class_pairs(const PredictedRow& row, ClassPairs& pairs);

// Returns whether the prediction equals the data; empty if that cannot be decided.
std::optional<bool> is_correct(const PredictedRow& row);

// The examples with the same value in the column data.group of the recipe.
struct Group {
    std::string name;
    uint64_t examples = 0;
    double correct = 0.0; // share of them, 0 to 1
};
// Sorted by number if all names are numbers, else by name. Rows whose correctness cannot be decided are not counted.
std::vector<Group> groups_of(std::span<const PredictedRow> rows);

// Returns the name as an integer, if all groups have one.
std::optional<std::vector<int64_t>> group_numbers(std::span<const Group> groups);

} // namespace hekla::app
