#include "graph/passes/simplify.hpp"

#include "graph/rewrite.hpp"

#include <algorithm>
#include <unordered_map>

namespace hekla::graph {
namespace {

bool is_view(Op op) { return op >= Op::reshape && op <= Op::flip && op != Op::concat && op != Op::pad; }

// Returns a key that is equal for nodes with equal results: bytes, unambiguous because the table fixes their order.
std::string key_of(const Node& node) {
    std::string key;
    const auto put = [&](const auto& number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
    put(node.op);
    if (node.own != nullptr) key += node.own->operation->label() + '\n'; // labels are unique in a graph
    std::vector<ValueId> inputs = node.inputs;
    if (node.op == Op::add || node.op == Op::mul) std::ranges::sort(inputs);
    put(inputs.size());
    for (const ValueId input : inputs) put(input);
    for (const Attribute& attribute : node.attributes) {
        if (const auto* integer = std::get_if<int64_t>(&attribute.value)) put(*integer);
        if (const auto* real = std::get_if<double>(&attribute.value)) put(*real);
        const auto list = [&](const auto& values) {
            put(values.size());
            for (const auto& value : values) put(value);
        };
        if (const auto* text = std::get_if<std::string>(&attribute.value)) list(*text);
        if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value)) list(*ints);
        if (const auto* reals = std::get_if<std::vector<double>>(&attribute.value)) list(*reals);
    }
    return key;
}

class Simplifier {
public:
    explicit Simplifier(const SimplifyOptions& options) : options_(options) {}

    // Fills `outputs` with a replacement of the node, emitting as little as possible.
    void put(Builder& b, Node node, std::vector<ValueId>& outputs) {
        if (const ValueId same = identity(b, node); same != kNone) {
            outputs[0] = same;
            return;
        }
        shorten(b, node);
        if (const ValueId same = identity(b, node); same != kNone) {
            outputs[0] = same;
            return;
        }
        const bool shared = is_leaf(node.op) || (node.region == 0 && node.op != Op::attention_cached);
        if (!shared) return copy_node(b, node, outputs);
        const std::string key = key_of(node);
        if (const auto found = seen_.find(key); found != seen_.end()) {
            outputs = found->second;
            return;
        }
        copy_node(b, node, outputs);
        if (b.ok()) seen_.emplace(key, outputs);
    }

private:
    // Returns the number of a fill; nothing for other nodes.
    static std::optional<double> number(const Builder& b, ValueId value) {
        const Node& node = b.graph().producer(value);
        return node.op == Op::fill ? std::optional(node.real("value")) : std::nullopt;
    }

    // Returns an existing value that equals the node's result, or 0.
    ValueId identity(const Builder& b, const Node& node) const {
        if (node.inputs.empty() || node.inputs[0] == kNone) return kNone;
        const ValueId x = node.inputs[0];
        // The other operand of a pointwise operation must change neither the shape nor the kind.
        const auto fits = [&](ValueId value, ValueId other) {
            const std::optional<Shape> both = broadcast_shapes(b.shape(value), b.shape(other));
            return both && *both == b.shape(value) &&
                   (b.kind(value) == b.kind(other) || b.kind(other) != Kind::float32);
        };
        const auto neutral = [&](double element, bool commutes) -> ValueId {
            const ValueId other = node.inputs[1];
            if (number(b, other) == element && fits(x, other)) return x;
            if (commutes && number(b, x) == element && fits(other, x)) return other;
            return kNone;
        };
        switch (node.op) {
        case Op::site: return options_.keep_sites ? kNone : x;
        case Op::tap: return x;
        case Op::for_parameters:
        case Op::with_gradient:
        case Op::stop_gradient: return options_.keep_stop_gradient ? kNone : x;
        case Op::once:
        case Op::state_read:
        case Op::state_write: return options_.keep_modes ? kNone : x;
        case Op::dropout: return node.real("probability") == 0.0 ? x : kNone;
        case Op::cast: {
            const auto to = static_cast<Kind>(node.integer("kind"));
            if (b.kind(x) == to) return x;
            // A cast to a wider kind and back.
            const Node& before = b.graph().producer(x);
            if (before.op == Op::cast && b.kind(x) == Kind::float32 && b.kind(before.inputs[0]) == to &&
                to == Kind::float_)
                return before.inputs[0];
            return kNone;
        }
        case Op::add: return neutral(0.0, true);
        case Op::sub: return neutral(0.0, false);
        case Op::mul: return neutral(1.0, true);
        case Op::div: return neutral(1.0, false);
        case Op::pow: return neutral(1.0, false);
        case Op::neg: {
            const Node& before = b.graph().producer(x);
            return before.op == Op::neg ? before.inputs[0] : kNone;
        }
        case Op::flip: {
            const Node& before = b.graph().producer(x);
            const int rank = b.shape(x).rank();
            const auto axis = [&](const Node& n) { return from_start(n.integer("axis"), rank); };
            return before.op == Op::flip && axis(before) == axis(node) ? before.inputs[0] : kNone;
        }
        case Op::concat: return node.inputs.size() == 1 ? x : kNone;
        case Op::pad: return node.integer("before") == 0 && node.integer("after") == 0 ? x : kNone;
        case Op::sum:
        case Op::mean:
        case Op::max: return node.ints("axes").empty() ? x : kNone;
        case Op::transpose: return std::ranges::is_sorted(node.ints("permutation")) ? x : kNone;
        case Op::reshape:
        case Op::broadcast: return b.shape(x) == Shape(node.ints("shape")) ? x : kNone;
        case Op::slice: return node.integer("length") == b.shape(x)[static_cast<int>(node.integer("axis"))] ? x : kNone;
        default: return kNone;
        }
    }

