// Pairs of texts with human similarity scores, and how well the features of a model correlate with them.
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

// Reads a table with the columns text_a, text_b, score. columns: "NAME=SOURCE" for columns with other names in the
// file. format: as in data::format_of_name; "": by the file's name. Errors: those of open_examples, an unknown column,
// a score that is not a number.
Result<Pairs> read_pairs(const std::string& file, const std::string& format, const std::vector<std::string>& columns);

double cosine_of(std::span<const float> a, std::span<const float> b); // 0 if one of them is zero

// Correlation coefficients.
struct Agreement {
    double pearson = 0.0, spearman = 0.0;
};
Result<Agreement> agreement_of(std::span<const double> cosines, std::span<const double> scores);

} // namespace hekla::app
