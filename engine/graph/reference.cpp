#include "graph/reference.hpp"

#include "graph/operations/rules.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::graph {

namespace {

// Returns whether the output has exactly the elements of the first input.
bool hands_on(const Node& node, Kind from, Kind to) {
    return node.op == Op::cast ? is_float(from) == is_float(to) : rules_of(node.op).reference == run_same;
}

// A value while it is needed: its own tensor, or one of the feeds.
struct Slot {
    Tensor own;
    const Tensor* tensor = nullptr;
    int readers = 0; // nodes that have not read it yet, and its occurrences in `wanted`
};

class Evaluation {
public:
    Evaluation(const Graph& graph, const Feeds& feeds, std::map<std::string, Tensor>* caches,
               const std::function<void(NodeId, std::span<const Tensor>)>* visit)
        : graph_(graph), feeds_(feeds), caches_(caches), visit_(visit), slots_(graph.values.size()) {}

    void round(const std::vector<bool>& chosen, const std::function<double(double)>& to) {
        rounded_ = &chosen;
        round_ = &to;
    }
    Result<std::vector<Tensor>> run_all(std::span<const ValueId> wanted);

private:
    Status prepare(std::span<const ValueId> wanted);
    Status run_node(NodeId id);
    // Returns the feeds that have the value of a leaf; null if the reference computes it.
    const std::map<std::string, Tensor, std::less<>>* feeds_of(const Node& node) const;
    Status feed(const Node& node, const std::map<std::string, Tensor, std::less<>>& feeds);
    void round(ValueId id);
    void release(ValueId id);
    Tensor& make(ValueId id); // filled with zeros

