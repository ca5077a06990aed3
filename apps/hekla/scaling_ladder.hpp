// The file of `hekla scale run`: which sizes of a recipe's model are trained on how many tokens.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hekla::app {

// One training of a ladder.
struct LadderRun {
    std::string name;                   // SIZE-TOKENS; that of its folder
    std::vector<std::string> overrides; // of the recipe: those of its size
    int64_t tokens = 0;                 // to train on
    bool target = false;                // held out: trained after its loss was predicted
};

struct Ladder {
    std::string file;
    std::string recipe;
    std::filesystem::path folder;
    bool repeat_data = false;    // a run may train on more tokens than there are
    std::vector<LadderRun> runs; // those of sizes, then the targets; each in the order of the file
};

// Reads a ladder:
//   recipe = "characters.toml"          # its path from the ladder's folder
//   dir = "out/scaling"
//   tokens = [1_000_000, 2_000_000]     # each size is trained on each
//   [[size]]
//   name = "small"
//   overrides = ["model.n_embd=32"]
//   [[target]]                          # as [[size]], with tokens of its own
// Errors name file, line and key: an unknown or missing one, a name twice or not fit for a folder, tokens below 1, an
// override of a section that all runs must share (data, tokenizer, objective, head, output) or of a key that is set for
// each run.
Result<Ladder> read_ladder(const std::string& file);

} // namespace hekla::app
