// One text for the graphs of a network at many sizes (rows, tokens). It exists if the texts of graph/text.hpp for
// different sizes differ only in numbers that are sums of products of the sizes, and in lists (tables of positions and
// distances) that are the beginning, end or middle of the longest one.
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

// Returns the text with open sizes. With n sizes the first 2^n samples are those of two values of each size: bit i of a
// sample's number selects the value of size i. All other samples are generated and compared. unsupported: the texts
// differ in another way.
Result<std::string> open_text(std::span<const SizedText> samples);

// Returns the text for these sizes. corrupt: the text has a different number of sizes.
Result<std::string> close_text(std::string_view text, std::span<const int64_t> sizes);

} // namespace hekla::graph
