#include "word_vectors.hpp"

#include "text/text_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace hekla::app {
namespace {

std::span<const float> row_of(const VectorTable& table, std::size_t row) {
    return std::span(table.values).subspan(row * table.width, table.width);
}

double dot(std::span<const float> a, std::span<const float> b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

std::size_t named_rows(const VectorTable& table, const text::Tokenizer& tokenizer) {
    return std::min(table.rows, static_cast<std::size_t>(tokenizer.vocabulary_size()));
}

Result<std::size_t> row_of_word(const VectorTable& table, const text::Tokenizer& tokenizer, const std::string& word) {
    HK_ASSIGN(const std::vector<int32_t> ids, text::TextEncoder(tokenizer).encode(text::TextUse::continuation, word));
    std::vector<std::string> tokens;
    for (const int32_t id : ids)
        if (const Result<std::string> token = tokenizer.token(id); token.ok()) tokens.push_back(token.value());
    if (ids.size() != 1)
        return invalid_argument(fmt::format("'{}' is {} tokens ({}); give a word that is one token", word, ids.size(),
                                            fmt::join(tokens, ", ")));
    if (tokenizer.vocabulary().is_special(ids[0]) || static_cast<std::size_t>(ids[0]) >= table.rows)
        return not_found(fmt::format("'{}' is not in the vocabulary", word));
    return static_cast<std::size_t>(ids[0]);
}

} // namespace

Result<std::vector<Neighbor>> nearest(const VectorTable& table, const text::Tokenizer& tokenizer,
                                      const std::string& word, std::size_t count) {
    HK_ASSIGN(const std::size_t own, row_of_word(table, tokenizer, word));
    const std::span<const float> vector = row_of(table, own);
    const double length = std::sqrt(dot(vector, vector));
    std::vector<std::pair<double, std::size_t>> all;
    for (std::size_t row = 0; row < named_rows(table, tokenizer); ++row) {
        if (row == own || tokenizer.vocabulary().is_special(static_cast<int32_t>(row))) continue;
        const std::span<const float> other = row_of(table, row);
        const double lengths = length * std::sqrt(dot(other, other));
        all.emplace_back(lengths > 0.0 ? dot(vector, other) / lengths : 0.0, row);
    }
    const std::size_t shown = std::min(count, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(shown), std::greater<>());
    std::vector<Neighbor> result;
    for (std::size_t i = 0; i < shown; ++i) {
        HK_ASSIGN(std::string token, tokenizer.token(static_cast<int32_t>(all[i].second)));
        result.push_back({std::move(token), all[i].first});
    }
    return result;
}

std::string word2vec_text(const VectorTable& table, const text::Tokenizer& tokenizer) {
    std::string lines;
    std::size_t count = 0;
    for (std::size_t row = 0; row < named_rows(table, tokenizer); ++row) {
        const Result<std::string> token = tokenizer.token(static_cast<int32_t>(row));
        if (!token.ok() || token->empty() || token->find_first_of(" \t\r\n") != std::string::npos) continue;
        ++count;
        lines += token.value();
        for (const float value : row_of(table, row)) fmt::format_to(std::back_inserter(lines), " {}", value);
        lines += '\n';
    }
    return fmt::format("{} {}\n", count, table.width) + lines;
}

} // namespace hekla::app
