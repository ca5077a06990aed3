#include "infer/texts/feature_rows.hpp"

#include "text/jinja/strings.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

// Cuts a row to a length. Special tokens at its end stay, as the last of the tokens that are kept.
void cut_to(std::size_t length, const text::Vocabulary& vocabulary, std::vector<int32_t>& row) {
    std::size_t ends = 0;
    while (ends < row.size() && vocabulary.is_special(row[row.size() - 1 - ends])) ++ends;
    ends = std::min(ends, length);
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(length - ends), row.end() - static_cast<std::ptrdiff_t>(ends));
}

} // namespace

Result<FeatureRows> feature_rows(const Model& model, const FeatureTexts& given) {
    FeatureRows rows;
    if (given.texts.empty()) return rows;
    if (model.tokenizer == nullptr) return model.tokenizer_problem;
    const text::Vocabulary& vocabulary = model.tokenizer->vocabulary();
    const text::TextEncoder encoder = text_encoder(model);
    const text::TextUse use = given.framed ? text::TextUse::features : text::TextUse::continuation;
    const auto encode = [&](const std::string& text) {
        return encoder.encode(use, given.lower_case ? text::jinja::lower(text) : text);
    };
    for (std::size_t i = 0; i < given.texts.size(); ++i) {
        if (given.texts[i].empty())
            return invalid_argument(fmt::format("text {} is empty; it needs at least one character", i + 1));
        Result<std::vector<int32_t>> ids = encode(given.prompt + given.texts[i]);
        if (!ids.ok()) return ids.status().with_context(fmt::format("text {}", i + 1));
        rows.ids.push_back(ids.take());
        if (given.longest == 0 || rows.ids.back().size() <= given.longest) continue;
        cut_to(given.longest, vocabulary, rows.ids.back());
        ++rows.cut;
    }
    if (given.prompt.empty()) return rows;
    // As sentence-transformers counts them: without a special token at the end.
    HK_ASSIGN(const std::vector<int32_t> prompt, encode(given.prompt));
    rows.prompt = prompt.size() - (!prompt.empty() && vocabulary.is_special(prompt.back()) ? 1 : 0);
    return rows;
}

} // namespace hekla::infer
