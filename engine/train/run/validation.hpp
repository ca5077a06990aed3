// Evaluations of a run on its held-out data: by the model's losses and scores (validation_of_model), or by the rewards
// of what it writes (rollout_origin.cpp).
#pragma once

#include "base/status.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hekla::exchange {
class Communicator;
}
namespace hekla::program {
class ParameterStore;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

struct BatchMaker;
struct DescribedTraining;
struct Evaluation;
class Split;
class StepScalars;

class Validation {
public:
    virtual ~Validation() = default;

    // Evaluates on the part of a split that the recipe sets. whole: with all predictions, and without generated texts
    // that are a part of the training. step: of the training, whose scalars count. ranks: all of them call this and
    // divide the batches, and rank 0 has the result; may be null.
    virtual Result<Evaluation> run(const Split& split, bool whole, int64_t step, exchange::Communicator* ranks) = 0;
    // Evaluates the whole test split, or validation data as run(whole), for people. texts: how many are generated; 0:
    // all; nothing: none.
    virtual Result<Evaluation> report(const Split& split, bool test, int64_t step, std::optional<uint64_t> texts) = 0;
    // Reports anything that would stop run(), and allocates its memory.
    virtual Status rehearse_texts(const Split& /*split*/, int64_t /*step*/, exchange::Communicator* /*ranks*/) {
        return {};
    }
    virtual Status rehearse() { return {}; }                               // runs every program once
    virtual std::vector<std::string> kernel_choices() const { return {}; } // as Program::kernel_choices() has them
    virtual void end_batches() {}                                          // of a run() that was stopped
};

// What a validation works with; all of it outlives it.
struct ValidationContext {
    const DescribedTraining& training;
    program::Runtime& runtime;
    program::ParameterStore& store;
    StepScalars& scalars;
    std::map<std::string, std::string> choices; // of kernels
    const BatchMaker& maker;
};
Result<std::unique_ptr<Validation>> validation_of_model(const ValidationContext& context);
std::unique_ptr<Validation> no_validation(); // of a run without validation and test data

} // namespace hekla::train
