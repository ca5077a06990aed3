// Which optimizer updates which parameter, and with which options: [optimizer] of a recipe.
#pragma once

#include "base/log.hpp"
#include "train/update/optimizer.hpp"
#include "train/update/parameter_rules.hpp"
#include "train/update/update_program.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hekla::plugin {
class Optimizers;
class Registry;
} // namespace hekla::plugin

namespace hekla::train {

// Without [optimizer], and where it gives all parameters to adamw or to sgd, one kernel updates them; else the graphs
// of the optimizers' plugins do.
class UpdateRules {
public:
    UpdateRules() = default; // those of a recipe without keys
    // described: the graph of a step before it is differentiated; rules: of the same parameters. Errors: those of the
    // plugins; a pattern that no trained parameter matches; an option of another key of the recipe that only the kernel
    // has. `registry` must outlive this.
    static Result<UpdateRules> create(const Recipe& recipe, const plugin::Registry& registry,
                                      const graph::Graph& described, const ParameterRules& rules, const Log& log);

    bool by_kernel() const { return updates_.empty(); }
    // [train], with the options of [optimizer] for the kernel.
    const TrainSection& settings() const { return settings_; }
    program::Moments moments() const { return by_kernel() ? Optimizer::moments(settings_) : program::Moments(); }
    uint64_t state_bytes() const; // of the graphs' states
    // Refers to this. no_decay: parameters that a plugin excludes from weight decay.
    OptimizerRules rules(std::vector<std::string> no_decay) const;
    // "optimizer: muon updates 8 parameters, adamw 12"; empty without [optimizer].
    const std::string& summary() const { return summary_; }

private:
    Status set_kernel(const std::string& name, const nlohmann::json& options);

    TrainSection settings_;
    bool nesterov_ = false;
    std::map<std::string, double, std::less<>> factors_; // of the learning rate
    std::vector<PlannedUpdate> updates_;                 // empty: the kernel
    std::shared_ptr<plugin::Optimizers> plugins_;        // owns the graphs of updates_
    std::string summary_;
};

} // namespace hekla::train
