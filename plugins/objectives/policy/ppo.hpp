// Proximal policy optimization of a language model (Schulman et al. 2017; Ziegler et al. 2019): clipped ratios, a value
// head, and a penalty of the KL divergence from a reference in the reward of each token.
#pragma once

#include "advantages.hpp"
#include "rows_of_rollouts.hpp"

namespace hekla::plugin {

class Ppo {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Ppo(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), text_weight_(c.real("ptx_coef", 0.0)),
          rows_(c, tokens_, {"advantages", "old_logps", "returns", "old_values"}, text_weight_ > 0.0),
          epochs_(c.integer("num_ppo_epochs", 4)), clip_(c.real("cliprange", 0.2)),
          clip_value_(c.real("cliprange_value", 0.2)), value_weight_(c.real("vf_coef", 0.1)),
          gamma_(c.real("gamma", 1.0)), lam_(c.real("lam", 0.95)), kl_coef_(c.real("kl_coef", 0.05)),
          estimator_(c.string("kl_estimator", "k1")), target_(c.real("kl_target", 0.0)),
          horizon_(c.real("kl_horizon", 10000.0)), whiten_rewards_(c.boolean("whiten_rewards", false)) {
        require(text_weight_ >= 0.0, "ptx_coef is below 0");
        require(epochs_ >= 1, "num_ppo_epochs is below 1");
        require(clip_ > 0.0 && clip_ < 1.0, "cliprange is not between 0 and 1");
        require(clip_value_ > 0.0, "cliprange_value is not above 0");
        require(value_weight_ > 0.0, "vf_coef is not above 0");
        require(gamma_ > 0.0 && gamma_ <= 1.0, "gamma is not above 0 and at most 1");
        require(lam_ >= 0.0 && lam_ <= 1.0, "lam is not from 0 to 1");
        require(kl_coef_ >= 0.0, "kl_coef is below 0");
        require(estimator_ == "k1" || estimator_ == "k3", "kl_estimator is not k1 or k3");
        require(target_ >= 0.0, "kl_target is below 0");
        require(target_ == 0.0 || kl_coef_ > 0.0,
                "kl_target changes kl_coef by a factor, so it needs a kl_coef above 0 to begin with");
        require(horizon_ > 0.0, "kl_horizon is not above 0");
    }
    std::vector<ColumnNeed> columns() const { return rows_.columns(); }
    int64_t example_length(const hk_example& raw) const {
        return length_of_completion(Example(raw).get("prompt").ids(), Example(raw));
    }
    std::vector<Field> fields(int64_t batch, int64_t length) const { return rows_.fields(batch, length); }
    void build(Graph& g) {
        // A value function with a network of its own, or a head on the policy's.
        const char* const port = g.has_port("value.values") ? "value.values" : "values";
        if (!g.has_port(port)) {
            g.fail(
                "ppo needs a value of each token: set head.id = \"lm+value\", or value.from for a network of its own");
            return;
        }
        const ClippedGain gain = clipped_gain(g, rows_, clip_, clip_);
        const Value values = to_float32(g.ask(port)), old = g.input("old_values"), returns = g.input("returns");
        const Value clipped = old + clamp(values - old, -clip_value_, clip_value_);
        const Value lost = (values - returns) * (values - returns), other = (clipped - returns) * (clipped - returns);
        g.loss("loss/policy_avg", sum_all(gain.lost), gain.tokens);
        g.loss("loss/value_avg", sum_all(maximum(lost, other) * gain.real) * 0.5, gain.tokens, value_weight_);
        if (rows_.texts()) {
            const Value of_texts = RowsOfRollouts::of_texts(g);
            g.loss("loss/ptx", -sum_all(gain.log_probabilities * of_texts), sum_all(of_texts), text_weight_);
        }
        g.metric("val/clipfrac_avg", sum_all(to_float32(less(lost, other)) * gain.real), gain.tokens);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) const {
        rows_.write(FieldSet(storage, count), BatchView(raw));
    }

