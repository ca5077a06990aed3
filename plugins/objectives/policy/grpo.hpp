// Group relative policy optimization (Shao et al. 2024) and its relatives: Dr. GRPO (Liu et al. 2025), DAPO (Yu et al.
// 2025), RLOO (Ahmadian et al. 2024).
#pragma once

#include "advantages.hpp"
#include "rows_of_rollouts.hpp"

namespace hekla::plugin {

class Grpo {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Grpo(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), beta_(c.real("beta", 0.0)), rows_(c, tokens_, columns_of(beta_)),
          low_(c.real("epsilon", 0.2)), high_(c.real("epsilon_high", low_)), loss_(c.string("loss_type", "dapo")),
          scale_(c.string("scale_rewards", "group")), advantage_(c.string("advantage", "group")),
          epochs_(c.integer("num_iterations", 1)), response_length_(c.integer("response_length", 0)),
          mask_truncated_(c.boolean("mask_truncated_completions", false)) {
        require(beta_ >= 0.0, "beta is below 0");
        require(low_ > 0.0 && low_ < 1.0, "epsilon is not between 0 and 1");
        require(high_ > 0.0, "epsilon_high is not above 0");
        require(loss_ == "grpo" || loss_ == "bnpo" || loss_ == "dr_grpo" || loss_ == "dapo",
                "loss_type is not grpo, bnpo, dr_grpo or dapo");
        require(scale_ == "group" || scale_ == "batch" || scale_ == "none",
                "scale_rewards is not group, batch or none");
        require(advantage_ == "group" || advantage_ == "rloo", "advantage is not group or rloo");
        require(epochs_ >= 1, "num_iterations is below 1");
    }
    std::vector<ColumnNeed> columns() const { return rows_.columns(); }
    int64_t example_length(const hk_example& raw) const {
        return length_of_completion(Example(raw).get("prompt").ids(), Example(raw));
    }
    std::vector<Field> fields(int64_t batch, int64_t length) const { return rows_.fields(batch, length); }
    void build(Graph& g) {
        if (loss_ == "dr_grpo" && response_length_ < 1) {
            g.fail("loss_type dr_grpo divides by response_length, which [rollout] sets: it is missing");
            return;
        }
        const ClippedGain gain = clipped_gain(g, rows_, low_, high_);
        Value lost = gain.lost;
        if (beta_ > 0.0) {
            const Value difference = (g.input("ref_logps") - gain.log_probabilities) * gain.real;
            const Value divergence = (exp(difference) - difference - 1.0) * gain.real; // Schulman's k3
            g.metric("kl", sum_all(divergence), gain.tokens);
            lost = lost + divergence * beta_;
        }
        const Value rows = sum_all(to_float32(not_equal(g.input("row_labels"), static_cast<double>(kIgnored))));
        if (loss_ == "grpo") {
            const Value tokens = clamp(sum(gain.real, {1}), 1.0, 1e9); // [B]
            g.loss("policy", sum_all(sum(lost, {1}) / tokens), rows);
        } else if (loss_ == "dr_grpo") {
            g.loss("policy", sum_all(lost), rows * static_cast<double>(response_length_));
        } else { // the tokens of all micro-batches of a step: bnpo and dapo are the same
            g.loss("policy", sum_all(lost), gain.tokens);
        }
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) const {
        rows_.write(FieldSet(storage, count), BatchView(raw));
    }

    RolloutNeeds needs() const {
        return {HK_ROLLOUT_ENTROPIES | (beta_ > 0.0 ? HK_ROLLOUT_REFERENCE : 0U), epochs_, 2, 0.0};
    }
    void weigh(const Rollouts& rollouts, const RolloutSink& sink) const {
        std::vector<double> scores;
        for (std::size_t row = 0; row < rollouts.rows(); ++row) scores.push_back(rollouts.score(row));
        const double of_batch = mean_and_deviation(scores).deviation;
        std::vector<float> advantages(rollouts.tokens()), mask(rollouts.tokens(), 1.0F);
        for (std::size_t row = 0; row < rollouts.rows(); ++row) {
            const std::size_t first = row - row % rollouts.generations();
            const MeanAndDeviation group = mean_and_deviation(std::span(scores).subspan(first, rollouts.generations()));
            double advantage = std::isnan(scores[row]) || group.count < 2 ? 0.0 : scores[row] - group.mean;
            if (advantage_ == "rloo" && group.count > 1) // minus the mean of the others
                advantage *= static_cast<double>(group.count) / static_cast<double>(group.count - 1);
            if (scale_ != "none") advantage /= (scale_ == "group" ? group.deviation : of_batch) + 1e-4;
            for (std::size_t t = rollouts.begin(row); t < rollouts.begin(row + 1); ++t) {
                advantages[t] = static_cast<float>(advantage);
                if (mask_truncated_ && !rollouts.ended(row)) mask[t] = 0.0F;
            }
        }
        sink.column("advantages", advantages);
        sink.column("old_logps", {rollouts.raw().logps, rollouts.tokens()});
        if (beta_ > 0.0) sink.column("ref_logps", {rollouts.raw().ref_logps, rollouts.tokens()});
        if (mask_truncated_) sink.column("completion_mask", mask);
    }

private:
    static std::vector<std::string> columns_of(double beta) {
        std::vector<std::string> all{"advantages", "old_logps"};
        if (beta > 0.0) all.emplace_back("ref_logps");
        return all;
    }

    Tokens tokens_;
    double beta_;
    RowsOfRollouts rows_;
    double low_, high_;
    std::string loss_, scale_, advantage_;
    int64_t epochs_, response_length_;
    bool mask_truncated_;
};

} // namespace hekla::plugin
