// The optimizers of a training: one for all parameters, or with train.alternate one for each class of parameters that
// the same turns update.
#pragma once

#include "train/update/alternation.hpp"
#include "train/update/optimizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hekla::train {

struct StateTensor;

class Optimizers {
public:
    // reached: parameters that any loss reaches. The arguments must outlive this, except the last two.
    static Result<Optimizers> create(program::Runtime& runtime, program::ParameterStore& store,
                                     const TrainSection& settings, const Alternation& alternation,
                                     const std::vector<std::string>& reached, const OptimizerRules& rules);

    Optimizer& first() const { return *all_.front(); }
    std::vector<Optimizer*> of_turn(std::size_t turn) const;
    // Updates of the weights after the step that follows `step` others and had this outcome.
    uint32_t updates(int64_t step, const StepOutcome& outcome) const;
    Status rehearse();
    // Sets states to their initial values.
    Status reset();
    // Their states in a checkpoint, besides moments. this must outlive the result.
    Result<std::vector<StateTensor>> state() const;

private:
    program::ParameterStore* store_ = nullptr;
    const Alternation* alternation_ = nullptr;
    std::vector<std::unique_ptr<Optimizer>> all_; // by class of the alternation
    std::vector<std::string> states_;             // of the store, which are saved
};

} // namespace hekla::train