    RolloutNeeds needs() const {
        return {HK_ROLLOUT_REFERENCE | HK_ROLLOUT_VALUES | HK_ROLLOUT_ENTROPIES, epochs_, 0, kl_coef_};
    }
    void weigh(const Rollouts& rollouts, const RolloutSink& sink) const {
        std::vector<double> rewards; // of all tokens
        std::vector<float> mask(rollouts.tokens(), 1.0F);
        double penalties = 0.0, scores = 0.0;
        std::size_t scored = 0;
        bool masked = false;
        for (std::size_t row = 0; row < rollouts.rows(); ++row) {
            const std::span<const float> own = rollouts.logps(row), reference = rollouts.ref_logps(row);
            for (std::size_t t = 0; t < own.size(); ++t) {
                rewards.push_back(-rollouts.kl_coef() * divergence(own[t], reference[t]));
                penalties += rewards.back();
            }
            if (std::isnan(rollouts.score(row))) { // its reward is not known: nothing is learned from it
                masked = true;
                std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(rollouts.begin(row)), own.size(), 0.0F);
                continue;
            }
            if (!own.empty()) rewards.back() += rollouts.score(row);
            scores += rollouts.score(row);
            ++scored;
        }
        if (whiten_rewards_) whiten(rewards, false);
        std::vector<double> advantages, returns;
        for (std::size_t row = 0; row < rollouts.rows(); ++row) {
            const std::span<const float> values = rollouts.values(row);
            const std::vector<double> of_row = generalized_advantages(
                std::span(rewards).subspan(rollouts.begin(row), rollouts.length(row)), values, gamma_, lam_);
            for (std::size_t t = 0; t < of_row.size(); ++t) {
                advantages.push_back(of_row[t]);
                returns.push_back(of_row[t] + static_cast<double>(values[t]));
            }
        }
        whiten_where(advantages, mask);
        sink.column("advantages", to_floats(advantages));
        sink.column("returns", to_floats(returns));
        sink.column("old_logps", {rollouts.raw().logps, rollouts.tokens()});
        sink.column("old_values", {rollouts.raw().values, rollouts.tokens()});
        if (masked) sink.column("completion_mask", mask);
        const auto rows = static_cast<double>(rollouts.rows());
        sink.metric("objective/non_score_reward", penalties / rows);
        if (scored > 0) sink.metric("objective/rlhf_reward", penalties / rows + scores / static_cast<double>(scored));
        sink.metric("objective/kl_coef", rollouts.kl_coef());
    }
    // The controller of Ziegler et al. 2019.
    double adapt(const Rollouts& rollouts) const {
        if (target_ == 0.0 || rollouts.rows() == 0) return rollouts.kl_coef();
        double sum = 0.0;
        for (std::size_t t = 0; t < rollouts.tokens(); ++t)
            sum += static_cast<double>(rollouts.raw().logps[t]) - static_cast<double>(rollouts.raw().ref_logps[t]);
        const auto rows = static_cast<double>(rollouts.rows());
        const double error = std::clamp(sum / rows / target_ - 1.0, -0.2, 0.2);
        return rollouts.kl_coef() * (1.0 + error * rows / horizon_);
    }

private:
    double divergence(float own, float reference) const {
        const double difference = static_cast<double>(reference) - static_cast<double>(own);
        return estimator_ == "k3" ? std::expm1(difference) - difference : -difference;
    }
    // Whitens the numbers that count; the others do not change their mean.
    static void whiten_where(std::vector<double>& numbers, const std::vector<float>& mask) {
        std::vector<double> counted;
        for (std::size_t i = 0; i < numbers.size(); ++i)
            if (mask[i] != 0.0F) counted.push_back(numbers[i]);
        whiten(counted, true);
        std::size_t next = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = mask[i] != 0.0F ? counted[next++] : 0.0;
    }

    Tokens tokens_;
    double text_weight_;
    RowsOfRollouts rows_;
    int64_t epochs_;
    double clip_, clip_value_, value_weight_, gamma_, lam_, kl_coef_;
    std::string estimator_;
    double target_, horizon_;
    bool whiten_rewards_;
};

} // namespace hekla::plugin
