#include "program/lowering/epilogue.hpp"

#include "program/lowering/storage16.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace hekla::program {

namespace {

using graph::Op;

// Largest number of rows for which a CPU's kernels fuse an activation: their tiles are unrolled, so the code of a large
// one would contain the activation hundreds of times, to save a dispatch that costs almost nothing compared with the
// product.
constexpr int64_t kFewRows = 8;

Activation activation_of(const graph::Node& node) {
    if (node.op == Op::relu) return Activation::relu;
    if (node.op == Op::gelu) return node.integer("tanh_approximation") != 0 ? Activation::gelu_tanh : Activation::gelu;
    return Activation::none;
}

} // namespace

void FusedEpilogues::add(graph::NodeId end, const FusedEpilogue& epilogue, bool at_node) {
    positions_[at_node ? epilogue.node : end] = epilogue;
    nodes_.insert(epilogue.node);
    nodes_.insert(end);
}

graph::NodeId FusedEpilogues::position_of(graph::NodeId node) const {
    const auto it = std::ranges::find_if(positions_, [&](const auto& entry) { return entry.second.node == node; });
    return it == positions_.end() ? node : it->first;
}

const FusedEpilogue* FusedEpilogues::lowered_at(graph::NodeId node) const {
    const auto it = positions_.find(node);
    return it == positions_.end() ? nullptr : &it->second;
}

namespace {

class EpilogueFinder {
public:
    EpilogueFinder(const Lowering& lowering, const std::vector<graph::ValueId>& kept)
        : lowering_(lowering), graph_(*lowering.graph), kept_(kept),
          readers_(readers_of(*lowering.graph, lowering.needed)) {}

    FusedEpilogues find(const PointwiseGroups& groups) {
        groups_ = &groups;
        for (const PointwiseGroup& group : groups.all()) {
            end_ = group.nodes.back();
            const bool alone = std::ranges::all_of(
                group.nodes, [&](graph::NodeId node) { return node == end_ || hands_on(graph_.nodes[node]); });
            const graph::Shape& shape = graph_.shape(output());
            if (!alone || shape.rank() == 0 || shape.elements() == 0) continue;
            const Op op = graph_.nodes[end_].op;
            std::optional<FusedEpilogue> epilogue = op == Op::add             ? sum()
                                                    : op == Op::gelu_gradient ? gelu_gradient()
                                                                              : activation();
            if (!epilogue) continue;
            epilogue->output = output();
            // The gradient of gelu is computed at once: gradients of weights after it read the activation computed
            // again.
            const bool at_node =
                epilogue->argument != graph::kNone && computed_before(epilogue->argument, epilogue->node);
            if (at_node) epilogue->recomputed = activation_to_recompute(epilogue->node);
            found_.add(end_, *epilogue, at_node);
            if (const graph::NodeId again = graph_.value(epilogue->recomputed).node; again > epilogue->node)
                found_.computes(again);
        }
        return std::move(found_);
    }

private:
    graph::ValueId output() const { return graph_.nodes[end_].outputs[0]; }

    // Whether the node's result is its input, in the same storage, and read once.
    bool hands_on(const graph::Node& node) const {
        return is_same(graph_, node) && read_once(node.outputs[0]) &&
               lowering_.storage_of(node.outputs[0]) == lowering_.storage_of(node.inputs[0]);
    }

    // Returns what computes an input of the end.
    graph::ValueId input(std::size_t i) const {
        graph::ValueId value = graph_.nodes[end_].inputs[i];
        while (hands_on(graph_.producer(value))) value = graph_.producer(value).inputs[0];
        return value;
    }

    bool read_once(graph::ValueId value) const {
        return readers_[value].size() == 1 && std::ranges::find(kept_, value) == kept_.end();
    }

    // Whether something reads a result of the node before the end, where it would be lowered with an epilogue.
    bool read_before_end(const graph::Node& node) const {
        return std::ranges::any_of(node.outputs, [&](graph::ValueId value) {
            return std::ranges::any_of(readers_[value], [&](graph::NodeId reader) { return reader < end_; });
        });
    }

    // Whether the value is computed when the node's turn comes: a node with an epilogue may be lowered after others.
    bool computed_before(graph::ValueId value, graph::NodeId node) const {
        return graph_.value(value).node < node && found_.position_of(graph_.value(value).node) < node;
    }

    bool is_linear(graph::ValueId value) const {
        const graph::Node& node = graph_.producer(value);
        return node.op == Op::linear && graph_.shape(value) == graph_.shape(output()) &&
               graph_.shape(node.inputs[0])[-1] > 0;
    }

