// What an objective makes of rollouts, the texts that the trained model has written: calls of the plugin that provides
// hekla.rollout.draft/1 under the objective's id, whose results are checked.
#pragma once

#include "plugin/instances/instance.hpp"

#include "hekla/plugin/draft/rollout.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::plugin {

// hk_rollout_needs.
struct RolloutNeeds {
    bool reference = false, values = false, entropies = false;
    int64_t epochs = 1;
    int64_t least_generations = 0;
    double kl_coef = 0.0;
};

// Returns whether the objective learns from rollouts.
bool learns_from_rollouts(const Registry& registry, std::string_view objective);

// Errors name the objective. Thread: one at a time.
class RolloutUse {
public:
    // config: of the objective, completed by defaults. `registry` must outlive this.
    static Result<std::unique_ptr<RolloutUse>> create(const Registry& registry, const std::string& objective,
                                                      const nlohmann::json& config);
    ~RolloutUse();
    RolloutUse(const RolloutUse&) = delete;
    RolloutUse& operator=(const RolloutUse&) = delete;

    const RolloutNeeds& needs() const { return needs_; }

    struct Weighed {
        std::vector<std::pair<std::string, std::vector<float>>> columns; // a number for each token of all completions
        std::vector<std::pair<std::string, double>> metrics;
        double kl_coef = 0.0; // of the next iteration
    };
    // Errors: the plugin's; a column that has not one finite number for each token, or a name that is used twice.
    Result<Weighed> weigh(const hk_rollouts& rollouts) const;

private:
    explicit RolloutUse(const Registry& registry) : registry_(registry) {}
    const Registry& registry_;
    Instance<hk_rollout_use> instance_;
    RolloutNeeds needs_;
};

} // namespace hekla::plugin
