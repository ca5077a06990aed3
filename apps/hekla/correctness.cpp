#include "correctness.hpp"

#include "base/trimmed.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace hekla::app {
namespace {

std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
}

} // namespace

void add_class_pairs(const PredictedRow& row, ClassPairs& pairs) {
    const PredictedRow prediction = row.value("said", PredictedRow::object());
    const auto named = [](const PredictedRow& label) {
        return label.is_string() ? std::optional(label.get<std::string>()) : std::nullopt;
    };
    if (prediction.contains("label_name"))
        for (const char* column : {"label", "labels"})
            if (row.contains(column)) {
                pairs.emplace_back(row[column].get<std::string>(), named(prediction["label_name"]));
                return;
            }
    if (!prediction.contains("label_names") || !row.contains("tags")) return;
    const std::vector<std::string> truth = words(row["tags"].get<std::string>());
    for (std::size_t i = 0; i < truth.size(); ++i)
        pairs.emplace_back(truth[i],
                           i < prediction["label_names"].size() ? named(prediction["label_names"][i]) : std::nullopt);
}

std::optional<bool> is_correct(const PredictedRow& row) {
    ClassPairs pairs;
    add_class_pairs(row, pairs);
    if (!pairs.empty()) return std::ranges::all_of(pairs, [](const auto& pair) { return pair.first == pair.second; });
    const PredictedRow prediction = row.value("said", PredictedRow::object());
    for (const char* column : {"target", "completion", "answer"})
        if (prediction.contains("text") && row.contains(column))
            return trimmed(prediction["text"].get<std::string>(), kLineBlanks) ==
                   trimmed(row[column].get<std::string>(), kLineBlanks);
    return {};
}

std::vector<Group> groups_of(std::span<const PredictedRow> rows) {
    std::map<std::string, Group> found;
    for (const PredictedRow& row : rows) {
        const std::optional<bool> correct = is_correct(row);
        if (!correct || !row.contains("group")) continue;
        Group& group = found[row["group"].get<std::string>()];
        ++group.examples;
        group.correct += *correct ? 1.0 : 0.0;
    }
    std::vector<Group> groups;
    for (auto& [name, group] : found) {
        group.name = name;
        group.correct /= static_cast<double>(group.examples);
        groups.push_back(std::move(group));
    }
    if (const auto numbers = group_numbers(groups)) {
        std::map<int64_t, Group> by_number;
        for (std::size_t i = 0; i < groups.size(); ++i) by_number.emplace((*numbers)[i], std::move(groups[i]));
        groups.clear();
        for (auto& [number, group] : by_number) groups.push_back(std::move(group));
    }
    return groups;
}

std::optional<std::vector<int64_t>> group_numbers(std::span<const Group> groups) {
    std::vector<int64_t> numbers;
    for (const Group& group : groups) {
        int64_t value = 0;
        const char* end = group.name.data() + group.name.size();
        const auto [stop, problem] = std::from_chars(group.name.data(), end, value);
        if (problem != std::errc() || stop != end || std::ranges::find(numbers, value) != numbers.end()) return {};
        numbers.push_back(value);
    }
    return numbers;
}

} // namespace hekla::app
