// The rewards of a recipe, and the weighted sum of their scores.
#pragma once

#include "base/log.hpp"
#include "program/runtime_source.hpp"
#include "reward/reward.hpp"
#include "reward/reward_spec.hpp"

#include <memory>
#include <nlohmann/json.hpp>

namespace hekla::plugin {
class Registry;
}

namespace hekla::reward {

struct Scores {
    std::vector<double> total;                   // of each text: the weighted sum; NaN if no reward could score it
    std::vector<std::vector<double>> of_rewards; // by reward, clipped; NaN: none
};

// Thread: one at a time.
class RewardSet {
public:
    // Errors name the reward and the key. registry and runtime must outlive the result.
    static Result<RewardSet> create(std::span<const RewardSpec> specs, const plugin::Registry& registry,
                                    const program::RuntimeSource& device, const Log& log);

    const std::vector<RewardSpec>& specs() const { return specs_; }
    std::vector<std::string> columns() const; // that they read, each once
    // A score that is NaN or infinite counts as none, and so does that of an empty set.
    Result<Scores> score(std::span<const TextToScore> texts) const;

private:
    std::vector<RewardSpec> specs_;
    std::vector<std::unique_ptr<Reward>> rewards_;
};

// Returns the columns of the data that rewards read, each once, without a device or the folders of models. Errors as
// create().
Result<std::vector<std::string>> columns_of_rewards(std::span<const RewardSpec> specs,
                                                    const plugin::Registry& registry);

// Returns the ids of the rewards that are not a plugin's.
std::vector<std::string> built_in_rewards();

} // namespace hekla::reward
