// What all stages of a training share with its caller.
#pragma once

#include "base/log.hpp"
#include "exchange/communicator.hpp"
#include "plugin/registry/registry.hpp"
#include "train/ranks/planned_ranks.hpp"
#include "train/training_events.hpp"

#include <memory_resource>
#include <string>

namespace hekla::train {

enum class Purpose {
    train,   // a TrainingLoop follows: the run's folder is created and locked now
    read,    // plan, evaluate, replay: the run's files do not change
    join,    // serve_rank_0() follows: this is another rank than 0 of a training, and does not use the run's folder
    initial, // evaluate what the recipe's training would begin with: the run's checkpoints are not read either
};

// Registry, memory and ranks outlive it.
struct RunContext {
    const plugin::Registry& registry;
    std::pmr::memory_resource* host_memory;
    exchange::Communicator& ranks;
    Log log;
    TrainerEvents events;
    PlannedRanks planned = {}; // of an estimate; ranks 0: those of `ranks`

    int32_t rank_count() const { return planned.count(ranks.size()); }
    void message(const std::string& text) const {
        if (events.message) events.message(text);
    }
};

} // namespace hekla::train
