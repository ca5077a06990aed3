// The third stage of a training: its programs and everything on the device, the source of its batches, and how ranks
// step.
#pragma once

#include "data/batcher.hpp"
#include "program/parameter_store.hpp"
#include "train/ranks/step_strategy.hpp"
#include "train/run/batch_source.hpp"
#include "train/run/kernel_record.hpp"
#include "train/run/step_programs.hpp"
#include "train/run/validation.hpp"
#include "train/step/batch_wait.hpp"
#include "train/step/features.hpp"
#include "train/update/moving_average.hpp"
#include "train/update/optimizers.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hekla::train {

struct DescribedTraining;
struct PreparedRun;

class CompiledTraining {
public:
    // Compiles a training and allocates its memory. Nothing has a value yet. `training` and `runtime` must outlive the
    // result.
    static Result<std::unique_ptr<CompiledTraining>> create(const DescribedTraining& training,
                                                            program::Runtime& runtime);

    // Returns batches from the first micro-batch of that step on, until the source has no more. rows: of a micro-batch.
    // `this` must outlive the result.
    Result<std::unique_ptr<data::Batcher>> batches(int64_t from_step, int64_t rows) const;
    // Returns the micro-batches of the next step, of which `ready` were taken before; nothing if the training is asked
    // to stop while it waits for them.
    Result<std::optional<std::vector<data::Batch>>> next_micro_batches(data::Batcher& batcher, int64_t step,
                                                                       std::vector<data::Batch> ready) const;
    // Takes the micro-batches of a step that are ready, without waiting: those still missing in `micro`.
    void take_ready_batches(data::Batcher& batcher, std::vector<data::Batch>& micro) const;
    const BatchMaker& batch_maker() const { return maker_; }

    Status set_features(program::Program& program, const data::Batch& batch) const; // of frozen layers, if cached
    // Sets programs and scalars for a step and, before the first one, computes the outputs of frozen layers.
    Status prepare_step(int64_t step);
    double flops(const std::vector<data::Batch>& micro) const; // of a step, forward and backward
    // Returns "parameter x: element 3 is nan", or, with `gradients`, of a gradient; empty if all are finite.
    Result<std::string> describe_non_finite(bool gradients);
    Status rehearse();                               // all but a step over batches
    std::vector<std::string> kernel_choices() const; // of all programs, sorted
    KernelRecord kernels() const;
    // Measures the fastest matrix product, which shares of the peak refer to.
    Status measure_peak();

    const DescribedTraining& training;
    const PreparedRun& run;
    program::Runtime& runtime;
    KernelRecord known; // of an earlier start, or of rank 0
    std::unique_ptr<program::ParameterStore> store;
    StepPrograms programs;
    Optimizers optimizers;
    MovingAverage average; // with train.ema_decay, on rank 0
    StepScalars scalars;
    Taps taps;
    std::unique_ptr<BatchSource> source;
    std::unique_ptr<Validation> validation;
    std::unique_ptr<StepStrategy> strategy;
    double peak_flops = 0.0; // per second; 0: not known

private:
    CompiledTraining(const DescribedTraining& of, program::Runtime& on);
    Status compile();
    Status make_batch(data::Batch& batch, int64_t rows) const;

    BatchMaker maker_;
    Features features_; // of frozen layers, computed before the first step
};

} // namespace hekla::train
