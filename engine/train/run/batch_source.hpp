// Where a training's examples come from: tables and texts as they are, or rollouts, which the model writes at the start
// of each iteration (train/rollouts/rollouts.hpp).
#pragma once

#include "base/status.hpp"
#include "batch/drawn_example.hpp"
#include "model/tensor.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::data {
struct Field;
}
namespace hekla::exchange {
class Communicator;
}

namespace hekla::train {

// Thread: one at a time, except draw() and make_fields(): any.
class BatchSource {
public:
    virtual ~BatchSource() = default;

    // Returns the examples of the row at position `number`, counted from the first step on: one, or several with
    // data.packing.
    virtual std::vector<batch::DrawnExample> draw(uint64_t number) const = 0;
    virtual Status make_fields(std::span<const batch::DrawnExample> examples, int64_t rows, int64_t length,
                               std::vector<data::Field>& fields, uint64_t step) const = 0;

    // Returns whether the examples of a step do not exist yet.
    virtual bool is_due(int64_t /*step*/) const { return false; }
    // Makes them. writes: into files of the run's folder. All ranks call it. cancelled: asked to stop, on any rank.
    virtual Status refill(int64_t /*step*/, bool /*writes*/, exchange::Communicator& /*ranks*/) { return {}; }
    // The first step whose examples do not exist together with those of `step`; at most `last`.
    virtual int64_t end(int64_t /*step*/, int64_t last) const { return last; }
    // Reported with each step.
    virtual std::vector<std::pair<std::string, double>> metrics() const { return {}; }
    // Epochs of the data after `step` steps of that many examples; 0: not defined.
    virtual double epochs(int64_t step, double examples_of_step) const = 0;
    // Shows what the model writes now, in the run's folder.
    virtual Status write_samples(int64_t /*step*/) { return {}; }
    // Gives all ranks what rank 0 has restored from a checkpoint.
    virtual Status synchronize(exchange::Communicator& /*ranks*/) { return {}; }

    // For checkpoints: JSON, null for nothing, and tensors.
    virtual nlohmann::json state(int64_t /*step*/) const { return {}; }
    virtual std::vector<model::TensorView> tensors(int64_t /*step*/) { return {}; }
    virtual Status restore(const nlohmann::json& /*state*/, const std::filesystem::path& /*checkpoint*/,
                           int64_t /*step*/) {
        return {};
    }
    virtual void restart() {}
};

} // namespace hekla::train
