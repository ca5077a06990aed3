#include "graph/passes/decode_mode.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string>

namespace hekla::graph {
namespace {

constexpr std::size_t kDistanceBias = 4, kQueryPosition = 15, kKeyPosition = 16, kSinks = 18;

// Layers that attend to the keys and values of an earlier one share its cache: each writes the same to the same place.
bool same_keys(const Node& a, const Node& b) { return a.inputs[1] == b.inputs[1] && a.inputs[2] == b.inputs[2]; }

// Explicit positions are accepted if they are the default ones, the index, which the cache keeps track of.
bool is_positions(const Graph& graph, ValueId value) {
    return value == kNone || graph.producer(value).op == Op::positions;
}

// Returns which options of this attention a cache does not support, for the message.
std::string not_cacheable(const Graph& graph, const Node& node) {
    std::vector<std::string> reasons;
    for (std::size_t i = 3; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNone || i == kDistanceBias || i == kSinks) continue;
        if ((i == kQueryPosition || i == kKeyPosition) && is_positions(graph, node.inputs[i])) continue;
        reasons.emplace_back(info(node).inputs[i].name);
    }
    if (node.integer("window_after") > 0 && node.integer("causal") == 0) reasons.emplace_back("window_after");
    if (graph.shape(node.inputs[1])[2] != graph.shape(node.inputs[0])[2])
        reasons.push_back(
            fmt::format("{} keys for {} queries", graph.shape(node.inputs[1])[2], graph.shape(node.inputs[0])[2]));
    return fmt::format("{}", fmt::join(reasons, ", "));
}

// The fields of decode mode; positions and every cached attention share them.
class DecodeFields {
public:
    DecodeFields(const Graph& described, int64_t capacity) : capacity_(capacity) {
        for (const Node& node : described.nodes)
            if (node.op == Op::attention && !node.text("cache").empty()) {
                batch_ = described.shape(node.inputs[0])[0];
                return;
            }
    }

    ValueId start(Builder& b, int64_t batch) { return field(b, "decode.start", batch, Shape{batch}); }
    ValueId count(Builder& b, int64_t batch) { return field(b, "decode.count", batch, Shape{batch}); }
    ValueId cache_row(Builder& b, int64_t batch) {
        return field(b, "decode.cache_row", batch, Shape{batch, capacity_});
    }
    // Returns start[b] + 0, 1, ... as [B, T]. Positions from count[b] on repeat the last valid one, because a position
    // table may end there.
    ValueId positions(Builder& b, int64_t batch, int64_t length) {
        const std::vector<int64_t> column{batch, 1};
        const ValueId first = b(Op::reshape, {start(b, batch)}, {{"shape", column}});
        if (length == 1) return first;
        const ValueId taken = b(Op::reshape, {count(b, batch)}, {{"shape", column}});
        const ValueId last =
            b(Op::maximum, {b(Op::sub, {taken, b.fill(Kind::int32, Shape{}, 1)}), b.fill(Kind::int32, Shape{}, 0)});
        return b(Op::add, {first, b(Op::minimum, {b.iota(length), last})});
    }

private:
    ValueId field(Builder& b, const std::string& name, int64_t batch, const Shape& shape) {
        if (batch_ < 0) batch_ = batch;
        if (batch != batch_) {
            b.fail(unsupported(
                fmt::format("decode mode needs one batch size: here it is {}, elsewhere {}", batch, batch_)));
            return kNone;
        }
        return b.input(name, Kind::int32, shape);
    }

    int64_t capacity_;
    int64_t batch_ = -1;
};

// reasons: from not_cacheable() on the node as described, before positions are replaced.
void cached_attention(Builder& b, const Node& node, const std::string& reasons, DecodeFields& fields, int64_t capacity,
                      std::vector<ValueId>& outputs) {
    if (!reasons.empty())
        return b.fail(unsupported(fmt::format(
            "attention with cache '{}' has options that cannot be cached: {}; leave them out in decode mode (rows of "
            "different lengths need no padding there), or leave out the cache",
            node.text("cache"), reasons)));
    const int64_t batch = b.shape(node.inputs[0])[0];
    const ValueId inputs[] = {node.inputs[0],
                              node.inputs[1],
                              node.inputs[2],
                              fields.start(b, batch),
                              fields.count(b, batch),
                              fields.cache_row(b, batch),
                              node.inputs[kDistanceBias],
                              node.inputs[kSinks]};
    const NamedAttribute attributes[] = {{"scale", node.real("scale")},
                                         {"causal", node.integer("causal")},
                                         {"window", node.integer("window")},
                                         {"distance_first", node.integer("distance_first")},
                                         {"distance_table", node.ints("distance_table")},
                                         {"capacity", capacity},
                                         {"cache", node.text("cache")},
                                         {"softcap", node.real("softcap")}};
    const std::vector<ValueId> y = b.emit(Op::attention_cached, inputs, attributes);
    outputs[0] = y.empty() ? kNone : y[0]; // no log-sum-exp: nothing is differentiated here
}

// Refuses graphs whose result would change in decode mode, in which a graph sees one chunk of each row and the past
// only through caches and states. decoding: the graph made from `described`, without unused nodes.
Status check_memory(const Graph& described, const Graph& decoding) {
    for (NodeId id = 0; id < decoding.nodes.size(); ++id)
        if (decoding.nodes[id].op == Op::attention && decoding.nodes[id].integer("causal") != 0)
            return invalid_argument(fmt::format(
                "{}: causal attention without a cache sees only the tokens of the current chunk in decode mode: give "
                "it the attribute cache, a name that no other attention of the model has, for example \"layer.0\"",
                decoding.describe(id)));
    std::map<std::string, ValueId, std::less<>> read; // initial values by name
    std::set<std::string, std::less<>> written;
    for (const Node& node : described.nodes) {
        if (node.op == Op::state_read) read[node.text("name")] = node.inputs[0];
        if (node.op == Op::state_write) written.insert(node.text("name"));
    }
    for (NodeId id = 0; id < described.nodes.size(); ++id) {
        const Node& node = described.nodes[id];
        if (node.op != Op::state_read && node.op != Op::state_write) continue;
        const std::string& name = node.text("name");
        if (node.op == Op::state_write && !read.contains(name))
            return invalid_argument(fmt::format("{}: the state '{}' is written and never read: add state_read('{}')",
                                                described.describe(id), name, name));
        if (node.op == Op::state_read && !written.contains(name) &&
            decoding.find_leaf(Op::input, "state." + name) != kNone)
            return invalid_argument(fmt::format("{}: the state '{}' is read and never written, so that every token "
                                                "starts from its first value: add state_write('{}') with the new value",
                                                described.describe(id), name, name));
        if (node.op != Op::state_write) continue;
        const Shape &initial = described.shape(read.find(name)->second), &next = described.shape(node.inputs[0]);
        if (initial != next)
            return invalid_argument(fmt::format("{}: the state '{}' is read as {} and written as {}: a state keeps the "
                                                "shape of its initial value",
                                                described.describe(id), name, initial.text(), next.text()));
    }
    return {};
}

// Returns the graph without outputs, losses and metrics.
Graph bare(Graph graph) {
    graph.outputs.clear();
    graph.losses.clear();
    graph.metrics.clear();
    return graph;
}

} // namespace

