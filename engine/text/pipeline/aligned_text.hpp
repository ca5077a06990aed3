// A text whose bytes keep their origin while it is changed, by the rules of the tokenizers library (NormalizedString),
// so that the ranges of tokens are the same as there.
#pragma once

#include "text/byte_range.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// One character of a changed text. `change`: 0 replaces the next character of the old text; -n also removes the n after
// it; 1 is inserted, and has the origin of the character before.
struct TextChange {
    char32_t value = 0;
    int32_t change = 0;
};

class AlignedText {
public:
    AlignedText() = default;
    // Takes a part of the original text that begins at `begin` there. `aligned`: whether origins are kept.
    AlignedText(std::string_view part, std::size_t begin, bool aligned);
    // Returns an empty text to which parts of this one are appended.
    AlignedText emptied() const;

    std::string_view text() const { return text_; }
    bool is_aligned() const { return aligned_; }
    std::size_t size() const { return text_.size(); }
    // Returns whether the text begins with the first character of the original text.
    bool begins_original() const { return begins_original_ && !text_.empty(); }
    // Returns the origin of bytes [begin, end), which are not empty. Needs is_aligned().
    ByteRange origin(std::size_t begin, std::size_t end) const {
        return {origins_[begin].begin, origins_[end - 1].end};
    }

    // Append a part of `other`; a text whose characters all have the origin of the byte of `other` before `at`.
    void append(const AlignedText& other, std::size_t begin, std::size_t end);
    void append_inserted(std::string_view inserted, const AlignedText& other, std::size_t at);
    // Appends bytes [begin, end) of `other` with changes. `removed`: characters at their beginning without successor.
    void append_changed(const AlignedText& other, std::size_t begin, std::size_t end,
                        std::span<const TextChange> changes, std::size_t removed = 0);
    // Appends `prefix` and bytes [begin, end) of `other`, which are not empty; both begin with the first one's origin.
    void append_prefixed(std::string_view prefix, const AlignedText& other, std::size_t begin, std::size_t end);
    // Appends bytes [begin, end) of `other` in the byte alphabet: a letter a byte, with its character's origin.
    void append_spelled(const AlignedText& other, std::size_t begin, std::size_t end,
                        std::span<const std::string> letters);

private:
    void put(char32_t value, const ByteRange& origin);

    std::string text_;
    std::vector<ByteRange> origins_; // of each byte
    std::size_t base_ = 0;           // where the part began in the original
    bool aligned_ = false;
    bool begins_original_ = false;
};

} // namespace hekla::text
