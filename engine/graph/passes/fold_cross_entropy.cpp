#include "graph/passes/fold_cross_entropy.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace hekla::graph {
namespace {

// Returns whether the operation only passes rows of logits through.
bool hands_on(const Graph& graph, const Node& node) {
    if (node.op == Op::site || node.op == Op::tap) return true;
    if (node.op == Op::cast) return is_float(graph.kind(node.outputs[0])) && is_float(graph.kind(node.inputs[0]));
    if (node.op != Op::reshape) return false;
    const Shape& from = graph.shape(node.inputs[0]);
    const Shape& to = graph.shape(node.outputs[0]);
    return from.rank() > 0 && to.rank() > 0 && from[-1] == to[-1] && from.elements() > 0;
}

bool makes_logits(const Graph& graph, const Node& node) {
    if (node.op == Op::linear) return graph.shape(node.inputs[1]).rank() == 2;
    return node.op == Op::matmul && node.integer("transpose_a") == 0 && graph.shape(node.inputs[0]).rank() >= 2 &&
           graph.shape(node.inputs[1]).rank() == 2;
}

// `x` times `factor`; x is kNone if that is not what the node computes.
struct Multiple {
    ValueId x = kNone;
    double factor = 1;
};

Multiple multiple_of(const Graph& graph, const Node& node) {
    if (node.op != Op::mul && node.op != Op::div) return {};
    for (std::size_t i = 0; i < (node.op == Op::mul ? 2u : 1u); ++i) {
        const ValueId x = node.inputs[i];
        const Node& number = graph.producer(node.inputs[1 - i]);
        if (number.op != Op::fill || graph.shape(x) != graph.shape(node.outputs[0])) continue;
        const double value = number.real("value");
        return {x, node.op == Op::mul ? value : 1 / value};
    }
    return {};
}

// Returns what a node between a linear and its loss computes logits from, or kNone if it cannot be folded.
ValueId logits_before(const Graph& graph, const Node& node) {
    return hands_on(graph, node) || node.op == Op::tanh ? node.inputs[0] : multiple_of(graph, node).x;
}

// Attributes of linear_cross_entropy.
struct Bounds {
    double scale = 1, softcap = 0;
};

// The nodes between a linear and its loss that change logits, from the loss back to the linear.
class Chain {
public:
    bool empty() const { return !bounded_ && last_.empty(); }

    // Returns false if the node cannot be folded.
    bool add(const Graph& graph, const Node& node) {
        if (hands_on(graph, node)) return true;
        if (node.op == Op::tanh && !bounded_) {
            bounded_ = true;
            return true;
        }
        const Multiple multiple = multiple_of(graph, node);
        if (multiple.x == kNone) return false;
        (bounded_ ? first_ : last_).push_back(multiple.factor);
        return true;
    }

    // Returns nothing if the nodes are neither a multiplication nor c tanh(x / c) with at most one before and one
    // after.
    std::optional<Bounds> bounds() const {
        if (!bounded_) return last_.size() > 1 ? std::nullopt : usable({last_.empty() ? 1 : last_[0], 0});
        if (last_.size() > 2 || first_.size() > 2) return {};
        const double c = last_.empty() ? 1 : last_.back(), divided = first_.empty() ? 1 : first_[0];
        if (!(std::abs(c * divided - 1) <= 4 * std::numeric_limits<double>::epsilon())) return {};
        const double before = first_.size() < 2 ? 1 : first_[1], after = last_.size() < 2 ? 1 : last_[0];
        return usable({before * after, std::abs(c * after)}); // a c tanh(b x / c) = a c tanh(a b x / (a c))
    }

private:
    // Devices have both as float32.
    static std::optional<Bounds> usable(const Bounds& b) {
        const bool softcap_fits = b.softcap == 0 || std::isnormal(static_cast<float>(b.softcap));
        return softcap_fits && std::isnormal(static_cast<float>(b.scale)) ? std::optional(b) : std::nullopt;
    }

    std::vector<double> last_, first_; // factors after and before the tanh; all are `last_` without one
    bool bounded_ = false;             // there is a tanh
};

class Folder {
public:
    Folder(const Graph& graph, const FoldOptions& options)
        : graph_(graph), options_(options), readers_(graph.values.size()), kept_(graph.values.size(), false),
          trained_(graph.values.size(), false), folds_(graph.nodes.size()), best_of_(graph.nodes.size(), kNone) {
        for (NodeId id = 0; id < graph.nodes.size(); ++id) {
            const Node& node = graph.nodes[id];
            bool trained = node.op == Op::parameter && !options_.frozen.contains(node.text("name"));
            for (const ValueId input : node.inputs) {
                readers_[input].push_back(id);
                trained = trained || trained_[input];
            }
            if (node.op == Op::stop_gradient) trained = false;
            for (const ValueId output : node.outputs) trained_[output] = trained;
        }
        for (const auto& [name, value] : graph.outputs) kept_[value] = true;
        for (const LossTerm& loss : graph.losses) kept_[loss.sum] = kept_[loss.count] = true;
        for (const Metric& metric : graph.metrics) kept_[metric.sum] = kept_[metric.count] = true;
        for (NodeId id = 0; id < graph.nodes.size(); ++id)
            if (graph.nodes[id].op == Op::cross_entropy) look_at(id);
    }

