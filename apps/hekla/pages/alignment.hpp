// What an encoder-decoder looked at while it wrote: for every token that was written, how much of its attention lay on
// each token that was read.
#pragma once

#include "command.hpp"

namespace hekla::app {

struct Alignment {
    std::vector<std::string> read, written; // tokens, as they are shown; the last of `written` is the end
    std::vector<float> weights;             // [written, read]: the mean of all heads that look at the source
};

struct ReadAndWritten {
    std::string read, written;
};

// By the model of a run's folder, in the order of the texts. Empty where it has no attention from what it writes to
// what it reads. Errors: of the folder, the device, the tokenizer.
Result<std::vector<Alignment>> alignments(const Globals& globals, const std::string& model,
                                          const std::vector<ReadAndWritten>& texts);

// A picture of one: what was written downwards, what was read across, darker where it looked more.
std::string alignment_svg(const Alignment& alignment);

} // namespace hekla::app
