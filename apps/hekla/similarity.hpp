// Pairs of texts that people gave numbers for their likeness, and how well a model's features agree with them.
#pragma once

#include "base/status.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::app {

struct Pairs {
    std::vector<std::string> first, second;
    std::vector<double> scores;
};

// From a table with the columns text_a, text_b, score. columns: "NAME=SOURCE", where the file calls them otherwise.
// format: data::format_of_name's, "" by the file's name. Errors: those of open_examples, a column that is none of the
// three, a score that is no number.
Result<Pairs> read_pairs(const std::string& file, const std::string& format, const std::vector<std::string>& columns);

double cosine_of(std::span<const float> a, std::span<const float> b); // 0 where one has no length

struct Likeness {
    double pearson = 0.0, spearman = 0.0;
};
Result<Likeness> compare(std::span<const double> cosines, std::span<const double> scores);

} // namespace hekla::app