    // Kernels for CPUs have no second tensor like C.
    bool is_like_output(graph::ValueId value) const {
        const Limits& limits = lowering_.limits;
        return limits.kernels_of_gpus() && graph_.shape(value) == graph_.shape(output()) &&
               !makes_view(graph_.producer(value).op) && graph_.kind(value) == graph::Kind::float_ &&
               lowering_.storage_of(value) == lowering_.storage_of(output());
    }

    std::optional<FusedEpilogue> activation() const {
        FusedEpilogue epilogue;
        epilogue.activation = activation_of(graph_.nodes[end_]);
        if (epilogue.activation == Activation::none) return std::nullopt;
        const graph::Shape& shape = graph_.shape(output());
        if (lowering_.limits.cpu && shape.elements() / shape[-1] > kFewRows) return std::nullopt;
        const graph::ValueId before = input(0);
        if (!is_linear(before)) return std::nullopt;
        epilogue.node = graph_.value(before).node;
        epilogue.stores_before = !read_once(before);
        if (epilogue.stores_before && (!is_like_output(before) || read_before_end(graph_.producer(before))))
            return std::nullopt;
        return epilogue;
    }

    std::optional<FusedEpilogue> gelu_gradient() const {
        FusedEpilogue epilogue;
        const graph::ValueId product = input(0);
        epilogue.argument = graph_.nodes[end_].inputs[1];
        if (!is_linear(product) || !read_once(product) || !is_like_output(epilogue.argument)) return std::nullopt;
        epilogue.node = graph_.value(product).node;
        epilogue.activation = graph_.nodes[end_].integer("tanh_approximation") != 0 ? Activation::gelu_tanh_gradient
                                                                                    : Activation::gelu_gradient;
        return epilogue;
    }

    // Returns gelu's result, of the argument of the end, if gradients from the node on read it.
    graph::ValueId activation_to_recompute(graph::NodeId node) const {
        const graph::Node& gradient = graph_.nodes[end_];
        for (const graph::NodeId n : readers_[gradient.inputs[1]]) {
            const graph::Node& gelu = graph_.nodes[n];
            if (gelu.op != Op::gelu || gelu.integer("tanh_approximation") != gradient.integer("tanh_approximation"))
                continue;
            const graph::ValueId value = gelu.outputs[0];
            const PointwiseGroup* const group = groups_->ending_at(n);
            const bool only_later = n > node && group != nullptr && group->nodes.size() == 1; // graph::recompute()
            if (std::ranges::any_of(readers_[value], [&](graph::NodeId id) { return id > node; }) &&
                std::ranges::find(kept_, value) == kept_.end() && (only_later || computed_before(value, node)) &&
                is_like_output(value))
                return value;
        }
        return graph::kNone;
    }

    std::optional<FusedEpilogue> sum() const {
        const graph::ValueId terms[] = {input(0), input(1)};
        if (graph_.shape(terms[0]) != graph_.shape(terms[1])) return std::nullopt;
        // Of two nodes, fuse into the later one, because the other is computed by then.
        const std::size_t later = terms[1] > terms[0] ? 1 : 0;
        for (const std::size_t i : {later, 1 - later})
            if (adds(terms[i], terms[1 - i]))
                return FusedEpilogue{.node = graph_.value(terms[i]).node, .residual = terms[1 - i]};
        return std::nullopt;
    }

    // Whether the kernel that computes the value can add another.
    bool adds(graph::ValueId value, graph::ValueId other) const {
        const graph::Node& node = graph_.producer(value);
        if (!read_once(value)) return false;
        switch (node.op) {
        case Op::linear: return is_linear(value);
        case Op::layer_norm_gradient:
        case Op::rms_norm_gradient: return value == node.outputs[0] && !read_before_end(node);
        case Op::embedding_gradient: {
            // In place: only the sum reads the other gradient.
            const Op op = graph_.producer(other).op;
            return read_once(other) && !makes_view(op) && !graph::is_leaf(op) &&
                   lowering_.storage_of(output()) == Storage::f32 && lowering_.storage_of(other) == Storage::f32;
        }
        default: return false;
        }
    }

    const Lowering& lowering_;
    const graph::Graph& graph_;
    const std::vector<graph::ValueId>& kept_;
    std::vector<std::vector<graph::NodeId>> readers_; // by value, in order
    const PointwiseGroups* groups_ = nullptr;
    graph::NodeId end_ = 0; // the pointwise operation
    FusedEpilogues found_;
};

} // namespace

FusedEpilogues find_epilogues(const Lowering& lowering, const std::vector<graph::ValueId>& kept,
                              const PointwiseGroups& groups) {
    return EpilogueFinder(lowering, kept).find(groups);
}

} // namespace hekla::program