    // Replaces the node by one that computes the same from earlier values, or by a fill.
    static void shorten(const Builder& b, Node& node) {
        if (is_view(node.op)) {
            view_of_fill(b, node);
            if (node.op == Op::reshape) shorten_reshape(b, node);
            if (node.op == Op::transpose) shorten_transpose(b, node);
        } else if (is_pointwise(node.op) && node.inputs.size() > 1) {
            use_own_broadcast(b, node);
            if (node.op == Op::add) join_slices(b, node);
        }
    }

    // The gradient of a value that is read in slices, like queries, keys and values from one linear: a sum of slices
    // padded with zeros becomes a concatenation.
    static void join_slices(const Builder& b, Node& node) {
        struct Part {
            int64_t start;
            ValueId value;
        };
        std::vector<Part> parts;
        int64_t axis = 0, length = 0, covered = 0;
        Shape shape;
        std::vector<ValueId> open(node.inputs.rbegin(), node.inputs.rend());
        const Kind kind = b.kind(node.inputs[0]);
        constexpr std::size_t kMaxParts = 64; // more parts do not occur in a model's gradient
        while (!open.empty()) {
            const ValueId value = open.back();
            open.pop_back();
            const Node& made = b.graph().producer(value);
            if (made.op == Op::add && open.size() + parts.size() < kMaxParts) {
                open.insert(open.end(), made.inputs.rbegin(), made.inputs.rend());
                continue;
            }
            if (made.op != Op::unslice || made.integer("stride") != 1 || b.kind(made.inputs[0]) != kind) return;
            const int64_t at = from_start(made.integer("axis"), b.shape(value).rank());
            if (parts.empty()) {
                axis = at;
                length = made.integer("length");
                shape = b.shape(value);
            } else if (at != axis || !(b.shape(value) == shape)) {
                return;
            }
            parts.push_back({made.integer("start"), made.inputs[0]});
        }
        std::ranges::sort(parts, {}, &Part::start);
        for (const Part& part : parts) {
            if (part.start != covered) return;
            covered += b.shape(part.value)[static_cast<int>(axis)];
        }
        if (covered != length) return;
        Node concat;
        concat.op = Op::concat;
        for (const Part& part : parts) concat.inputs.push_back(part.value);
        concat.attributes.push_back({info(Op::concat).attributes[0].name, AttributeValue(axis)});
        concat.scope = node.scope;
        concat.region = node.region;
        node = std::move(concat);
    }

    static Shape output_shape(const Builder& b, const Node& node) {
        Result<std::vector<std::pair<Kind, Shape>>> inferred = infer_outputs(b.graph(), node);
        return inferred.ok() ? inferred.value()[0].second : Shape{};
    }

    static void view_of_fill(const Builder& b, Node& node) {
        if (!number(b, node.inputs[0])) return;
        Node fill = b.graph().producer(node.inputs[0]);
        fill.set("shape", output_shape(b, node).vector());
        fill.outputs.clear();
        fill.scope = node.scope;
        fill.region = node.region;
        node = std::move(fill);
    }

    static void shorten_reshape(const Builder& b, Node& node) {
        node.set("shape", output_shape(b, node).vector()); // without -1
        const Node* before = &b.graph().producer(node.inputs[0]);
        while (before->op == Op::reshape) {
            node.inputs[0] = before->inputs[0];
            before = &b.graph().producer(node.inputs[0]);
        }
    }

    static void shorten_transpose(const Builder& b, Node& node) {
        const Node* before = &b.graph().producer(node.inputs[0]);
        while (before->op == Op::transpose) {
            std::vector<int64_t> permutation = node.ints("permutation");
            for (int64_t& from : permutation) from = before->ints("permutation")[static_cast<std::size_t>(from)];
            node.set("permutation", std::move(permutation));
            node.inputs[0] = before->inputs[0];
            before = &b.graph().producer(node.inputs[0]);
        }
    }

    // Pointwise operations broadcast, so an operand need not be repeated before one if the result's shape is the same.
    static void use_own_broadcast(const Builder& b, Node& node) {
        const Shape result = output_shape(b, node);
        for (ValueId& input : node.inputs) {
            const ValueId given = input;
            const Node& before = b.graph().producer(input);
            if (before.op != Op::broadcast) continue;
            input = before.inputs[0];
            if (!(output_shape(b, node) == result)) input = given;
        }
    }

    SimplifyOptions options_;
    std::unordered_map<std::string, std::vector<ValueId>> seen_;
};

} // namespace

Result<Graph> simplify(const Graph& graph, const SimplifyOptions& options) {
    Simplifier simplifier(options);
    HK_ASSIGN(const Graph needed, prune(graph));
    const Replace replace = [&](Builder& b, const Node& node, NodeId, std::vector<ValueId>& outputs) {
        simplifier.put(b, node, outputs);
        return true;
    };
    return rewrite(needed, replace, true);
}

} // namespace hekla::graph
