#include "graph/gradient.hpp"

#include "graph/gradient/backward.hpp"
#include "graph/gradient/loss_parameters.hpp"
#include "graph/output.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// Differentiates the losses of a graph, one group after the other.
class Differentiation {
public:
    Differentiation(Graph graph, const std::set<std::string, std::less<>>& frozen, const std::set<std::size_t>& active)
        : graph_(std::move(graph)), frozen_(frozen), active_(active), losses_(graph_.losses),
          parameters_(graph_.parameters()), node_count_(static_cast<NodeId>(graph_.nodes.size())),
          scales_(losses_.size(), kNone) {}

    Result<Graph> run() {
        HK_ASSIGN(const std::vector<LossGroup> groups, loss_groups(graph_, frozen_));
        for (std::size_t i = 0; i < groups.size(); ++i) HK_TRY(add(groups[i], i == 0));
        Builder b(std::move(graph_));
        for (const auto& [name, value] : parameters_) {
            const bool rests = !active_.empty() && std::ranges::any_of(groups, [&name = name](const LossGroup& group) {
                return group.parameters.contains(name);
            });
            const auto found = gradients_.find(name);
            if (found != gradients_.end())
                b.output(output_name(OutputKind::gradient, name), found->second);
            else if (rests)
                b.output(output_name(OutputKind::gradient, name), b.fill(Kind::float32, b.shape(value), 0.0));
        }
        return b.finish();
    }

private:
    bool is_active(std::size_t loss) const { return active_.empty() || active_.contains(loss); }

    Status add(const LossGroup& group, bool first) {
        const bool named = losses_name_parameters(graph_);
        std::set<std::string, std::less<>> outside = frozen_;
        for (const auto& [name, value] : parameters_)
            if (named && !group.parameters.contains(name)) outside.insert(name);
        Backward backward(std::move(graph_), outside);
        Builder& b = backward.builder();
        if (first) add_terms(backward);
        for (const std::size_t i : group.losses) seed(backward, i);
        go_back(backward, node_count_);
        for (const auto& [name, value] : parameters_) {
            const ValueId gradient = backward.gradient(value);
            if (gradient == kNone || !b.ok()) continue;
            ValueId& total = gradients_[name];
            total = total == kNone ? gradient : backward.add(total, gradient);
        }
        b.set_scope(0);
        HK_ASSIGN(graph_, b.finish());
        return {};
    }

    // Adds the terms of all losses.
    void add_terms(Backward& backward) {
        Builder& b = backward.builder();
        ValueId total = kNone;
        for (std::size_t i = 0; i < losses_.size() && b.ok(); ++i) {
            const LossTerm& loss = losses_[i];
            b.set_scope(b.graph().producer(loss.sum).scope);
            if (is_active(i)) {
                scales_[i] = b.step_scalar(fmt::format("loss_scale.{}", i), 1.0);
                const ValueId sum = backward.cast(backward.reshape(loss.sum, Shape{}), Kind::float32);
                const ValueId term = backward.mul(scales_[i], sum);
                total = total == kNone ? term : backward.add(total, term);
            }
            b.output(output_name(OutputKind::loss_sum, i), loss.sum);
            b.output(output_name(OutputKind::loss_count, i), loss.count);
        }
        b.output(kLossOutput, total);
    }

    void seed(Backward& backward, std::size_t i) {
        const ValueId sum = losses_[i].sum;
        backward.builder().set_scope(backward.builder().graph().producer(sum).scope);
        if (is_active(i) && backward.builder().ok() && backward.active(sum))
            backward.give_value(sum, backward.reshape(scales_[i], backward.shape(sum)));
    }

    Graph graph_;
    const std::set<std::string, std::less<>>& frozen_;
    const std::set<std::size_t>& active_;
    std::vector<LossTerm> losses_;
    std::vector<std::pair<std::string, ValueId>> parameters_;
    NodeId node_count_;           // as described
    std::vector<ValueId> scales_; // by loss
    std::map<std::string, ValueId, std::less<>> gradients_;
};

} // namespace

Result<Graph> differentiate(Graph graph, const std::set<std::string, std::less<>>& frozen,
                            const std::set<std::size_t>& active) {
    if (graph.losses.empty())
        return invalid_argument("this graph has no loss, so there is nothing to differentiate; an objective gives one");
    for (const LossTerm& loss : graph.losses)
        if (graph.shape(loss.sum).elements() != 1 || !is_float(graph.kind(loss.sum)))
            return invalid_argument(fmt::format("loss '{}' is {} {}; a loss is one floating number", loss.name,
                                                kind_name(graph.kind(loss.sum)), graph.shape(loss.sum).text()));
    for (const std::size_t loss : active)
        if (loss >= graph.losses.size())
            return invalid_argument(
                fmt::format("loss {} is to count, and the graph has {}", loss, graph.losses.size()));
    return Differentiation(std::move(graph), frozen, active).run();
}

} // namespace hekla::graph
