// The second stage of a training: the network and its update as graphs, a function of the recipe, the tokenizer and
// what is known of the data. It needs no device; plans and masks of weights are made of it.
#pragma once

#include "graph/graph.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "program/lowering/parameter_table.hpp"
#include "train/run/adapted_body.hpp"
#include "train/step/features.hpp"
#include "train/step/step_scalars.hpp"
#include "train/step/taps.hpp"
#include "train/update/alternation.hpp"
#include "train/update/parameter_rules.hpp"
#include "train/update/update_rules.hpp"
#include "train/update/weight_mask.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::plugin {
struct BatchField;
class Composition;
class RolloutUse;
struct Record;
} // namespace hekla::plugin
namespace hekla::program {
struct CompileOptions;
class ParameterStore;
class Runtime;
struct StoreOptions;
} // namespace hekla::program

namespace hekla::train {

struct FitOptions;
struct OptimizerRules;
struct RolloutContext;

struct PreparedRun;

struct DescribedTraining {
    // Describes a training; messages tell what is frozen. `run` must outlive the result, and its recipe must not change
    // in between.
    static Result<std::unique_ptr<DescribedTraining>> create(const PreparedRun& run);

    // A step over rows of the full length, mode train, not differentiated: counts are computed from it.
    const graph::Graph& graph() const { return by_length.rbegin()->second; }
    const graph::Graph& graph(int64_t length) const { return by_length.at(length); }
    // The same over any batch, without dropout if the recipe turns it off.
    Result<graph::Graph> describe_step(const std::vector<plugin::BatchField>& fields) const;
    // The graph of a step with its gradients. of a turn: where only its losses count.
    Result<graph::Graph> differentiated(int64_t length, const Alternation::Turn& turn = {}) const;
    Result<graph::Graph> differentiated(const graph::Graph& step, const Alternation::Turn& turn = {}) const;

    std::vector<program::ParameterEntry> parameters() const; // without their places in a store
    // The same for a store whose parameters `step`, a graph with gradients, reads.
    std::vector<program::ParameterEntry> parameters_read_by(const graph::Graph& step) const;
    program::StoreOptions store_options() const;
    // How steps are compiled. choices: kernels by key, of another start of the run.
    program::CompileOptions step_options(std::map<std::string, std::string> choices) const;
    FitOptions fit_options() const;
    OptimizerRules optimizer_rules() const; // refers to this
    // What rollouts share with the run; runtime and store are null for an estimate.
    RolloutContext rollout_context(program::Runtime* runtime, program::ParameterStore* store) const;
    // The record of the model alone (HK_MODE_EVALUATE), or with the objective; described once.
    Result<plugin::Record> record(int32_t mode) const;

    const PreparedRun& run;
    std::unique_ptr<plugin::Composition> composition;
    plugin::CompositionSpec policy;                  // the model without objective and teacher, for rollouts
    std::unique_ptr<plugin::RolloutUse> rollout_use; // where the objective learns from rollouts
    std::map<int64_t, graph::Graph> by_length;       // of rows, ascending: see graph()
    std::set<std::string> body;                      // parameters of the body
    ParameterRules rules;
    AdaptedBody adapted; // with adapters: the body that stays in its own folder
    UpdateRules updates;
    Alternation alternation;
    FrozenLayers frozen_layers; // whose outputs are computed once
    StepScalars scalars;
    Taps taps;
    WeightMask mask; // of prune.from_mask; without masks where it is not set

private:
    explicit DescribedTraining(const PreparedRun& of) : run(of) {}
    Status describe();
    Status describe_updates();
    Status cut_frozen_layers();
    mutable std::map<int32_t, std::shared_ptr<const plugin::Record>> records_; // by mode
};

} // namespace hekla::train
