#include "plugin/instances/update_graph.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace hekla::plugin {
namespace {

using graph::Op;

// A state's declaration and its next value, as nodes of the described graph.
struct Declared {
    UpdateState state;
    graph::ValueId next = graph::kNone;
};

bool is_state_name(const std::string& name) {
    constexpr std::size_t kLongest = 64;
    return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
}

// Refuses leaves that are not values of the update.
Status check_leaf(const graph::Node& node, const std::string& what) {
    if (graph::is_random(node))
        return unsupported(fmt::format("{}: it uses {}: an update must be the same for the same values", what,
                                       graph::info(node).name));
    switch (node.op) {
    case Op::parameter:
        return invalid_argument(fmt::format("{}: it reads the parameter '{}': an update sees the values of its own "
                                            "parameter alone, which are given to build()",
                                            what, node.text("name")));
    case Op::buffer:
    case Op::step_scalar:
        return invalid_argument(fmt::format("{}: it reads the {} '{}': an update is computed from its parameter, "
                                            "gradient, learning rate, step and states alone",
                                            what, graph::info(node).name, node.text("name")));
    default: return {};
    }
}

// Collects the states in the order of their declaration.
class States {
public:
    States(const graph::Graph& described, const std::string& what) : graph_(described), what_(what) {}

    Status read(const graph::Node& node) {
        const std::string& name = node.text("name");
        if (!is_state_name(name) || name == "state")
            return invalid_argument(fmt::format("{}: a state is named '{}'; expected 1 to 64 letters, digits and _, "
                                                "and not 'state', which is the host's",
                                                what_, name));
        if (find(name) != nullptr)
            return invalid_argument(fmt::format("{}: the state '{}' is declared twice; keep the value of the first "
                                                "state_read()",
                                                what_, name));
        const graph::ValueId initial = node.inputs[0];
        const graph::Node& from = graph_.producer(initial);
        if (from.op != Op::fill || !std::isfinite(from.real("value")))
            return invalid_argument(fmt::format("{}: the initial value of the state '{}' is the result of {}; "
                                                "expected a fill with a finite number",
                                                what_, name, graph::info(from).name));
        all_.push_back({{name, graph_.shape(initial), from.real("value")}});
        return {};
    }

    Status write(const graph::Node& node) {
        const std::string& name = node.text("name");
        Declared* declared = find(name);
        if (declared == nullptr)
            return invalid_argument(fmt::format("{}: the state '{}' is written and was not declared before: call "
                                                "state_read() with its initial value first",
                                                what_, name));
        if (declared->next != graph::kNone)
            return invalid_argument(fmt::format("{}: the state '{}' is written twice", what_, name));
        declared->next = node.outputs[0];
        const graph::Shape& shape = graph_.shape(declared->next);
        if (shape != declared->state.shape)
            return invalid_argument(fmt::format("{}: the state '{}' is declared with the shape {}, and {} is written "
                                                "to it",
                                                what_, name, declared->state.shape.text(), shape.text()));
        return {};
    }

    Status check_written() const {
        for (const Declared& one : all_)
            if (one.next == graph::kNone)
                return invalid_argument(fmt::format("{}: the state '{}' is never written: call state_write() with its "
                                                    "next value, or use a number",
                                                    what_, one.state.name));
        return {};
    }

    const std::vector<Declared>& all() const { return all_; }

private:
    Declared* find(const std::string& name) {
        const auto found = std::ranges::find_if(all_, [&](const Declared& one) { return one.state.name == name; });
        return found != all_.end() ? &*found : nullptr;
    }
    const graph::Graph& graph_;
    const std::string& what_;
    std::vector<Declared> all_;
};

} // namespace

Result<UpdateGraph> update_of(const graph::Graph& described, const std::string& what) {
    States states(described, what);
    for (const graph::Node& node : described.nodes) {
        HK_TRY(check_leaf(node, what));
        if (node.op == Op::state_read) HK_TRY(states.read(node));
        if (node.op == Op::state_write) HK_TRY(states.write(node));
    }
    HK_TRY(states.check_written());
    graph::Graph marked = described;
    for (const Declared& one : states.all()) marked.outputs[kUpdateState + one.state.name] = one.next;
    const auto replace = [&](graph::Builder& builder, const graph::Node& node, graph::NodeId,
                             std::vector<graph::ValueId>& outputs) {
        if (node.op == Op::state_write) {
            outputs = {node.inputs[0]};
            return true;
        }
        if (node.op != Op::state_read) return false;
        outputs = {builder.input(kUpdateState + node.text("name"), graph::Kind::float_, builder.shape(node.inputs[0]))};
        return true;
    };
    UpdateGraph update;
    HK_ASSIGN(update.graph, graph::rewrite(marked, replace, true));
    for (const Declared& one : states.all()) update.states.push_back(one.state);
    return update;
}

} // namespace hekla::plugin
