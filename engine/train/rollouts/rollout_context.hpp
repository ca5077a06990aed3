// What rollouts share with the training that learns from them.
#pragma once

#include "base/log.hpp"
#include "train/recipe/recipe.hpp"

#include <filesystem>
#include <memory_resource>

namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
class Composition;
struct CompositionSpec;
class Registry;
class RolloutUse;
} // namespace hekla::plugin
namespace hekla::program {
class ParameterStore;
class Runtime;
} // namespace hekla::program
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

class RunData;
struct TrainerEvents;

// What a run has of its own model.
struct TrainedModel {
    const Recipe& recipe;
    const plugin::Registry& registry;
    const plugin::Composition& composition; // with the objective
    const graph::Graph& described;          // of a step, not differentiated
    const plugin::CompositionSpec& spec;    // without objective and teacher
    const text::Tokenizer& tokenizer;
    program::Runtime* runtime; // null for an estimate, like the next
    program::ParameterStore* store;
};

// What rollouts share with the run; all of it outlives them.
struct RolloutContext {
    TrainedModel model;
    const RunData& data;
    const plugin::RolloutUse& use;
    const TrainerEvents& events;
    const Log& log;
    std::filesystem::path folder;      // of the run
    std::pmr::memory_resource* memory; // of batches
};

} // namespace hekla::train