Result<Graph> decode_graph(const Graph& described, int64_t capacity) {
    DecodeFields fields(described, capacity);
    std::map<std::string, NodeId, std::less<>> caches;
    const Replace replace = [&](Builder& b, const Node& node, NodeId id, std::vector<ValueId>& outputs) {
        switch (node.op) {
        case Op::attention:
            if (node.text("cache").empty()) return false;
            if (const auto [first, fresh] = caches.emplace(node.text("cache"), id);
                !fresh && !same_keys(described.nodes[first->second], described.nodes[id]))
                b.fail(invalid_argument(fmt::format(
                    "two attentions have the cache '{}', but not the same keys and values", node.text("cache"))));
            else
                cached_attention(b, node, not_cacheable(described, described.nodes[id]), fields, capacity, outputs);
            return true;
        case Op::positions:
            outputs[0] = fields.positions(b, node.integer("batch"), node.integer("length"));
            return true;
        case Op::rotary: {
            if (node.inputs[3] != kNone) return false;
            const Shape& x = b.shape(node.inputs[0]);
            const int64_t batch = x[0], length = x[2];
            outputs[0] =
                b(Op::rotary, {node.inputs[0], node.inputs[1], node.inputs[2], fields.positions(b, batch, length)},
                  {{"interleaved", node.integer("interleaved")}, {"inverse", node.integer("inverse")}});
            return true;
        }
        case Op::once:
            outputs[0] = b.input("once." + node.text("name"), b.kind(node.inputs[0]), b.shape(node.inputs[0]));
            return true;
        case Op::state_read:
            outputs[0] = b.input("state." + node.text("name"), b.kind(node.inputs[0]), b.shape(node.inputs[0]));
            return true;
        case Op::state_write: {
            const std::string name = "state." + node.text("name");
            if (b.graph().outputs.contains(name))
                b.fail(invalid_argument(fmt::format("state '{}' is written twice", node.text("name"))));
            b.output(name, node.inputs[0]);
            outputs[0] = node.inputs[0];
            return true;
        }
        case Op::dropout: outputs[0] = node.inputs[0]; return true; // active in training only
        default: return false;
        }
    };
    HK_ASSIGN(Graph decoding, rewrite(described, replace, true));
    HK_TRY(check_memory(described, decoding));
    return decoding;
}

Result<Graph> encoding_part(const Graph& described) {
    Graph part = bare(described);
    for (const Node& node : described.nodes)
        if (node.op == Op::once || node.op == Op::state_read)
            part.outputs[fmt::format("kept.{}", part.outputs.size())] = node.outputs[0];
    HK_ASSIGN(part, prune(part));
    part.outputs.clear();
    std::size_t scopes = 1; // scopes of a decoder's steps come after this one
    for (const Node& node : part.nodes) scopes = std::max<std::size_t>(scopes, node.scope + 1);
    part.scopes.resize(scopes);
    return part;
}

Result<Graph> encode_graph(const Graph& described) {
    const Replace replace = [](Builder& b, const Node& node, NodeId, std::vector<ValueId>& outputs) {
        const bool read = node.op == Op::state_read;
        switch (node.op) {
        case Op::once:
        case Op::state_read: {
            const std::string name = (read ? "state." : "once.") + node.text("name");
            if (b.graph().outputs.contains(name))
                b.fail(invalid_argument(
                    fmt::format("the name '{}' of a {} is used twice", node.text("name"), info(node.op).name)));
            b.output(name, node.inputs[0]);
            outputs[0] = node.inputs[0];
            return true;
        }
        case Op::state_write:
        case Op::dropout: outputs[0] = node.inputs[0]; return true;
        default: return false;
        }
    };
    return rewrite(bare(described), replace, true);
}

} // namespace hekla::graph
