#include "graph/operations/loop.hpp"

#include "base/hash.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/rewrite.hpp"

#include <algorithm>
#include <limits>

namespace hekla::graph {
namespace {

constexpr std::size_t kMostCopies = 200'000; // operations that a loop may become

bool leaves_loop(Op op) { return op == Op::loop_next || op == Op::loop_collect; }

// Returns the loop_index of an operation of a loop.
NodeId loop_of(const Graph& graph, const Node& node) {
    const Node* from = &node;
    if (node.op == Op::loop_next) from = &graph.producer(node.inputs[0]); // a loop_state
    return graph.value(from->op == Op::loop_index ? from->outputs[0] : from->inputs[0]).node;
}

// Whether copies of the operation would be more than the same computation on other values: what they name is there
// once.
bool is_there_once(const Node& node) {
    switch (node.op) {
    case Op::once:
    case Op::state_read:
    case Op::state_write:
    case Op::tap:
    case Op::for_parameters: return true;
    case Op::attention: return !node.text("cache").empty();
    default: return false;
    }
}

constexpr std::size_t kNoLoop = std::numeric_limits<std::size_t>::max();

struct Loop {
    NodeId index = 0;
    std::vector<NodeId> nodes = {}; // the loop's own operations and its body, in order
    bool unrolls = true;            // in this round: no other loop's operations are in its body
};

// The loops of a graph, and which nodes belong to which.
class Loops {
public:
    explicit Loops(const Graph& graph) : graph_(graph), inside_(graph.values.size()), of_node_(graph.nodes.size()) {
        for (NodeId id = 0; id < graph.nodes.size(); ++id) {
            if (graph.nodes[id].op == Op::loop_index) loops_.push_back({.index = id});
            place(id);
        }
        for (const Loop& loop : loops_)
            for (const NodeId id : loop.nodes) mark(id, loop);
    }

    bool empty() const { return loops_.empty(); }
    std::span<const Loop> all() const { return loops_; }

    // Returns the loop, of those to be unrolled now, that the node belongs to, as an index into all().
    std::size_t unrolled_with(NodeId id) const {
        for (const std::size_t loop : of_node_[id])
            if (loops_[loop].unrolls) return loop;
        return kNoLoop;
    }

    // Returns whether the value is different in each step of the loop.
    bool is_in_body(ValueId value, std::size_t loop) const { return std::ranges::binary_search(inside_[value], loop); }

private:
    std::size_t number_of(NodeId index) const {
        return static_cast<std::size_t>(std::ranges::find(loops_, index, &Loop::index) - loops_.begin());
    }

    // Finds the loops whose body the node is in: those of its inputs, and its own if it begins a body.
    void place(NodeId id) {
        const Node& node = graph_.nodes[id];
        std::vector<std::size_t> in;
        for (const ValueId input : node.inputs)
            if (input != kNone) in.insert(in.end(), inside_[input].begin(), inside_[input].end());
        const std::size_t own = is_loop_operation(node.op) ? number_of(loop_of(graph_, node)) : kNoLoop;
        if (own != kNoLoop) in.push_back(own);
        std::ranges::sort(in);
        in.erase(std::ranges::unique(in).begin(), in.end());
        for (const std::size_t loop : in) loops_[loop].nodes.push_back(id);
        of_node_[id] = in;
        if (leaves_loop(node.op)) std::erase(in, own);
        for (const ValueId output : node.outputs) inside_[output] = in;
    }

    // A loop waits if it contains operations of another, or nodes of one that is unrolled before it.
    void mark(NodeId id, const Loop& loop) {
        const Node& node = graph_.nodes[id];
        const bool foreign = is_loop_operation(node.op) && loop_of(graph_, node) != loop.index;
        Loop& now = loops_[number_of(loop.index)];
        if (foreign || unrolled_with(id) != number_of(loop.index)) now.unrolls = false;
    }

    const Graph& graph_;
    std::vector<Loop> loops_;
    std::vector<std::vector<std::size_t>> inside_;  // by value: the loops in whose bodies it is, ascending
    std::vector<std::vector<std::size_t>> of_node_; // by node: the same, and the loop that it leaves
};

// Copies a graph with the loops that can be unrolled in this round.
class Unrolling {
public:
    Unrolling(const Graph& graph, const Loops& loops)
        : graph_(graph), loops_(loops), now_(graph.values.size(), kNone), visited_(graph.nodes.size(), Visit::no) {
        builder_.mutable_graph().scopes = graph.scopes;
    }

