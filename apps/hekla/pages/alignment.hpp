// The attention of an encoder-decoder while it generates: for every generated token, its weight on each source token.
#pragma once

#include "command.hpp"

namespace hekla::app {

struct Alignment {
    std::vector<std::string> read, written; // tokens as text; the last of `written` is the end
    std::vector<float> weights;             // [written, read]: mean of all heads that attend to the source
};

struct ReadAndWritten {
    std::string read, written;
};

// Computes them with the model in a run's folder, in the order of the texts. Empty if the model has no attention from
// the target to the source. Errors: those of the folder, the device, the tokenizer.
Result<std::vector<Alignment>> alignments(const Globals& globals, const std::string& model,
                                          const std::vector<ReadAndWritten>& texts);

// Draws generated tokens in rows and source tokens in columns; darker cells have more attention.
std::string alignment_svg(const Alignment& alignment);

} // namespace hekla::app
