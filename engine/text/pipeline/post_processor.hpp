// The post-processor of a tokenizer.json: how the ranges of tokens are trimmed. The special tokens around a text are
// read by files/text_frame_files.hpp.
#pragma once

#include "text/byte_range.hpp"
#include "text/pipeline/section.hpp"
#include "text/vocabulary.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// Leaves spaces at the ends of tokens out of their ranges.
struct RangeTrim {
    bool add_prefix_space = true; // the space before a text's first token was inserted, and stays
};

struct PostProcessor {
    std::vector<RangeTrim> trims; // one after the other

    // Reads the section, which may be null. Errors: a type or option that is not supported, by its place.
    static Result<PostProcessor> read(const Section& section);
};

// Applies a trim to the ranges of a whole text's tokens. `as_given`: whether normalized added tokens were found in the
// text as it is; others are left as they are.
void trim_ranges(const RangeTrim& trim, const Vocabulary& vocabulary, bool as_given, std::string_view text,
                 std::span<const int32_t> ids, std::span<ByteRange> ranges);
// Applies a trim to the range of one token, by the text that it was found as.
void trim_range(const RangeTrim& trim, std::string_view text, std::string_view token, bool is_first, ByteRange& range);

} // namespace hekla::text
