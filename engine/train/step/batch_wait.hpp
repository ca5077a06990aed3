// Waits for a batch that a plugin makes on another thread.
#pragma once

#include "data/batcher.hpp"
#include "train/training_events.hpp"

namespace hekla::train {

// The plugin whose collate() makes the batches.
struct BatchMaker {
    std::string objective; // for messages: "objective 'clm' (/path/clm.so)"
    bool isolated = false; // in a worker process, which has a time limit
};

// Returns true when batcher.next() has a result, false if events.stop asks to stop first. After 10 seconds, and again
// after 40, 160, ..., a message reports what is awaited.
bool wait_for_batch(data::Batcher& batcher, const TrainerEvents& events, const BatchMaker& maker);

// Ends the threads of a batcher whose training was asked to stop. If a plugin does not return within 3 seconds,
// events.abandoned is called with its name before this waits for it.
void end_batches(data::Batcher& batcher, const TrainerEvents& events, const BatchMaker& maker);

} // namespace hekla::train
