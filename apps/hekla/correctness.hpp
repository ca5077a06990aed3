// What an evaluation said of examples beside what the data has: pairs of classes, right or wrong, shares of a group.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

// A row as hk_evaluate tells it: "place", the columns, "group", "said".
using ToldRow = nlohmann::ordered_json;

// The true class of each thing that was told apart and the one said of it.
using ClassPairs = std::vector<std::pair<std::string, std::string>>;
void add_class_pairs(const ToldRow& row, ClassPairs& pairs);

// Whether what was said is what the data has; nothing where that cannot be told.
std::optional<bool> is_right(const ToldRow& row);

// The examples that have the same in the recipe's data.group.
struct Group {
    std::string name;
    uint64_t examples = 0;
    double right = 0.0; // share
};
// In the order of their numbers where all names are numbers, else of their names. Rows of which cannot be told whether
// they are right count nowhere.
std::vector<Group> groups_of(std::span<const ToldRow> rows);

// The name as an integer, if all groups have one.
std::optional<std::vector<int64_t>> group_numbers(std::span<const Group> groups);

} // namespace hekla::app