    bool any() const { return any_; }

    bool replace(Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        if (best_of_[id] != kNone) {
            outputs = {reshaped(b, best_[best_of_[id]], graph_.shape(graph_.nodes[id].outputs[0]))};
            return true;
        }
        if (!folds_[id].yes) return false;
        ValueId logits = node.inputs[0];
        while (!makes_logits(b.graph(), b.graph().producer(logits)))
            logits = logits_before(b.graph(), b.graph().producer(logits));
        const Node linear = b.graph().producer(logits); // a copy: emitting moves the nodes
        const bool product = linear.op == Op::matmul;
        const bool input_first = product ? linear.integer("transpose_b") == 0 : linear.integer("input_first") != 0;
        const Shape shape = b.shape(node.inputs[1]); // of the labels and of the loss
        const ValueId inputs[] = {reshaped(b, linear.inputs[0], {shape.elements(), b.shape(linear.inputs[0])[-1]}),
                                  linear.inputs[1], product ? kNone : linear.inputs[2],
                                  reshaped(b, node.inputs[1], {shape.elements()}), node.inputs[2]};
        const NamedAttribute attributes[] = {{"input_first", int64_t{input_first}},
                                             {"ignore_index", node.integer("ignore_index")},
                                             {"smoothing", node.real("smoothing")},
                                             {"scale", folds_[id].bounds.scale},
                                             {"softcap", folds_[id].bounds.softcap},
                                             {"best", int64_t{folds_[id].best}},
                                             {"chunk", options_.chunk}};
        const std::vector<ValueId> made = b.emit(Op::linear_cross_entropy, inputs, attributes);
        if (made.empty()) return true; // the builder has the error
        best_[graph_.nodes[id].outputs[0]] = made[2];
        outputs = {reshaped(b, made[0], shape), kNone};
        return true;
    }

private:
    struct Fold {
        bool yes = false;
        bool best = false; // the index of the largest logit is needed
        Bounds bounds;
    };

    // Decides whether to fold: only the chain from a linear to this loss, and an argmax after it, read the logits.
    void look_at(NodeId id) {
        const Node& node = graph_.nodes[id];
        const int64_t bytes = graph_.shape(node.inputs[0]).elements() * 4;
        if (bytes < std::min(options_.least_bytes, options_.least_bytes_of_frozen)) return;
        if (graph_.shape(node.inputs[1]).elements() == 0) return;
        if (node.inputs[2] != kNone && trained_[node.inputs[2]]) return;
        if (kept_[node.outputs[1]] || !readers_[node.outputs[1]].empty()) return; // already differentiated
        std::vector<NodeId> places;
        NodeId reader = id;
        Chain chain;
        for (ValueId value = node.inputs[0];; value = logits_before(graph_, graph_.producer(value))) {
            if (kept_[value]) return;
            for (const NodeId other : readers_[value]) {
                if (other == reader) continue;
                const Node& best = graph_.nodes[other];
                const int last = graph_.shape(value).rank() - 1;
                if (best.op != Op::argmax || other < id || !chain.empty()) return;
                if (best.integer("axis") != -1 && best.integer("axis") != last) return;
                places.push_back(other);
            }
            reader = graph_.value(value).node;
            if (makes_logits(graph_, graph_.nodes[reader])) break;
            if (!chain.add(graph_, graph_.nodes[reader])) return;
        }
        const std::optional<Bounds> bounds = chain.bounds();
        if (!bounds) return;
        const Node& linear = graph_.nodes[reader];
        const bool weight = trained_[linear.inputs[1]];
        const bool bias = linear.inputs.size() > 2 && linear.inputs[2] != kNone && trained_[linear.inputs[2]];
        const bool frozen = !options_.frozen.empty() && !weight && !bias;
        if (bytes < (frozen ? options_.least_bytes_of_frozen : options_.least_bytes)) return;
        folds_[id] = {true, !places.empty(), *bounds};
        for (const NodeId place : places) best_of_[place] = node.outputs[0];
        any_ = true;
    }

    static ValueId reshaped(Builder& b, ValueId x, const Shape& shape) {
        if (!b.ok() || b.shape(x) == shape) return x;
        return b(Op::reshape, {x}, {{"shape", shape.vector()}});
    }

    const Graph& graph_;
    FoldOptions options_;
    std::vector<std::vector<NodeId>> readers_; // by value
    std::vector<bool> kept_;                   // by value: needed after the graph has run
    std::vector<bool> trained_;                // by value: depends on a parameter
    std::vector<Fold> folds_;                  // by node
    std::vector<ValueId> best_of_;             // by node: the loss whose folded form replaces this argmax
    std::map<ValueId, ValueId> best_;          // by loss: its new argmax
    bool any_ = false;
};

} // namespace

Result<Graph> fold_cross_entropy(const Graph& graph, const FoldOptions& options) {
    Folder folder(graph, options);
    if (!folder.any()) return graph;
    const Replace replace = [&](Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        return folder.replace(b, node, id, outputs);
    };
    return rewrite(graph, replace, false);
}

} // namespace hekla::graph
