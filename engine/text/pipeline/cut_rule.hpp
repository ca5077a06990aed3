// Where a long text can be cut so that its parts, encoded one by one, have the ids of the whole.
#pragma once

#include "text/pipeline/pipeline.hpp"

#include <string_view>

namespace hekla::text {

// A rule that is derived from a pipeline once. It knows two kinds of places: before a space that follows a letter or
// digit, and after a newline that a letter or digit follows.
class CutRule {
public:
    CutRule() = default;
    explicit CutRule(std::string_view expression); // of text that is split by an expression into byte-level words
    CutRule(const Pipeline& pipeline, const WordModel& model, const Vocabulary& vocabulary);

    bool any() const { return before_space_ || after_newline_; }
    // Returns whether the pipeline has the same pieces on both sides of `at`, added tokens aside.
    bool can_cut(std::string_view text, std::size_t at) const;

private:
    bool before_space_ = false;
    bool after_newline_ = false;
    bool needs_break_ = false;        // of grapheme clusters, for SentencePiece's map
    bool chinese_has_spaces_ = false; // BERT's normalizer puts spaces around Chinese characters
};

} // namespace hekla::text