    Result<Graph> run(std::span<std::size_t> counts) {
        for (std::size_t loop = 0; loop < loops_.all().size(); ++loop)
            if (loops_.all()[loop].unrolls) HK_TRY(check(loop));
        std::vector<std::size_t> made{0}; // by number of old nodes
        for (NodeId id = 0; id < graph_.nodes.size() && builder_.ok(); ++id) {
            HK_TRY(emit_after_inputs(id));
            made.push_back(builder_.graph().nodes.size());
        }
        builder_.set_scope(0);
        builder_.set_region(0);
        HK_TRY(builder_.status());
        HK_TRY(check_uses());
        for (const auto& [name, value] : graph_.outputs) builder_.output(name, now_[value]);
        for (const LossTerm& loss : graph_.losses)
            builder_.loss(loss.name, now_[loss.sum], now_[loss.count], loss.weight);
        for (const Metric& metric : graph_.metrics) builder_.metric(metric.name, now_[metric.sum], now_[metric.count]);
        HK_TRY(builder_.status());
        for (std::size_t& count : counts) count = made[count];
        return std::move(builder_.mutable_graph());
    }

private:
    enum class Visit : uint8_t { no, begun, done };

    // Checks what a loop consists of, and the size of its copies.
    Status check(std::size_t number) const {
        const Loop& loop = loops_.all()[number];
        std::map<NodeId, std::size_t> given; // loop_next by loop_state
        for (const NodeId id : loop.nodes)
            if (graph_.nodes[id].op == Op::loop_state) given[id] = 0;
        for (const NodeId id : loop.nodes) {
            const Node& node = graph_.nodes[id];
            if (is_there_once(node))
                return invalid_argument(fmt::format("{}: a body of a loop cannot have this operation; expected it on a "
                                                    "value before the loop, or of loop_next or loop_collect",
                                                    graph_.describe(id)));
            if (node.op == Op::loop_next) ++given[graph_.value(node.inputs[0]).node];
        }
        for (const auto& [state, times] : given)
            if (times != 1)
                return invalid_argument(fmt::format("{}: the state gets its next value {}; expected one loop_next",
                                                    graph_.describe(state), times == 0 ? "nowhere" : "twice or more"));
        const auto steps = static_cast<std::size_t>(graph_.nodes[loop.index].integer("length"));
        return loop.nodes.size() > kMostCopies / steps ? too_large(loop) : Status{};
    }

    Status too_large(const Loop& loop) const {
        return invalid_argument(fmt::format(
            "{}: {} steps of {} operations; at most {} operations are possible: take shorter rows or a "
            "smaller body, or one of scan_linear, gru, lstm and operations of your own",
            graph_.describe(loop.index), graph_.nodes[loop.index].integer("length"), loop.nodes.size(), kMostCopies));
    }

    // Refuses values of one step as results of the graph. What is computed from them is of one step, too.
    Status check_uses() const {
        const auto use = [&](ValueId value, std::string_view what, std::string_view name) -> Status {
            for (std::size_t loop = 0; loop < loops_.all().size(); ++loop)
                if (loops_.all()[loop].unrolls && loops_.is_in_body(value, loop))
                    return invalid_argument(
                        fmt::format("{} '{}' is a value of one step of a loop, {}; expected the result of loop_next "
                                    "or loop_collect",
                                    what, name, graph_.describe(graph_.value(value).node)));
            return {};
        };
        for (const auto& [name, value] : graph_.outputs) HK_TRY(use(value, "output", name));
        for (const LossTerm& loss : graph_.losses) {
            HK_TRY(use(loss.sum, "loss", loss.name));
            HK_TRY(use(loss.count, "loss", loss.name));
        }
        for (const Metric& metric : graph_.metrics) {
            HK_TRY(use(metric.sum, "metric", metric.name));
            HK_TRY(use(metric.count, "metric", metric.name));
        }
        return {};
    }

    // Returns the first node of what is emitted together with this one: a whole loop, or itself.
    NodeId unit_of(NodeId id) const {
        const std::size_t loop = loops_.unrolled_with(id);
        return loop == kNoLoop ? id : loops_.all()[loop].index;
    }

    // Returns the units that a unit reads.
    std::vector<NodeId> read_by(NodeId unit) const {
        std::vector<NodeId> units;
        const auto add = [&](NodeId id) {
            for (const ValueId input : graph_.nodes[id].inputs) {
                if (input == kNone) continue;
                const NodeId other = unit_of(graph_.value(input).node);
                if (other != unit) units.push_back(other);
            }
        };
        const std::size_t loop = loops_.unrolled_with(unit);
        if (loop == kNoLoop) {
            add(unit);
        } else {
            for (const NodeId id : loops_.all()[loop].nodes) add(id);
        }
        return units;
    }

