// Mixtures of experts (Shazeer et al. 2017): a router chooses a few of many feed-forward layers for each token, and
// only those are computed. The balance loss is that of the Switch Transformer (Fedus et al. 2021).
#pragma once

#include "block.hpp"

#include <string>
#include <vector>

namespace hekla::plugin {

// Computes each token of x [N, W] by the experts indices [N, k] and adds their results up by weights [N, k] -> [N, W'].
// layer(x [N k, W], rows [N k]) -> [N k, W'] gets every token k times, with the number of an expert each, for
// row_linear().
template<class Layer>
Value apply_experts(Value x, Value indices, Value weights, const Layer& layer) {
    const int64_t tokens = indices.dim(0), chosen = indices.dim(1), width = x.dim(1);
    const Value times = broadcast(reshape(x, {tokens, 1, width}), {tokens, chosen, width});
    const Value y = layer(reshape(times, {tokens * chosen, width}), reshape(indices, {tokens * chosen}));
    return sum(reshape(y, {tokens, chosen, y.dim(1)}) * to_float(reshape(weights, {tokens, chosen, 1})), {1});
}

// How a variant stores and computes its experts.
struct ExpertForm {
    const char* module = ""; // of the router and the experts in a layer; empty: the variant has none
    const char* router = "gate";
    const char *gate = "experts.gate_proj.weight", *up = "experts.up_proj.weight", *down = "experts.down_proj.weight";
    const char* count_key = "num_local_experts"; // as it is written; num_experts is read, too, and the reverse
    int64_t count = 8;                           // without the key
    const char* width_key = "intermediate_size";
    bool normalized_key = false; // norm_topk_prob decides whether the weights of the chosen experts add up to 1
    bool dense_layers = false;   // the keys decoder_sparse_step and mlp_only_layers
    bool jitter = false;         // the key router_jitter_noise
    // GPT-OSS: gates and values in one input-first matrix, in turns, with biases and limits; weights are a softmax over
    // the chosen experts.
    bool joined = false;
};

// The layers with experts of one model.
class Experts {
public:
    // What the balance loss needs of the layers that were applied.
    struct Routed {
        std::vector<Value> counts, shares, tokens; // [E], [E], []
    };

    Experts(const Config& c, const ExpertForm& form, int64_t layers) : form_(form), sparse_(count_of(layers), 1) {
        const bool local = c.has("num_local_experts"), other = c.has("num_experts");
        experts_ = local ? c.integer("num_local_experts") : other ? c.integer("num_experts") : form.count;
        require(!local || !other || c.integer("num_experts") == experts_,
                "num_experts is " + std::to_string(c.integer("num_experts", 0)) + ", but num_local_experts is " +
                    std::to_string(experts_) + ": remove one of them");
        chosen_ = c.integer("num_experts_per_tok");
        width_ = c.integer(form.width_key);
        if (form.normalized_key) normalized_ = c.boolean("norm_topk_prob");
        balanced_ = c.boolean("output_router_logits");
        balance_ = c.real("router_aux_loss_coef");
        if (form.jitter) jitter_ = c.real("router_jitter_noise");
        if (form.joined)
            require(c.real("swiglu_limit", kLimit) == kLimit, "swiglu_limit must be 7: the reference has no other");
        if (form.dense_layers) read_dense(c);
        require(experts_ == 0 || chosen_ <= experts_, "num_experts_per_tok is " + std::to_string(chosen_) +
                                                          ", but there are " + std::to_string(experts_) + " experts");
        require(form.dense_layers || experts_ > 0, std::string(form.count_key) + " must be 1 or more");
    }

    bool in(int64_t layer) const { return sparse_[count_of(layer)] != 0; }

    void write(ConfigWriter& out) const {
        out.set(form_.count_key, experts_);
        out.set("num_experts_per_tok", chosen_);
        out.set(form_.width_key, width_);
        if (form_.normalized_key) out.set("norm_topk_prob", normalized_);
        out.set("output_router_logits", balanced_);
        out.set("router_aux_loss_coef", balance_);
        if (form_.jitter) out.set("router_jitter_noise", jitter_);
        if (!form_.dense_layers) return;
        std::vector<int64_t> dense;
        for (std::size_t i = 0; i < sparse_.size(); ++i)
            if (sparse_[i] == 0) dense.push_back(static_cast<int64_t>(i));
        out.set("decoder_sparse_step", int64_t{1});
        out.set("mlp_only_layers", dense);
    }

