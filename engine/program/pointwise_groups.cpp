// Which pointwise nodes become one kernel. Greedy, in the graph's order: a node joins the groups that make its operands
// where nothing that stands between them needs what they make.
#include "program/pointwise.hpp"

#include <algorithm>
#include <set>

namespace hekla::program {

namespace {

// One kernel's record stays small, and so does what a compiler must keep in registers.
constexpr std::size_t kMostNodes = 48;
constexpr std::size_t kMostOperands = 20;

class Grouping {
public:
    Grouping(const graph::Graph& graph, const std::vector<bool>& needed, const std::vector<graph::ValueId>& kept)
        : graph_(graph), needed_(needed), kept_(kept.begin(), kept.end()), group_of_(graph.nodes.size(), 0),
          readers_(graph.values.size()) {
        for (graph::NodeId n = 0; n < graph.nodes.size(); ++n)
            if (needed[n])
                for (const graph::ValueId input : graph.nodes[n].inputs)
                    if (input != graph::kNone) readers_[input].push_back(n);
    }

    PointwiseGroups run() {
        for (graph::NodeId n = 0; n < graph_.nodes.size(); ++n)
            if (needed_[n] && joins(n)) place(n);
        PointwiseGroups result;
        for (const std::set<graph::NodeId>& members : groups_)
            if (!members.empty() && !only_hands_on(members)) result.add(finished(members));
        return result;
    }

private:
    bool joins(graph::NodeId n) const {
        const graph::Node& node = graph_.nodes[n];
        return graph::is_pointwise(node.op) && graph_.shape(node.outputs[0]).elements() > 0;
    }

    void place(graph::NodeId n) {
        const graph::Node& node = graph_.nodes[n];
        std::set<std::size_t> candidates;
        for (const graph::ValueId input : node.inputs) {
            const graph::NodeId producer = graph_.value(input).node;
            if (group_of_[producer] != 0 && graph_.shape(input) == graph_.shape(node.outputs[0]))
                candidates.insert(group_of_[producer]);
        }
        std::set<graph::NodeId> together{n};
        for (const std::size_t c : candidates) together.insert(groups_[c - 1].begin(), groups_[c - 1].end());
        std::set<std::size_t> taken = candidates;
        if (!fits(together)) {
            // Not all; then each that can.
            together = {n};
            taken.clear();
            for (auto c = candidates.rbegin(); c != candidates.rend(); ++c) {
                std::set<graph::NodeId> wider = together;
                wider.insert(groups_[*c - 1].begin(), groups_[*c - 1].end());
                if (!fits(wider)) continue;
                together = std::move(wider);
                taken.insert(*c);
            }
        }
        for (const std::size_t c : taken) groups_[c - 1].clear();
        groups_.push_back(together);
        for (const graph::NodeId member : together) group_of_[member] = groups_.size();
    }

    // The group runs at its last node: everybody else who reads from it must come later.
    bool fits(const std::set<graph::NodeId>& members) const {
        if (members.size() > kMostNodes) return false;
        const graph::NodeId last = *members.rbegin();
        std::set<graph::ValueId> operands;
        for (const graph::NodeId member : members) {
            const graph::Node& node = graph_.nodes[member];
            for (const graph::NodeId reader : readers_[node.outputs[0]])
                if (reader < last && !members.contains(reader)) return false;
            for (const graph::ValueId input : node.inputs)
                if (!members.contains(graph_.value(input).node)) operands.insert(input);
        }
        return operands.size() <= kMostOperands;
    }

    // A cast or stop_gradient alone is a view, no kernel.
    bool only_hands_on(const std::set<graph::NodeId>& members) const {
        if (members.size() > 1) return false;
        const graph::Node& node = graph_.nodes[*members.begin()];
        if (node.op == graph::Op::cast)
            return graph::is_float(graph_.kind(node.inputs[0])) == graph::is_float(graph_.kind(node.outputs[0]));
        return node.op == graph::Op::stop_gradient || (node.op == graph::Op::dropout && node.real("probability") <= 0);
    }

    PointwiseGroup finished(const std::set<graph::NodeId>& members) const {
        PointwiseGroup group;
        group.nodes.assign(members.begin(), members.end());
        for (const graph::NodeId member : group.nodes) {
            const graph::ValueId output = graph_.nodes[member].outputs[0];
            const bool outside = std::any_of(readers_[output].begin(), readers_[output].end(),
                                             [&](graph::NodeId reader) { return !members.contains(reader); });
            if (outside || kept_.contains(output)) group.outputs.push_back(output);
        }
        return group;
    }

    const graph::Graph& graph_;
    const std::vector<bool>& needed_;
    std::set<graph::ValueId> kept_;
    std::vector<std::size_t> group_of_; // 1 + place in groups_; 0: none
    std::vector<std::set<graph::NodeId>> groups_;
    std::vector<std::vector<graph::NodeId>> readers_;
};

} // namespace

PointwiseGroups group_pointwise(const graph::Graph& graph, const std::vector<bool>& needed,
                                const std::vector<graph::ValueId>& kept, const Limits& limits) {
    if (!limits.generated_shaders) return {};
    return Grouping(graph, needed, kept).run();
}

} // namespace hekla::program
