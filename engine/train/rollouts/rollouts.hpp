// Rollouts of reinforcement learning. An iteration draws prompts in the order of the training data, lets the model
// write completions, computes log probabilities under the model and its reference, scores the completions, and lets the
// objective weigh their tokens. The training then takes its examples for some epochs.
//
// Everything is a function of (seed, weights, iteration): draws are keyed by the number of the episode, so an iteration
// that is begun again has the same bits, and so has one that writes other numbers of completions at a time.
//
// Several ranks divide the completions of an iteration, and all of them get the whole. Then functions with the argument
// `ranks` are called by every rank together; which ranks there are changes no bit.
#pragma once

#include "data/window_order.hpp"
#include "exchange/communicator.hpp"
#include "generate/options.hpp"
#include "reward/reward_set.hpp"
#include "train/recipe/recipe_rollouts.hpp"
#include "train/rollouts/rollout_buffer.hpp"
#include "train/rollouts/rollout_context.hpp"
#include "train/run/batch_source.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace hekla::generate {
class Decoder;
}
namespace hekla::infer {
class Likelihood;
}
namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Estimator;
}

namespace hekla::train {

struct Evaluation;
class ReferenceModel;
class Split;

// Thread: one at a time, except draw(): any.
class Rollouts final : public BatchSource {
public:
    // Opens reference and rewards, compiles nothing yet. Errors: rows of data without a prompt or without room for a
    // completion, those of the parts.
    static Result<std::unique_ptr<Rollouts>> create(const RolloutContext& context);

    // Adds what an iteration allocates on a device to an estimate; returns the bytes of the buffer on the host.
    static Result<uint64_t> estimate(program::Estimator& estimator, const RolloutContext& context);

    std::vector<batch::DrawnExample> draw(uint64_t number) const override;
    Status make_fields(std::span<const batch::DrawnExample> examples, int64_t rows, int64_t length,
                       std::vector<data::Field>& fields, uint64_t step) const override;
    bool is_due(int64_t step) const override;
    // Makes the rollouts of the iteration that begins with this step, and writes them to rollouts-N.jsonl in the run's
    // folder if `writes`. cancelled: events.stop, on any rank; nothing has changed then. Errors: no completion could be
    // scored; completions were drawn from another distribution than the one that is computed.
    Status refill(int64_t step, bool writes, exchange::Communicator& ranks) override;
    int64_t end(int64_t step, int64_t last) const override;               // the first step after the iteration
    std::vector<std::pair<std::string, double>> metrics() const override; // of the current iteration
    double epochs(int64_t, double) const override { return 0.0; }
    Status synchronize(exchange::Communicator& ranks) override;

    // Writes the most likely completions for the prompts of a split and scores them. The loss is the negative mean
    // score. limit: above 0: that many, evenly spaced.
    Result<Evaluation> evaluate(const Split& split, uint64_t limit, bool predictions, exchange::Communicator& ranks);
    // Writes and scores completions for some prompts, the same ones every time, and adds them to texts.html in the
    // run's folder: as those before training at step 0, otherwise as those after it.
    Status write_samples(int64_t step) override;

    // For checkpoints. The buffer exists inside an iteration only.
    nlohmann::json state(int64_t step) const override;
    std::vector<model::TensorView> tensors(int64_t step) override;
    Status restore(const nlohmann::json& state, const std::filesystem::path& checkpoint, int64_t step) override;
    void restart() override;

private:
    explicit Rollouts(const RolloutContext& context) : context_(context) {}
    Status check_prompts(const Split& split);
    using LogProbabilities = std::vector<std::vector<double>>; // of the tokens of completions
    // What is told of completions.
    struct Summary {
        std::vector<double> scores;
        double ended = 0.0, tokens = 0.0;                  // sums
        std::vector<std::pair<std::string, double>> means; // of each reward, by name
    };
    Summary summary_of(const std::vector<Rollout>& rows) const;
    Status write(std::vector<Rollout>& rows, const generate::Options& given, std::size_t at_once,
                 LogProbabilities* drawn);
    Result<double> check_draws(const LogProbabilities& drawn, const RolloutBuffer& buffer) const;
    Status make_part(RolloutBuffer& part, std::size_t at_once);
    Status finish(RolloutBuffer& made);
    Status score(std::vector<Rollout>& rows, const Split& split) const;
    Status compute(RolloutBuffer& buffer);
    Status weigh(RolloutBuffer& buffer);
    void add_metrics(RolloutBuffer& buffer) const;
    Status write_lines() const;
    void warn_of(const RolloutBuffer& buffer);
    std::vector<Rollout> prompts_of(const Split& split, uint64_t limit) const;
    const Recipe& recipe() const { return context_.model.recipe; }
    // Completions that a rank writes together.
    std::size_t at_once(const exchange::Communicator& ranks) const {
        const int64_t share = (shape_.completions + ranks.size() - 1) / ranks.size();
        return static_cast<std::size_t>(std::min(recipe().rollout.local_rollout_forward_batch_size, share));
    }
    std::vector<std::string> reward_names() const;

    RolloutContext context_;
    IterationShape shape_;
    std::unique_ptr<plugin::Composition> policy_; // without an objective
    std::unique_ptr<ReferenceModel> reference_;   // where the objective needs one
    std::unique_ptr<generate::Decoder> decoder_;
    std::unique_ptr<infer::Likelihood> likelihood_, reference_likelihood_;
    reward::RewardSet rewards_;
    generate::Options sampling_;
    std::size_t longest_prompt_ = 1;
    double kl_coef_ = 0.0;                // of the next iteration
    std::optional<RolloutBuffer> buffer_; // of the current one
    std::vector<uint64_t> begins_;        // of its completions
    data::WindowOrder order_;             // of its rows
    // Iterations in a row: equal rewards, all cut off, a negative divergence, values far from what they estimate.
    int equal_ = 0, cut_ = 0, negative_ = 0, far_ = 0;
};

} // namespace hekla::train
