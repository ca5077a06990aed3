// The pre-tokenizer of a tokenizer.json: how a normalized text is split into the words that the model encodes.
#pragma once

#include "text/pipeline/aligned_text.hpp"
#include "text/pipeline/section.hpp"
#include "text/splitter.hpp"

#include <string>
#include <vector>

namespace hekla::text {

// What happens to the matches of a split.
enum class SplitBehavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct PreTokenizerStep {
    enum class Kind : uint8_t { byte_level, split, metaspace, fixed_length };
    Kind kind = Kind::split;
    // What the file names it: "Split", "Digits", "Punctuation", ... Kind::split covers them all.
    std::string type;
    std::vector<std::pair<Pattern, SplitBehavior>> splits; // split: one after the other
    bool invert = false;                                   // split: the matches are the parts between
    bool add_prefix_space = false;                         // byte_level
    bool use_regex = false;                                // byte_level
    bool individual_digits = false;                        // split, Digits
    std::string replacement;                               // metaspace
    enum class Prepend : uint8_t { never, first, always } prepend = Prepend::never;
    bool splits_words = true; // metaspace
    std::size_t length = 0;   // fixed_length: in characters
};

// A text, and the parts of it that are left: each is a word in the end.
struct TextPieces {
    struct Piece {
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    AlignedText text;
    std::vector<Piece> pieces; // not empty, in order
};

class PreTokenizer {
public:
    // Reads the section, which may be null. Errors: a type or option that is not supported, by its place.
    static Result<PreTokenizer> read(const Section& section);

    const std::vector<PreTokenizerStep>& steps() const { return steps_; }
    bool is_none() const { return steps_.empty(); }
    bool has(PreTokenizerStep::Kind kind) const;
    // Splits further. Error: an expression that needs too many steps.
    Status apply(TextPieces& pieces) const;

private:
    std::vector<PreTokenizerStep> steps_;
};

} // namespace hekla::text
