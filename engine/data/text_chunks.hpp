// A long text in chunks whose ids, concatenated, are the ids of the whole text.
#pragma once

#include "base/status.hpp"
#include "text/tokenizer.hpp"

#include <string>
#include <string_view>

namespace hekla::data {

struct TextChunk {
    std::string_view text;
    text::TextOrigin origin;
};

class TextChunks {
public:
    // `text` (a mapped file) and `tokenizer` must outlive this. Chunks are about `chunk_bytes` long; longer if the
    // tokenizer has no valid split.
    TextChunks(const text::Tokenizer& tokenizer, std::string_view text, std::string name, std::size_t chunk_bytes);

    // Returns the next chunk; an empty one at the end. Error: text that is not UTF-8 (contains line and byte offset).
    Result<TextChunk> next();

private:
    Status check_up_to(std::size_t end); // tokenizers only read valid UTF-8

    const text::Tokenizer& tokenizer_;
    std::string_view text_;
    std::size_t chunk_bytes_;
    text::TextOrigin origin_; // of the next chunk
    std::size_t at_ = 0;
    text::TextOrigin checked_origin_;
    std::size_t checked_ = 0;
};

} // namespace hekla::data
