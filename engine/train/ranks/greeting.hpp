// What ranks tell each other before a training: rank 0 gives the others everything of the run's folder, and all compare
// what they must have in common. All ranks call a function of the same name together; for one rank alone it
// does nothing.
#pragma once

#include "gpu/capabilities.hpp"
#include "graph/graph.hpp"
#include "train/ranks/rank_start.hpp"
#include "train/run/run_context.hpp"

namespace hekla::train {

struct PreparedRun;

// Compares versions and recipes, and lets messages name the ranks by host and process.
Status greet(const RunContext& context, const Recipe& recipe);
// Rank 0 sends, the others receive.
Status send_start(const PreparedRun& run);
Result<RankStart> receive_start(const RunContext& context, const Recipe& recipe);
// Compares what the ranks have made of the recipe, before they compile it: data, tokenizer and network. Warns of ranks
// that share a device.
Status compare_runs(const PreparedRun& run, const graph::Graph& described, const gpu::Capabilities& device);

} // namespace hekla::train