    // Emits the node's unit and what it reads, that first: values that a body reads can be described after its loop.
    Status emit_after_inputs(NodeId id) {
        std::vector<NodeId> open{unit_of(id)};
        while (!open.empty() && builder_.ok()) {
            const NodeId unit = open.back();
            if (visited_[unit] == Visit::done) {
                open.pop_back();
                continue;
            }
            const bool entered = visited_[unit] == Visit::begun;
            visited_[unit] = Visit::begun;
            if (!entered) {
                bool ready = true;
                for (const NodeId other : read_by(unit)) {
                    if (visited_[other] == Visit::done) continue;
                    if (visited_[other] == Visit::begun)
                        return invalid_argument(fmt::format("{}: the body of this loop reads what is computed from the "
                                                            "loop's results",
                                                            graph_.describe(loop_in(open))));
                    open.push_back(other);
                    ready = false;
                }
                if (!ready) continue;
            }
            open.pop_back();
            visited_[unit] = Visit::done;
            const std::size_t loop = loops_.unrolled_with(unit);
            if (loop == kNoLoop) {
                copy(unit);
            } else {
                unroll(loops_.all()[loop]);
            }
        }
        return {};
    }

    // Returns the innermost loop of the units that are being emitted.
    NodeId loop_in(std::span<const NodeId> open) const {
        for (std::size_t i = open.size(); i-- > 0;)
            if (graph_.nodes[open[i]].op == Op::loop_index) return open[i];
        return open.back();
    }

    // Copies a node with its inputs of now; `step`: of its loop.
    void copy(NodeId id, std::size_t step = 0) {
        Node node = graph_.nodes[id];
        builder_.set_scope(node.scope);
        builder_.set_region(node.region);
        for (ValueId& input : node.inputs) {
            if (input != kNone && now_[input] == kNone)
                return builder_.fail(
                    internal_error(fmt::format("unroll_loops: {} reads a value of {} that is not copied",
                                               graph_.describe(id), graph_.describe(graph_.value(input).node))));
            input = now_[input];
        }
        if (step > 0 && is_random(node)) { // other numbers in every step
            const auto stream = static_cast<uint64_t>(node.integer("stream"));
            node.set("stream", static_cast<int64_t>(hash64(fmt::format("step {}", step), stream) & 0x7fffffff));
        }
        std::vector<ValueId> outputs;
        copy_node(builder_, node, outputs);
        const std::vector<ValueId>& old = graph_.nodes[id].outputs;
        for (std::size_t i = 0; i < old.size() && i < outputs.size(); ++i) now_[old[i]] = outputs[i];
    }

    void unroll(const Loop& loop) {
        const Node& index = graph_.nodes[loop.index];
        const int64_t steps = index.integer("length");
        const bool reverse = index.integer("reverse") != 0;
        std::map<NodeId, ValueId> next; // by loop_state
        std::map<NodeId, std::vector<ValueId>> collected;
        const std::size_t begin = builder_.graph().nodes.size();
        for (int64_t step = 0; step < steps && builder_.ok(); ++step) {
            const int64_t place = reverse ? steps - 1 - step : step;
            for (const NodeId id : loop.nodes) {
                const Node& node = graph_.nodes[id];
                builder_.set_scope(node.scope);
                builder_.set_region(node.region);
                switch (node.op) {
                case Op::loop_index: set(node, builder_.fill(Kind::int32, Shape{}, static_cast<double>(place))); break;
                case Op::loop_step: set(node, at(now_[node.inputs[1]], node.integer("axis"), place)); break;
                case Op::loop_state: set(node, step == 0 ? now_[node.inputs[1]] : next[id]); break;
                case Op::loop_next: break; // after the step: the body may still read the state
                case Op::loop_collect:
                    collected[id].push_back(with_axis(now_[node.inputs[1]], graph_.shape(node.outputs[0]), node));
                    break;
                default: copy(id, static_cast<std::size_t>(step));
                }
                if (!builder_.ok()) return;
            }
            if (builder_.graph().nodes.size() - begin > kMostCopies) return builder_.fail(too_large(loop)); // gradients
            for (const NodeId id : loop.nodes)
                if (const Node& node = graph_.nodes[id]; node.op == Op::loop_next)
                    next[graph_.value(node.inputs[0]).node] = now_[node.inputs[1]];
        }
        for (const NodeId id : loop.nodes) {
            const Node& node = graph_.nodes[id];
            if (node.op == Op::loop_next) {
                set(node, next[graph_.value(node.inputs[0]).node]);
            } else if (node.op == Op::loop_collect) {
                std::vector<ValueId>& parts = collected[id];
                if (reverse) std::ranges::reverse(parts);
                builder_.set_scope(node.scope);
                builder_.set_region(node.region);
                const NamedAttribute along[] = {{"axis", axis_of(node)}};
                const std::vector<ValueId> all = builder_.emit(Op::concat, parts, along);
                if (!all.empty()) set(node, all[0]);
            }
        }
    }

