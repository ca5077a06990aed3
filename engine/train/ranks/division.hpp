// How the ranks of a training divide it: [distributed] of a recipe, settled for the ranks that there are.
#pragma once

#include "base/status.hpp"
#include "train/ranks/exchange_plan.hpp"
#include "train/recipe/recipe.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace hekla::graph {
struct Graph;
}
namespace hekla::program {
struct ShardOptions;
struct StoreChunk;
} // namespace hekla::program

namespace hekla::train {

class Division {
public:
    enum class Kind {
        whole,   // one rank takes whole steps
        parts,   // each step is computed in parts, whose gradients are added on the host
        islands, // each rank trains alone between averages (DiLoCo)
    };
    Division() = default; // whole

    // Replaces distributed.batch = "rank" by the batch of a step, and chooses distributed.parts if the recipe does not.
    // before: the recipe of the run that is continued; null: it starts. run: its folder, for messages. Errors: keys
    // that do not fit the number of ranks, the batch or each other.
    static Result<Division> settle(Recipe& recipe, const Recipe* before, int32_t rank, int32_t ranks,
                                   const std::filesystem::path& run);
    // Checks the keys that concern evaluations and checkpoints.
    Status check_steps(const Recipe& recipe) const;

    // What a training does in a step besides the update of adamw or sgd. Empty or false: not.
    struct Used {
        bool rollouts = false;
        std::string objective = {}; // of the rollouts
        bool alternates = false;    // train.alternate
        bool taps = false;          // tap.names
        std::vector<std::string> written_buffers = {};
        std::string updates = {}; // which optimizers, if they are not one kernel
    };
    // unsupported: what cannot be divided like this, and what to do.
    Status check_supported(const Used& used) const;

    Kind kind() const { return kind_; }
    int32_t ranks() const { return ranks_; }
    // Whether several ranks divide the batches of an evaluation.
    bool divides_evaluations() const { return kind_ == Kind::parts && ranks_ > 1; }
    // Whole steps that are taken at the same time, by different ranks.
    int64_t steps_at_once() const { return kind_ == Kind::islands ? ranks_ : 1; }
    // The share of a step's micro-batches that a rank computes.
    double share_of_step() const { return kind_ == Kind::parts ? 1.0 / ranks_ : 1.0; }
    // Which elements of the store this rank owns; nothing: all.
    std::optional<program::ShardOptions> shard(const DistributedSection& section) const;
    StepParts parts_of_step(const Recipe& recipe) const;
    // What ranks exchange; nothing for one rank.
    ExchangePlan plan(std::span<const program::StoreChunk> chunks, const Recipe& recipe, const graph::Graph& described,
                      PlannedRanks planned, double micro_seconds) const;

private:
    Kind kind_ = Kind::whole;
    int32_t rank_ = 0, ranks_ = 1;
};

} // namespace hekla::train
