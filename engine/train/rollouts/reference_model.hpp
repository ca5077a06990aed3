// The frozen model that reinforcement learning holds the trained one to.
#pragma once

#include "infer/open/model.hpp"
#include "infer/passes/likelihood.hpp"
#include "train/recipe/recipe.hpp"
#include "train/rollouts/rollout_context.hpp"

#include <memory>
#include <string>

namespace hekla::train {

class ReferenceModel {
public:
    // Loads it: the folder of reference.from, the trained network without its adapter, or the model as the run began,
    // whose initial weights are loaded or drawn again. Errors: those of its folder, another tokenizer. The parts of
    // `trained` must outlive it.
    static Result<std::unique_ptr<ReferenceModel>> create(const TrainedModel& trained, const Log& log);

    infer::Network network() const;
    // Returns a hash of its weights; empty for the network without its adapter, which a checkpoint knows already.
    const std::string& hash() const { return hash_; }

    // Returns the parameters that it adds to those of the trained model, for an estimate; none without an adapter.
    static Result<std::vector<program::ParameterEntry>> own_parameters(const Recipe& recipe,
                                                                       const plugin::Registry& registry,
                                                                       const graph::Graph& described, const Log& log);

private:
    ReferenceModel() = default;
    infer::Model opened_;                              // of a folder
    std::unique_ptr<plugin::Composition> composition_; // otherwise
    std::unique_ptr<program::ParameterStore> store_;   // of the model as it began
    program::Runtime* runtime_ = nullptr;
    program::ParameterStore* shared_ = nullptr; // the trained one's
    std::string hash_;
};

} // namespace hekla::train
