#include "plugin/host/site.hpp"

#include <algorithm>
#include <set>
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

bool is_norm(Op op) { return op == Op::layer_norm || op == Op::rms_norm; }

// Inputs of linear layers, embeddings and norms.
constexpr std::size_t kTable = 0, kWeight = 1, kBias = 2;
std::size_t weight_input(int32_t kind) { return kind == HK_SITE_EMBEDDING ? kTable : kWeight; }

// Returns whether the input of a part's last layer is what attention computed: attention itself, or a product of
// probabilities and values.
bool ends_attention(const graph::Graph& graph, ValueId value) {
    for (;;) {
        const graph::Node& at = graph.producer(value);
        if (at.op == Op::attention) return true;
        if (at.op == Op::matmul) return true;
        if (at.op != Op::reshape && at.op != Op::transpose && at.op != Op::dropout && at.op != Op::cast) return false;
        value = at.inputs[0];
    }
}

ValueId transposed(graph::Builder& builder, ValueId matrix) {
    return builder(Op::transpose, {matrix}, {{"permutation", std::vector<int64_t>{1, 0}}});
}

} // namespace

std::vector<std::string> Site::trained_parameters() const {
    std::vector<std::string> names;
    if ((trained & HK_TRAINS_WEIGHT) != 0) names.push_back(parameter);
    if ((trained & HK_TRAINS_BIAS) != 0) names.push_back(bias);
    return names;
}

bool Site::trains(const std::string& name) const { return std::ranges::count(trained_parameters(), name) > 0; }

const char* site_kind_name(int32_t kind) {
    switch (kind) {
    case HK_SITE_LINEAR: return "linear";
    case HK_SITE_EMBEDDING: return "embedding";
    case HK_SITE_NORM: return "norm";
    case HK_SITE_ATTENTION: return "attention";
    default: return "residual";
    }
}

std::optional<Site> site_of(const graph::Graph& graph, ValueId y, TextPairs ties) {
    const graph::Node& node = graph.producer(y);
    if (node.op != Op::linear && node.op != Op::embedding && !is_norm(node.op)) return {};
    Site site;
    const bool linear = node.op == Op::linear;
    site.kind = linear ? HK_SITE_LINEAR : node.op == Op::embedding ? HK_SITE_EMBEDDING : HK_SITE_NORM;
    const ValueId weight = node.inputs[weight_input(site.kind)];
    const ValueId parameter = parameter_of(graph, weight);
    if (parameter == kNone || graph.shape(weight).rank() != (is_norm(node.op) ? 1 : 2)) return {};
    site.parameter = name_of(graph, parameter);
    site.name = without_weight(site.parameter);
    site.bias = name_of(graph, parameter_of(graph, site_bias(graph, site, y)));
    if (is_norm(node.op)) {
        site.in = site.out = graph.shape(weight)[0];
    } else if (linear) {
        site.input_first = node.integer("input_first") != 0;
        site.in = graph.shape(weight)[site.input_first ? 0 : 1];
        site.out = graph.shape(weight)[site.input_first ? 1 : 0];
        for (const auto& [alias, of] : ties)
            if (of == site.parameter) site.name = without_weight(std::string(alias));
    } else {
        site.in = graph.shape(weight)[0];
        site.out = graph.shape(weight)[1];
    }
    return site;
}

ValueId site_weight(graph::Builder& builder, const Site& site, ValueId y) {
    const ValueId weight = builder.graph().producer(y).inputs[weight_input(site.kind)];
    return site.input_first ? transposed(builder, weight) : weight;
}

