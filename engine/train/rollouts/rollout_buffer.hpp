// The rollouts of one iteration: what the model wrote, what is known of each token, and what the objective made of it.
#pragma once

#include "batch/drawn_example.hpp"
#include "model/tensor.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::exchange {
class Communicator;
}
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

// One completion.
struct Rollout {
    uint64_t episode = 0;                    // its number since the start of training, which is the row of its draws
    uint64_t example = 0;                    // of the training data
    std::vector<int32_t> prompt, completion; // the completion with its end token
    bool ended = false;                      // with an end token; false: cut off
    double score = std::numeric_limits<double>::quiet_NaN(); // NaN: none
    std::vector<double> rewards = {};                        // by reward; NaN: none
};

struct RolloutBuffer {
    uint64_t iteration = 0; // from 0
    uint32_t generations = 1;
    double kl_coef = 0.0;
    std::vector<Rollout> rows;
    // Of all tokens of completions, row after row; empty where the objective does not need them.
    std::vector<float> logps, ref_logps, values, entropies;
    std::vector<std::pair<std::string, std::vector<float>>> columns;
    std::vector<std::pair<std::string, double>> metrics; // of the iteration, for the log

    std::vector<uint64_t> begins() const; // of each completion in the arrays of tokens, and the end of the last

    // Returns the example of a row, for collate.
    batch::DrawnExample example(std::size_t row, uint64_t begin, uint64_t epoch) const;

    // Returns the content for a checkpoint: tensors, which point into this, and a JSON object.
    std::vector<model::TensorView> tensors();
    nlohmann::json state() const;
    // Restores it. corrupt: the two do not fit each other.
    static Result<RolloutBuffer> restore(std::span<const model::TensorView> tensors, const nlohmann::json& state,
                                         const std::string& where);

    // Appends the rows of another part of the iteration. Metrics are times and differences here: the larger one counts.
    void append(const RolloutBuffer& part);
    // Makes the parts of all ranks, in their order, one buffer, which each of them gets. stopped: of this rank, whose
    // part may be anything then. cancelled: a rank was stopped; every rank returns it.
    static Result<RolloutBuffer> gather(exchange::Communicator& ranks, RolloutBuffer part, bool stopped);
    // Replaces the buffer by that of rank 0; none is replaced by none.
    static Status broadcast(exchange::Communicator& ranks, std::optional<RolloutBuffer>& buffer);

    // Returns a JSON object a line for each row. rewards: names. place: of an example, for people.
    std::string lines(const text::Tokenizer& tokenizer, const std::vector<std::string>& rewards,
                      const std::function<std::string(uint64_t)>& place) const;

private:
    // The buffer as a safetensors file, and back.
    Result<std::vector<std::byte>> to_bytes();
    static Result<RolloutBuffer> from_bytes(std::span<const std::byte> bytes);

    std::vector<int32_t> packed_ids_;     // of tensors()
    std::vector<int64_t> packed_numbers_; // episode, example, size of the prompt and of the completion, ended
    std::vector<double> packed_scores_;   // score and rewards
};

} // namespace hekla::train
