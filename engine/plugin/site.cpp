#include "plugin/site.hpp"

#include <vector>

namespace hekla::plugin {
namespace {

using graph::kNone;
using graph::Op;
using graph::ValueId;

// Returns the parameter that a value is a view of, or kNone. path: the views, the last one first.
ValueId parameter_of(const graph::Graph& graph, ValueId value, std::vector<ValueId>* path = nullptr) {
    while (value != kNone) {
        const graph::Node& node = graph.producer(value);
        if (node.op == Op::parameter) return value;
        if (node.op != Op::reshape && node.op != Op::transpose) return kNone;
        if (path != nullptr) path->push_back(value);
        value = node.inputs[0];
    }
    return kNone;
}

std::string name_of(const graph::Graph& graph, ValueId parameter) {
    return parameter != kNone ? graph.producer(parameter).text("name") : std::string();
}

std::string without_weight(std::string name) {
    constexpr std::string_view kWeight = ".weight";
    if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
    return name;
}

constexpr std::size_t kWeight = 1, kTable = 0, kBias = 2; // inputs of linear and embedding

ValueId transposed(graph::Builder& builder, ValueId matrix) {
    return builder(Op::transpose, {matrix}, {{"permutation", std::vector<int64_t>{1, 0}}});
}

} // namespace

std::optional<Site> site_of(const graph::Graph& graph, ValueId y, TextPairs ties) {
    const graph::Node& node = graph.producer(y);
    if (node.op != Op::linear && node.op != Op::embedding) return {};
    Site site;
    const bool linear = node.op == Op::linear;
    site.kind = linear ? HK_SITE_LINEAR : HK_SITE_EMBEDDING;
    const ValueId weight = node.inputs[linear ? kWeight : kTable];
    const ValueId parameter = parameter_of(graph, weight);
    if (parameter == kNone || graph.shape(weight).rank() != 2) return {};
    site.parameter = name_of(graph, parameter);
    site.name = without_weight(site.parameter);
    if (linear) {
        site.input_first = node.integer("input_first") != 0;
        site.in = graph.shape(weight)[site.input_first ? 0 : 1];
        site.out = graph.shape(weight)[site.input_first ? 1 : 0];
        if (node.inputs[kBias] != kNone) site.bias = name_of(graph, parameter_of(graph, node.inputs[kBias]));
        for (const auto& [alias, of] : ties)
            if (of == site.parameter) site.name = without_weight(std::string(alias));
    } else {
        site.in = graph.shape(weight)[0];
        site.out = graph.shape(weight)[1];
    }
    return site;
}

ValueId site_weight(graph::Builder& builder, const Site& site, ValueId y) {
    const ValueId weight = builder.graph().producer(y).inputs[site.kind == HK_SITE_LINEAR ? kWeight : kTable];
    return site.input_first ? transposed(builder, weight) : weight;
}

ValueId as_parameter(graph::Builder& builder, const Site& site, ValueId y, ValueId weight) {
    std::vector<ValueId> path;
    parameter_of(builder.graph(), builder.graph().producer(y).inputs[site.kind == HK_SITE_LINEAR ? kWeight : kTable],
                 &path);
    if (site.input_first) weight = transposed(builder, weight);
    for (const ValueId view : path) {
        const graph::Node of = builder.graph().producer(view);
        if (of.op == Op::reshape) {
            weight = builder(Op::reshape, {weight}, {{"shape", builder.shape(of.inputs[0]).vector()}});
            continue;
        }
        const std::vector<int64_t>& order = of.ints("permutation");
        std::vector<int64_t> inverse(order.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            inverse[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(i);
        weight = builder(Op::transpose, {weight}, {{"permutation", inverse}});
    }
    return weight;
}

} // namespace hekla::plugin
