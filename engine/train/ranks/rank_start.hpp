// What ranks tell each other before a training: rank 0 gives the others everything of the run's folder, and all compare
// what they must have in common. All ranks call a function of the same name together.
#pragma once

#include "base/temporary_folder.hpp"
#include "text/text_encoder.hpp"
#include "train/run/run_context.hpp"

#include <functional>
#include <nlohmann/json.hpp>

namespace hekla::train {

struct PreparedRun;

// What another rank than 0 begins with.
struct RankStart {
    Recipe recipe; // resolved
    TemporaryFolder tokenizer;
    text::TextRules text_rules;
    double held_out = 0.0;
};

// Compares versions and recipes, and lets messages name the ranks by host and process. One rank alone greets nobody.
Status greet(const RunContext& context, const Recipe& recipe);
// Rank 0 sends, the others receive.
Status send_start(const PreparedRun& run);
Result<RankStart> receive_start(const RunContext& context, const Recipe& recipe);
// Compares what the ranks have made of the recipe, before they compile it: data, tokenizer and network. Warns of ranks
// that share a device.
Status compare_runs(const PreparedRun& run, const graph::Graph& described, const gpu::Capabilities& device);

// A JSON object from rank 0 to the others: on them tell() does nothing.
Status tell(exchange::Communicator& ranks, const nlohmann::json& message);
Result<nlohmann::json> hear(exchange::Communicator& ranks);
// Returns make() of rank 0 on all ranks. ranks: null for one alone.
Result<nlohmann::json> shared(exchange::Communicator* ranks, const std::function<Result<nlohmann::json>()>& make);

} // namespace hekla::train
