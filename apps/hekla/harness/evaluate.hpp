// Runs tasks with a model.
#pragma once

#include "base/stop_poll.hpp"
#include "generate/decoder.hpp"
#include "harness/continuation.hpp"
#include "harness/metrics.hpp"
#include "harness/prompt.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hekla::harness {

struct RunOptions {
    std::optional<int64_t> num_fewshot = {}; // none: the task's; loglikelihood_rolling has no demonstrations
    int64_t limit = 0;                       // documents at most, the first ones; 0: all
    uint64_t seed = 1234;                    // of demonstrations and sampled texts
    PromptLayout layout = {};                // what it points to outlives the evaluator
    StopPoll stop = {};
    std::function<void(const Task&, std::size_t done, std::size_t all)> progress = {}; // rows or texts
};

struct TaskResult {
    Task task;
    int64_t num_fewshot = 0;
    uint64_t documents = 0;      // of the data set
    std::vector<Answer> answers; // in the data's order
    std::vector<Score> scores;   // by filter, then metric
    uint64_t cut = 0;            // prompts that lost tokens on the left, for want of positions
    uint64_t without_system = 0; // prompts whose system message the chat template refuses
    uint64_t joined = 0;         // continuations whose first token may belong to the prompt (EncodedPairs)
};

// A model that answers tasks. Ownership: registry and model outlive it; the model has a head "lm" and a tokenizer.
// Thread: one at a time.
class Evaluator {
public:
    static Result<std::unique_ptr<Evaluator>> create(const plugin::Registry& registry, infer::Model& model,
                                                     RunOptions options = {});
    ~Evaluator();

    // An answer depends on the document, not on those that are computed with it. Errors contain the task's file: those
    // of the data; a continuation without tokens, with its document; a pool of demonstrations that is too small;
    // prompts that the model cannot take. cancelled: options.stop.
    Result<TaskResult> run(const Task& task);

private:
    Evaluator(infer::Model& model, RunOptions options, ContinuationEncoder encoder);
    Status score(const Task& task, TaskResult& result);
    Status write(const Task& task, TaskResult& result);
    // The rows that are scored, and the answer and continuation of each.
    struct Rows;
    Status add_rows(const Task& task, TaskResult& result, Rows& rows);

    infer::Model* model_;
    RunOptions options_;
    ContinuationEncoder encoder_;
    const plugin::Registry* registry_ = nullptr;
    std::unique_ptr<infer::Likelihood> likelihood_;
    const Task* running_ = nullptr;              // whose progress is reported
    std::unique_ptr<generate::Decoder> decoder_; // made for the first task that writes
};

} // namespace hekla::harness
