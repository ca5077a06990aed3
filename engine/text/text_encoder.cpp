#include "text/text_encoder.hpp"

#include <algorithm>

namespace hekla::text {

bool TextEncoder::parses(TextUse use) const {
    switch (use) {
    case TextUse::row:
    case TextUse::sentence: return rules_.parses_special;
    case TextUse::untrusted: return false;
    case TextUse::document:
    case TextUse::prompt:
    case TextUse::continuation:
    case TextUse::features:
    case TextUse::conversation: return true;
    }
    return true;
}

Status TextEncoder::encode(TextUse use, std::string_view text, std::vector<int32_t>& ids,
                           std::vector<ByteRange>* ranges, const TextOrigin& origin) const {
    std::vector<int32_t> own;
    std::vector<ByteRange> own_ranges;
    HK_TRY(tokenizer_->encode(text, {.match_special = parses(use), .origin = origin}, own,
                              ranges != nullptr ? &own_ranges : nullptr));
    const std::size_t count = own.size();
    if (use == TextUse::prompt) begin_prompt(document_frame().before, own);
    const std::size_t before = use == TextUse::features ? tokenizer_->frame().before.size() : own.size() - count;
    if (use == TextUse::features) own = framed(std::move(own));
    ids.insert(ids.end(), own.begin(), own.end());
    if (ranges == nullptr) return {};
    ranges->insert(ranges->end(), before, {0, 0});
    ranges->insert(ranges->end(), own_ranges.begin(), own_ranges.end());
    ranges->insert(ranges->end(), own.size() - count - before, {text.size(), text.size()});
    return {};
}

Result<std::vector<int32_t>> TextEncoder::encode(TextUse use, std::string_view text, const TextOrigin& origin) const {
    std::vector<int32_t> ids;
    HK_TRY(encode(use, text, ids, nullptr, origin));
    return ids;
}

Status TextEncoder::encode_word(std::string_view word, bool first, std::vector<int32_t>& ids) const {
    const bool spaced = !first && tokenizer_->kind() == "byte_bpe";
    const std::size_t known = ids.size();
    HK_TRY(encode(TextUse::row, spaced ? " " + std::string(word) : std::string(word), ids));
    // A word without tokens (white space, for example) keeps its position.
    if (ids.size() == known) ids.push_back(tokenizer_->special(TokenRole::unk).value_or(0));
    return {};
}

std::vector<int32_t> TextEncoder::framed(std::vector<int32_t> ids) const {
    const TextFrame& frame = tokenizer_->frame();
    ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
    return ids;
}

void begin_prompt(std::span<const int32_t> begin, std::vector<int32_t>& ids) {
    const bool typed = ids.size() >= begin.size() && std::ranges::equal(std::span(ids).first(begin.size()), begin);
    if (!typed) ids.insert(ids.begin(), begin.begin(), begin.end());
}

} // namespace hekla::text