    void set(const Node& node, ValueId value) { now_[node.outputs[0]] = value; }

    // Returns the element of x at this place of an axis, without the axis.
    ValueId at(ValueId x, int64_t axis, int64_t place) {
        Shape shape = builder_.shape(x);
        if (axis < 0) axis += shape.rank();
        const ValueId part = builder_(Op::slice, {x}, {{"axis", axis}, {"start", place}, {"length", int64_t{1}}});
        shape.erase(static_cast<int>(axis));
        return builder_(Op::reshape, {part}, {{"shape", shape.vector()}});
    }

    int64_t axis_of(const Node& collect) const {
        return from_start(collect.integer("axis"), graph_.shape(collect.outputs[0]).rank());
    }

    // Returns y with an axis of length 1 where `all` has the steps.
    ValueId with_axis(ValueId y, Shape all, const Node& collect) {
        all[static_cast<int>(axis_of(collect))] = 1;
        return builder_(Op::reshape, {y}, {{"shape", all.vector()}});
    }

    const Graph& graph_;
    const Loops& loops_;
    Builder builder_;
    std::vector<ValueId> now_;   // new ids of the old values; in a body those of the step
    std::vector<Visit> visited_; // by node: the units
};

} // namespace

bool is_loop_operation(Op op) {
    switch (op) {
    case Op::loop_index:
    case Op::loop_step:
    case Op::loop_state:
    case Op::loop_next:
    case Op::loop_collect: return true;
    default: return false;
    }
}

namespace {

Result<Outputs> loop_outputs(const Rule& r) {
    const Node& node = r.node;
    if (node.op == Op::loop_index) {
        if (node.integer("length") < 1) return r.error("length is {}, expected at least 1", node.integer("length"));
        return Outputs{{Kind::int32, Shape{}}};
    }
    const Node& first = r.graph.producer(node.inputs[0]);
    if (node.op == Op::loop_next) {
        if (first.op != Op::loop_state)
            return r.error("state is the result of {}, expected that of loop_state", info(first).name);
        if (r.kind(0) != r.kind(1) || !(r.shape(0) == r.shape(1)))
            return r.error("the state is {} {} and its next value {} {}; expected that a state keeps its shape and "
                           "kind",
                           kind_name(r.kind(0)), r.text(0), kind_name(r.kind(1)), r.text(1));
        return Outputs{{r.kind(0), r.shape(0)}};
    }
    if (first.op != Op::loop_index)
        return r.error("index is the result of {}, expected that of loop_index", info(first).name);
    if (node.op == Op::loop_state) return Outputs{{r.kind(1), r.shape(1)}};
    const int64_t steps = first.integer("length");
    Shape shape = r.shape(1);
    if (node.op == Op::loop_step) {
        HK_ASSIGN(const int axis, r.axis("axis", shape));
        if (shape[axis] != steps)
            return r.error("axis {} of x {} is not as long as the loop, which has {} steps", node.integer("axis"),
                           r.text(1), steps);
        shape.erase(axis);
        return Outputs{{r.kind(1), shape}};
    }
    if (shape.rank() == kMaxRank) return r.error("y {} has too many dimensions", r.text(1));
    std::vector<int64_t> all = shape.vector();
    const int rank = shape.rank() + 1;
    const int64_t axis = node.integer("axis");
    if (axis < -rank || axis >= rank)
        return r.error("axis {} is outside the result, which has {} dimensions", axis, rank);
    all.insert(all.begin() + from_start(axis, rank), steps);
    HK_TRY(sizes_ok(r, all));
    return Outputs{{r.kind(1), Shape(all)}};
}

} // namespace

const OperationRules loop_index_rules{loop_outputs};
const OperationRules loop_step_rules{loop_outputs};
const OperationRules loop_state_rules{loop_outputs};
const OperationRules loop_next_rules{loop_outputs};
const OperationRules loop_collect_rules{loop_outputs};

Result<Graph> unroll_loops(Graph graph, std::span<std::size_t> counts) {
    for (;;) {
        const Loops loops(graph);
        if (loops.empty()) return graph;
        if (std::ranges::none_of(loops.all(), &Loop::unrolls))
            return invalid_argument(
                fmt::format("{}: this loop and another are each in the other's body; expected one inside the other",
                            graph.describe(loops.all().front().index)));
        HK_ASSIGN(graph, Unrolling(graph, loops).run(counts));
    }
}

} // namespace hekla::graph
