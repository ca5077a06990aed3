// What rank 0 asks all ranks of a training to do.
#pragma once

#include "exchange/communicator.hpp"
#include "program/parameter_store.hpp"

namespace hekla::train {

// One value for all tasks, which every rank knows the size of.
struct RankCommand {
    enum class Task : int64_t {
        end,
        steps, // as many as StepStrategy::steps_at_once() has
        roll_out,
        evaluate,
        balance,
        synchronize,
        gather, // a moment, from the ranks that own it
        scatter,
        read_moment, // of an island
        write_moment,
        read_states,
        write_states,
    };
    Task task = Task::end;
    int64_t step = 0;  // of applied and skipped steps before it
    int64_t entry = 0; // of the store's table
    int64_t arena = 0;
    int64_t island = 0;
};

// A moment, which the command names by its place in the table.
inline RankCommand moment_command(RankCommand::Task task, const program::ParameterStore& store,
                                  const program::ParameterEntry& entry, program::StoreArena arena, int64_t island = 0) {
    return {task, 0, &entry - store.table().data(), static_cast<int64_t>(arena), island};
}

// Sends a command to all other ranks. Rank 0 calls it.
inline Status command(exchange::Communicator& ranks, RankCommand what) { return ranks.broadcast(what); }

} // namespace hekla::train
