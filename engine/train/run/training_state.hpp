// The last stage of a training: the values of weights, optimizers and counters, how they begin, and how checkpoints and
// models are written from them.
#pragma once

#include "base/status.hpp"
#include "train/run/run_progress.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::model {
struct Checkpoint;
class CheckpointWriter;
struct ModelContents;
struct TensorSource;
} // namespace hekla::model

namespace hekla::train {

class CompiledTraining;
struct DescribedTraining;
struct PreparedRun;
struct StateFile;

class TrainingState {
public:
    // `compiled` must outlive this.
    explicit TrainingState(CompiledTraining& compiled);

    // Sets everything to what the training begins with: the checkpoint that was found, or initial values. initial: the
    // counters are those after the last step, so that step scalars have their last values (Purpose::initial).
    Status begin(bool initial);
    // Restores the state before the first step.
    Status restart();
    Status load(const model::Checkpoint& checkpoint);
    // Loads the parameters of the best checkpoint, if there is one and it is not the current state.
    Status load_best();
    // Writes the whole state as a checkpoint's files, not committed yet. corrupt if a tensor is not finite.
    Result<model::CheckpointWriter> write_checkpoint();
    // Writes the current model as a folder that other programs can open; `folder` exists.
    Status save_model(const std::filesystem::path& folder) const;

    RunProgress progress;
    const std::vector<std::string>& random() const { return random_; } // parameters; empty after a checkpoint

private:
    void message(const std::string& text) const;
    Status initialize();
    Status start_masked();
    Status apply_mask(); // to weights and moments
    Status resume();
    Status check_same(const nlohmann::json& state, const std::string& where) const;
    Status restore(const nlohmann::json& state, const model::Checkpoint& checkpoint);
    // Moments, optimizers' states, averages and what the strategy keeps.
    Result<std::vector<StateFile>> files();
    Status load_weights(const std::filesystem::path& folder);    // parameters and buffers, of a checkpoint or model
    Status load_parameters(const model::Checkpoint& checkpoint); // with averages
    Result<std::string> config_text(const std::filesystem::path& folder) const;
    std::vector<model::TensorSource> own_tensors() const;
    std::vector<model::TensorSource> divided(std::vector<model::TensorSource> tensors) const;
    std::vector<std::string> stacks() const; // patterns of the architecture's manifest
    nlohmann::json to_json() const;
    Status save_slot(const std::filesystem::path& folder, std::size_t slot, const model::ModelContents& all) const;

    CompiledTraining& compiled_;
    const DescribedTraining& training_;
    const PreparedRun& run_;
    std::string teacher_; // a hash of its parameters; empty without one
    std::vector<std::string> random_;
};

} // namespace hekla::train
