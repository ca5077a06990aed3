// How the rows of a step are laid out on a device: how long they are, how many are computed at once, and whether
// activations are computed again. The one place where a row layout is chosen.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hekla::program {
class Runtime;
}
namespace hekla::text {
class ChatTemplate;
}
namespace hekla::train {
struct DescribedTraining;
struct PreparedRun;
} // namespace hekla::train

namespace hekla::app {

// Lengths of rows in tokens.
struct RowLengths {
    std::vector<int64_t> sampled; // ascending
    uint64_t rows = 0;            // of the data

    int64_t longest() const { return sampled.back(); }
    double mean() const;
    // Returns the share of the rows that are longer.
    double share_above(int64_t length) const;
};

// Encodes up to some hundred rows of the run's table, evenly spread. Errors: those of TaskTable::encode.
Result<RowLengths> sample_lengths(const train::PreparedRun& run, const train::DescribedTraining& training,
                                  const text::ChatTemplate* chat);

// What a layout must have.
struct LayoutWish {
    int64_t step_rows = 1;     // rows of an optimizer step
    int64_t length = 64;       // tokens of a row, at most
    bool fixed_length = false; // not less
    int64_t rows = 0;          // of a micro-batch; 0: it is chosen
    bool evaluates = false;    // the run has evaluations, whose programs need memory, too
};

struct RowLayout {
    int64_t rows = 1;       // of a micro-batch
    int64_t length = 0;     // tokens
    bool recompute = false; // train.gradient_checkpointing
    uint64_t bytes = 0;     // of the training on the device, as its plan has them
    uint64_t free = 0;      // bytes of the device
};

// Returns the largest micro-batch of the wished length that fits the device with a tenth to spare: first with all
// activations kept, then with those of blocks computed again, then with shorter rows. Nothing if not even one row of
// kShortestRow tokens fits. `run`'s recipe gets the keys of the last layout that was tried. Errors: what cannot be
// trained.
inline constexpr int64_t kShortestRow = 64;
Result<std::optional<RowLayout>> choose_layout(train::PreparedRun& run, program::Runtime& runtime,
                                               const LayoutWish& wish);

} // namespace hekla::app
