// One text for the graphs of a network at many sizes. Where texts of graph/text.hpp that were made for other sizes
// (rows, tokens) differ only in numbers that are sums of products of the sizes, and in lists (tables of positions and
// of distances) of which each begins the longest, ends it or is its middle, the sizes can be left open.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::graph {

struct SizedText {
    std::vector<int64_t> sizes;
    std::string text;
};

// The text with its sizes left open. With n sizes the first 2^n samples are those of two values of each size: bit i of
// a sample's number says which of the two size i has. All others are made again and compared. unsupported: the texts
// differ otherwise.
Result<std::string> open_text(std::span<const SizedText> samples);

// The text for these sizes. corrupt: it is none of as many sizes.
Result<std::string> close_text(std::string_view text, std::span<const int64_t> sizes);

} // namespace hekla::graph