ValueId as_parameter(graph::Builder& builder, const Site& site, ValueId y, ValueId weight) {
    std::vector<ValueId> path;
    parameter_of(builder.graph(), builder.graph().producer(y).inputs[weight_input(site.kind)], &path);
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

ValueId site_bias(const graph::Graph& graph, const Site& site, ValueId y) {
    const graph::Node& node = graph.producer(y);
    return site.kind != HK_SITE_EMBEDDING && node.inputs.size() > kBias ? node.inputs[kBias] : kNone;
}

ValueId emit_again(graph::Builder& builder, const graph::Node& node, const std::vector<ValueId>& inputs) {
    std::vector<graph::NamedAttribute> attributes;
    const graph::OperationInfo& known = graph::info(node);
    for (std::size_t i = 0; i < node.attributes.size(); ++i)
        attributes.push_back({known.attributes[i].name, node.attributes[i].value});
    const std::vector<ValueId> made = builder.emit(node.op, inputs, attributes);
    return made.empty() ? kNone : made[0];
}

ValueId layer_with(graph::Builder& builder, const Site& site, ValueId y, ValueId weight, ValueId bias) {
    const graph::Node of = builder.graph().producer(y);
    std::vector<ValueId> inputs = of.inputs;
    inputs[weight_input(site.kind)] = site.input_first ? transposed(builder, weight) : weight;
    if (bias != kNone) inputs[kBias] = bias;
    return emit_again(builder, of, inputs);
}

bool depends_on_parameters_alone(const graph::Graph& graph, ValueId value) {
    std::set<ValueId> seen;
    std::vector<ValueId> next{value};
    while (!next.empty()) {
        const ValueId one = next.back();
        next.pop_back();
        if (one == kNone || !seen.insert(one).second) continue;
        const graph::Node& node = graph.producer(one);
        if (node.op == Op::input || node.op == Op::step_scalar || node.op == Op::positions || is_random(node))
            return false;
        next.insert(next.end(), node.inputs.begin(), node.inputs.end());
    }
    return true;
}

ValueId ResidualFinder::before(ValueId value) const {
    for (auto at = before_.find(value); at != before_.end(); at = before_.find(value)) value = at->second;
    return value;
}

std::optional<ResidualFinder::Found> ResidualFinder::find(const graph::Graph& graph, ValueId sum, TextPairs ties) {
    const graph::Node& node = graph.producer(sum);
    if (node.op != Op::add || graph.shape(sum).rank() != 3) return {};
    // Returns the linear layer that a part ends with.
    const auto last_layer = [&](ValueId value) {
        for (;;) {
            value = before(value);
            const graph::Node& at = graph.producer(value);
            if (at.op == Op::linear) return value;
            if (at.op == Op::mul && parameter_of(graph, at.inputs[0]) != kNone)
                value = at.inputs[1]; // a layer's scale
            else if (at.op == Op::mul &&
                     (parameter_of(graph, at.inputs[1]) != kNone || graph.shape(at.inputs[1]).elements() == 1))
                value = at.inputs[0];
            else if (at.op == Op::dropout || at.op == Op::reshape || at.op == Op::cast || is_norm(at.op))
                value = at.inputs[0];
            else
                return kNone;
        }
    };
    // The way from the stream to a part: whether the stream is used, first by a norm, and the part's attention.
    struct Way {
        bool reaches = false, norm_first = false;
        ValueId attention = kNone;
    };
    const auto way_from = [&](ValueId stream, ValueId to) {
        Way way;
        std::set<ValueId> seen;
        std::vector<ValueId> next{to};
        while (!next.empty()) {
            const ValueId one = next.back();
            next.pop_back();
            if (one == kNone || one <= stream || !seen.insert(one).second) continue;
            const graph::Node& at = graph.producer(one);
            if (at.op == Op::attention) way.attention = one;
            for (const ValueId input : at.inputs) {
                if (input == stream) {
                    way.reaches = true;
                    way.norm_first = way.norm_first || is_norm(at.op);
                }
                next.push_back(input);
            }
        }
        return way;
    };
    for (const auto& [stream, part] : {std::pair(node.inputs[0], node.inputs[1]), {node.inputs[1], node.inputs[0]}}) {
        if (graph.shape(stream) != graph.shape(sum) || graph.shape(part) != graph.shape(sum)) continue;
        const ValueId layer = last_layer(part);
        if (layer == kNone) continue;
        const std::optional<Site> of_layer = site_of(graph, layer, ties);
        if (!of_layer) continue;
        ValueId from = stream;
        Way way = way_from(from, layer);
        if (const auto parallel = streams_.find(stream); !way.reaches && parallel != streams_.end())
            way = way_from(from = parallel->second, layer);
        if (!way.reaches) continue;
        streams_[sum] = from;
        Found found;
        found.site = *of_layer;
        found.site.kind = HK_SITE_RESIDUAL;
        found.site.parameter.clear();
        found.site.bias.clear();
        found.site.in = found.site.out;
        found.site.input_first = false;
        if (ends_attention(graph, graph.producer(layer).inputs[0])) found.site.flags |= HK_SITE_OF_ATTENTION;
        if (way.attention != kNone && (found.site.flags & HK_SITE_OF_ATTENTION) != 0 &&
            !way_from(from, graph.producer(way.attention).inputs[1]).reaches)
            found.site.flags |= HK_SITE_OF_CROSS;
        found.stream = stream;
        found.part = part;
        found.norm_follows = !way.norm_first;
        return found;
    }
    return {};
}

} // namespace hekla::plugin