    const Graph& graph_;
    const Feeds& feeds_;
    std::map<std::string, Tensor>* caches_;
    const std::function<void(NodeId, std::span<const Tensor>)>* visit_;
    const std::vector<bool>* rounded_ = nullptr; // by value
    const std::function<double(double)>* round_ = nullptr;
    std::vector<Slot> slots_;
    std::vector<bool> needed_;
};

Status Evaluation::prepare(std::span<const ValueId> wanted) {
    needed_.assign(graph_.nodes.size(), false);
    const auto need = [&](ValueId id) {
        ++slots_[id].readers;
        needed_[graph_.value(id).node] = true;
    };
    for (const ValueId id : wanted) {
        if (id == kNone || id >= graph_.values.size())
            return invalid_argument(
                fmt::format("value {} is wanted, but the graph has values 1 to {}", id, graph_.values.size() - 1));
        need(id);
    }
    for (std::size_t id = graph_.nodes.size(); id-- > 0;)
        if (needed_[id])
            for (const ValueId input : graph_.nodes[id].inputs)
                if (input != kNone) need(input);
    return {};
}

Tensor& Evaluation::make(ValueId id) {
    Slot& slot = slots_[id];
    slot.own.kind = graph_.kind(id);
    slot.own.shape = graph_.shape(id);
    slot.own.data.assign(at(slot.own.shape.elements()), 0.0);
    slot.tensor = &slot.own;
    return slot.own;
}

void Evaluation::round(ValueId id) {
    if (!(*rounded_)[id] || !is_float(graph_.kind(id))) return;
    Slot& slot = slots_[id];
    if (slot.tensor != &slot.own) slot.own = *slot.tensor; // of the feeds
    slot.tensor = &slot.own;
    for (double& value : slot.own.data) value = (*round_)(value);
}

void Evaluation::release(ValueId id) {
    Slot& slot = slots_[id];
    if (slot.readers > 0) return;
    slot.own = Tensor{};
    slot.tensor = nullptr;
}

const std::map<std::string, Tensor, std::less<>>* Evaluation::feeds_of(const Node& node) const {
    switch (node.op) {
    case Op::input: return &feeds_.fields;
    case Op::parameter: return &feeds_.parameters;
    case Op::buffer: {
        const bool described = node.reals("value").size() == at(graph_.shape(node.outputs[0]).elements());
        return described && !feeds_.buffers.contains(node.text("name")) ? nullptr : &feeds_.buffers;
    }
    default: return nullptr;
    }
}

Status Evaluation::feed(const Node& node, const std::map<std::string, Tensor, std::less<>>& feeds) {
    const ValueId id = node.outputs[0];
    const std::string& name = node.text(leaf_name_attribute(node.op));
    const auto found = feeds.find(name);
    if (found == feeds.end())
        return not_found(fmt::format("{} '{}' {} {} is not given", info(node.op).name, name, kind_name(graph_.kind(id)),
                                     graph_.shape(id).text()));
    const Tensor& tensor = found->second;
    if (is_float(tensor.kind) != is_float(graph_.kind(id)) || !(tensor.shape == graph_.shape(id)) ||
        tensor.data.size() != at(tensor.shape.elements()))
        return invalid_argument(fmt::format("{} '{}' is given as {} {} with {} elements, expected {} {}",
                                            info(node.op).name, name, kind_name(tensor.kind), tensor.shape.text(),
                                            tensor.data.size(), kind_name(graph_.kind(id)), graph_.shape(id).text()));
    slots_[id].tensor = &tensor;
    return {};
}

Status Evaluation::run_node(NodeId id) {
    const Node& node = graph_.nodes[id];
    for (const ValueId input : node.inputs)
        if (input != kNone) --slots_[input].readers;
    if (const auto* feeds = feeds_of(node)) {
        HK_TRY(feed(node, *feeds));
    } else if (Slot& first = node.inputs.empty() ? slots_[kNone] : slots_[node.inputs[0]];
               first.tensor == &first.own && first.readers == 0 &&
               hands_on(node, graph_.kind(node.inputs[0]), graph_.kind(node.outputs[0]))) {
        Slot& to = slots_[node.outputs[0]];
        to.own = {graph_.kind(node.outputs[0]), graph_.shape(node.outputs[0]), std::move(first.own.data)};
        to.tensor = &to.own;
    } else {
        std::vector<const Tensor*> inputs;
        std::vector<Tensor> outputs;
        for (const ValueId input : node.inputs) inputs.push_back(input == kNone ? nullptr : slots_[input].tensor);
        for (const ValueId output : node.outputs) outputs.push_back(std::move(make(output)));
        const auto run = rules_of(node.op).reference;
        if (run == nullptr) return internal_error(fmt::format("the interpreter has no {}", info(node.op).name));
        HK_TRY(run({graph_, node, inputs, outputs, feeds_, caches_}));
        for (std::size_t i = 0; i < outputs.size(); ++i) slots_[node.outputs[i]].own = std::move(outputs[i]);
    }
    if (rounded_ != nullptr)
        for (const ValueId output : node.outputs) round(output);
    if (visit_ != nullptr && *visit_) {
        std::vector<Tensor> outputs;
        for (const ValueId output : node.outputs) outputs.push_back(*slots_[output].tensor);
        (*visit_)(id, outputs);
    }
    for (const ValueId input : node.inputs)
        if (input != kNone) release(input);
    for (const ValueId output : node.outputs) release(output);
    return {};
}

Result<std::vector<Tensor>> Evaluation::run_all(std::span<const ValueId> wanted) {
    HK_TRY(prepare(wanted));
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        if (!needed_[id]) continue;
        Status status = run_node(id);
        if (!status.ok()) return status.with_context(graph_.describe(id));
    }
    std::vector<Tensor> result;
    for (const ValueId id : wanted) {
        Slot& slot = slots_[id];
        if (--slot.readers == 0 && slot.tensor == &slot.own)
            result.push_back(std::move(slot.own));
        else
            result.push_back(*slot.tensor);
    }
    return result;
}

} // namespace

Result<std::vector<Tensor>> evaluate(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                     std::map<std::string, Tensor>* caches) {
    return Evaluation(graph, feeds, caches, nullptr).run_all(wanted);
}

Result<std::vector<Tensor>> evaluate_visiting(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                              const std::function<void(NodeId, std::span<const Tensor>)>& visit) {
    return Evaluation(graph, feeds, nullptr, &visit).run_all(wanted);
}

Result<std::vector<Tensor>> evaluate_rounded(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                             const std::vector<bool>& chosen,
                                             const std::function<double(double)>& round) {
    Evaluation evaluation(graph, feeds, nullptr, nullptr);
    evaluation.round(chosen, round);
    return evaluation.run_all(wanted);
}

} // namespace hekla::graph
