#include "similarity.hpp"

#include "base/read_real.hpp"
#include "data/examples.hpp"
#include "score/regression.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::app {

Result<Pairs> read_pairs(const std::string& file, const std::string& format, const std::vector<std::string>& columns) {
    data::ExampleOptions options;
    options.inputs = {file};
    if (!format.empty()) { HK_ASSIGN(options.format, data::format_of_name(format)); }
    for (const char* name : {"text_a", "text_b", "score"}) options.columns.push_back({.name = name});
    for (const std::string& one : columns) {
        const std::size_t equals = one.find('=');
        const auto found = std::ranges::find(options.columns, one.substr(0, equals), &data::ColumnRequest::name);
        if (equals == std::string::npos || found == options.columns.end())
            return invalid_argument(
                fmt::format("column '{}': expected NAME=SOURCE with NAME one of text_a, text_b, score", one));
        found->source = one.substr(equals + 1);
    }
    HK_ASSIGN(const std::unique_ptr<data::ExampleReader> reader, data::open_examples(options));
    Pairs pairs;
    for (data::Example example;;) {
        HK_ASSIGN(const bool more, reader->next(example));
        if (!more) return pairs;
        const std::string& number = example.values[2].text;
        double score = 0.0;
        const auto [end, problem] = read_real(number.data(), number.data() + number.size(), score);
        if (problem != std::errc() || end != number.data() + number.size() || !std::isfinite(score))
            return invalid_argument(fmt::format("{}: the score '{}' is not a number", reader->place(example), number));
        pairs.first.push_back(example.values[0].text);
        pairs.second.push_back(example.values[1].text);
        pairs.scores.push_back(score);
    }
}

double cosine_of(std::span<const float> a, std::span<const float> b) {
    double product = 0.0, of_a = 0.0, of_b = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        product += static_cast<double>(a[i]) * b[i];
        of_a += static_cast<double>(a[i]) * a[i];
        of_b += static_cast<double>(b[i]) * b[i];
    }
    return of_a > 0.0 && of_b > 0.0 ? product / std::sqrt(of_a * of_b) : 0.0;
}

Result<Agreement> agreement_of(std::span<const double> cosines, std::span<const double> scores) {
    Agreement agreement;
    HK_ASSIGN(agreement.pearson, score::pearson(cosines, scores));
    HK_ASSIGN(agreement.spearman, score::spearman(cosines, scores));
    return agreement;
}

} // namespace hekla::app
