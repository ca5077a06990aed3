// Learns byte-pair merges from counted words. A pure function: the same counts give the same merges, in any order of
// words.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "text/merges.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

struct CountedWord {
    std::vector<int32_t> symbols; // indices into the alphabet
    uint64_t count = 0;
};

struct LearnedMerges {
    std::vector<std::string> symbols; // the alphabet, then the merged symbols, in order
    std::vector<Merge> merges;        // ids are indices into `symbols`
};

// Merges the most frequent pair until there are `target` symbols or no pair occurs `min_frequency` times. Of equally
// frequent pairs the one with the smaller left id, then the smaller right id, is first. Two ways to make the same
// string give one symbol. A right symbol's `prefix` (WordPiece's "##") is left out where the two are joined. Error:
// cancelled, by `stop`.
Result<LearnedMerges> learn_merges(std::vector<std::string> alphabet, std::vector<CountedWord> words,
                                   std::size_t target, uint64_t min_frequency, std::string_view prefix = {},
                                   const StopPoll& stop = {});

} // namespace hekla::text