    // x [B, T, W] -> [B, T, W]. layer: the beginning of its parameters' names.
    Value apply(Graph& g, Value x, const std::string& layer, const Initializer& initial, const std::string& act,
                Routed& routed) const {
        const std::string name = layer + form_.module;
        const int64_t tokens = x.dim(0) * x.dim(1), width = x.dim(2);
        if (jitter_ > 0.0 && g.mode() == HK_MODE_TRAIN)
            x = x * (random_uniform(g, {x.dim(0), x.dim(1), width}) * (2.0 * jitter_) + (1.0 - jitter_));
        const Value flat = reshape(x, {tokens, width});
        const std::string router = name + form_.router;
        const Value to_router = g.parameter(router + ".weight", {experts_, width}, initial);
        // Not linear(): an adapter does not act at the reference's router.
        Value scores = matmul(to_float32(flat), to_float32(to_router), {.transpose_b = 1});
        if (form_.joined) scores = scores + to_float32(g.parameter(router + ".bias", {experts_}, zeros()));
        const bool balanced = balanced_ && g.mode() == HK_MODE_TRAIN;
        const Value shares = !form_.joined || balanced ? softmax(scores) : Value{};
        const TopKResult best = top_k(form_.joined ? scores : shares, chosen_);
        if (balanced) count(g, shares, best.indices, routed);
        Value weights = best.values;
        if (form_.joined)
            weights = softmax(weights);
        else if (normalized_)
            weights = weights / sum(weights, {1}, {.keep = 1});
        const Value y = apply_experts(flat, best.indices, weights, [&](Value each, Value rows) {
            return form_.joined ? joined(g, each, rows, name, initial) : gated(g, each, rows, name, initial, act);
        });
        return reshape(y, x.shape());
    }

    // Adds the balance loss of all layers that were applied: the number of experts times the sum over them of the share
    // of tokens that chose one and its mean probability.
    void add_balance_loss(Graph& g, const Routed& routed) const {
        if (routed.counts.empty()) return;
        const auto total = [](const std::vector<Value>& values) {
            Value all = values.front();
            for (std::size_t i = 1; i < values.size(); ++i) all = all + values[i];
            return all;
        };
        const Value tokens = total(routed.tokens);
        const Value balance = sum(total(routed.counts) * total(routed.shares), {0}) / (tokens * tokens);
        g.loss("balance", balance * static_cast<double>(experts_), g.fill({}, 1.0), balance_);
    }

private:
    static constexpr double kLimit = 7.0, kSlope = 1.702;

    static std::size_t count_of(int64_t number) { return static_cast<std::size_t>(number); }

    void read_dense(const Config& c) {
        const int64_t step = c.integer("decoder_sparse_step");
        for (std::size_t i = 0; i < sparse_.size(); ++i)
            sparse_[i] = experts_ > 0 && (static_cast<int64_t>(i) + 1) % step == 0 ? 1 : 0;
        for (std::size_t i = 0; i < c.count("mlp_only_layers"); ++i) {
            const std::string key = "mlp_only_layers." + std::to_string(i);
            const int64_t layer = c.integer(key);
            require(layer >= 0 && layer < static_cast<int64_t>(sparse_.size()),
                    key + " is " + std::to_string(layer) + ", but there are " + std::to_string(sparse_.size()) +
                        " layers");
            sparse_[count_of(layer)] = 0;
        }
    }

    // shares [N, E], indices [N, k]; padding does not count.
    void count(Graph& g, Value shares, Value indices, Routed& routed) const {
        const int64_t tokens = shares.dim(0);
        const Value segments = row_segments(g);
        const Value mask = segments ? not_equal(segments, 0.0) : optional_input(g, "attention_mask");
        const Value counts = mask ? to_float32(reshape(mask, {tokens, 1})) : g.fill({tokens, 1}, 1.0);
        routed.counts.push_back(sum(to_float32(sum(one_hot(indices, experts_), {1})) * counts, {0}));
        routed.shares.push_back(sum(shares * counts, {0}));
        routed.tokens.push_back(sum(counts, {0, 1}));
    }

    Value gated(Graph& g, Value each, Value rows, const std::string& name, const Initializer& initial,
                const std::string& act) const {
        const int64_t width = each.dim(1);
        const Value to_gate = g.parameter(name + form_.gate, {experts_, width_, width}, initial);
        const Value to_up = g.parameter(name + form_.up, {experts_, width_, width}, initial);
        const Value to_down = g.parameter(name + form_.down, {experts_, width, width_}, initial);
        const Value inside = activation(row_linear(each, to_gate, rows), act) * row_linear(each, to_up, rows);
        return row_linear(inside, to_down, rows);
    }

    Value joined(Graph& g, Value each, Value rows, const std::string& name, const Initializer& initial) const {
        const int64_t width = each.dim(1);
        const std::string experts = name + "experts.";
        const auto biased = [&](Value in, const char* matrix, int64_t out) {
            const Value weights = g.parameter(experts + matrix, {experts_, in.dim(1), out}, initial);
            const Value bias = g.parameter(experts + matrix + "_bias", {experts_, out}, zeros());
            return row_linear(in, weights, rows, {.input_first = 1}) + gather(bias, rows);
        };
        const Value both = biased(each, "gate_up_proj", 2 * width_);
        const Value gate = minimum(slice(both, 1, 0, width_, {.stride = 2}), g.fill({}, kLimit));
        const Value up = clamp(slice(both, 1, 1, width_, {.stride = 2}), -kLimit, kLimit);
        return biased((up + 1.0) * gate * sigmoid(gate * kSlope), "down_proj", width);
    }

    const ExpertForm& form_;
    std::vector<int64_t> sparse_; // 1: the layer has experts
    int64_t experts_ = 0, chosen_ = 0, width_ = 0;
    bool normalized_ = true, balanced_ = false;
    double balance_ = 0.0, jitter_ = 0.0;
};

} // namespace hekla::plugin
