#include "data/text_chunks.hpp"

#include "text/text_position.hpp"

#include <algorithm>

namespace hekla::data {

TextChunks::TextChunks(const text::Tokenizer& tokenizer, std::string_view text, std::string name,
                       std::size_t chunk_bytes)
    : tokenizer_(tokenizer), text_(text), chunk_bytes_(std::max<std::size_t>(chunk_bytes, 1)) {
    origin_.name = std::move(name);
    checked_origin_ = origin_;
}

Status TextChunks::check_up_to(std::size_t end) {
    if (end <= checked_) return {};
    const std::string_view piece = text_.substr(checked_, end - checked_);
    HK_TRY(text::check_utf8(piece, checked_origin_));
    checked_origin_.byte += piece.size();
    checked_origin_.line += text::count_newlines(piece);
    checked_ = end;
    return {};
}

Result<TextChunk> TextChunks::next() {
    TextChunk chunk{{}, origin_};
    if (at_ == text_.size()) return chunk;
    // The tokenizer gets a window twice as long as wanted. A split is only valid inside, because the window's end is
    // not the text's end.
    std::size_t cut = 0;
    for (std::size_t window = 2 * chunk_bytes_;; window *= 2) {
        std::size_t end = window < text_.size() - at_ ? at_ + window : text_.size();
        while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0u) == 0x80u) ++end;
        HK_TRY(check_up_to(end));
        cut = at_ + tokenizer_.safe_cut(text_.substr(at_, end - at_), chunk_bytes_);
        if (cut < end || end == text_.size()) break;
    }
    chunk.text = text_.substr(at_, cut - at_);
    origin_.byte += chunk.text.size();
    origin_.line += text::count_newlines(chunk.text);
    at_ = cut;
    return chunk;
}

} // namespace hekla::data
