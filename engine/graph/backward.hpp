// What the rules of reverse mode share: gradients that came in from above, gradients that go out below. Internal to the
// room; the one entry is differentiate().
#pragma once

#include "graph/builder.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::graph {

class Backward {
public:
    // Marks what depends on a parameter that is not frozen.
    Backward(Graph graph, const std::set<std::string, std::less<>>& frozen);

    // The node that is being differentiated, and its place.
    void enter(NodeId id);
    const Node& node() const { return node_; }
    ValueId x(std::size_t input = 0) const { return input < node_.inputs.size() ? node_.inputs[input] : kNone; }
    ValueId y(std::size_t output = 0) const { return node_.outputs[output]; }
    // The gradient of an output in its own shape; 0 if nothing read it on the way to a loss.
    ValueId dy(std::size_t output = 0) const { return gradients_[node_.outputs[output]]; }
    bool any_dy() const;

    // Whether a gradient of this input is of use: it is there, floating and depends on a parameter.
    bool wants(std::size_t input) const { return x(input) != kNone && active_[x(input)]; }
    // Adds to the gradient of an input. Broadcasting is undone, the kind is made the input's.
    void give(std::size_t input, ValueId gradient);
    void give_value(ValueId value, ValueId gradient);
    ValueId gradient(ValueId value) const { return gradients_[value]; }
    bool active(ValueId value) const { return active_[value]; }

    // Short names for what rules are written in.
    ValueId number(ValueId like, double value); // a scalar of the kind of `like`
    ValueId add(ValueId a, ValueId b) { return b_(Op::add, {a, b}); }
    ValueId sub(ValueId a, ValueId b) { return b_(Op::sub, {a, b}); }
    ValueId mul(ValueId a, ValueId b) { return b_(Op::mul, {a, b}); }
    ValueId div(ValueId a, ValueId b) { return b_(Op::div, {a, b}); }
    ValueId neg(ValueId a) { return b_(Op::neg, {a}); }
    ValueId scale(ValueId a, double factor) { return mul(a, number(a, factor)); }
    ValueId shift(ValueId a, double term) { return add(a, number(a, term)); }
    ValueId one_minus(ValueId a) { return sub(number(a, 1.0), a); }
    ValueId compare(ValueId a, Relation relation, ValueId b) {
        return b_(Op::compare, {a, b}, {{"relation", static_cast<int64_t>(relation)}});
    }
    ValueId compare(ValueId a, Relation relation, double b) { return compare(a, relation, number(a, b)); }
    ValueId where(ValueId condition, ValueId a, ValueId b) { return b_(Op::where, {condition, a, b}); }
    ValueId sum(ValueId a, std::vector<int64_t> axes, bool keep);
    ValueId reshape(ValueId a, const Shape& shape); // a itself where the shape is that already
    ValueId broadcast(ValueId a, const Shape& shape);
    ValueId cast(ValueId a, Kind kind);
    ValueId reduce_to(ValueId a, const Shape& shape); // sums over what broadcasting to a's shape repeated
    ValueId matmul(ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
        return b_(Op::matmul, {a, b}, {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
    }
    ValueId slice(ValueId a, int64_t axis, int64_t start, int64_t length, int64_t stride = 1) {
        return b_(Op::slice, {a}, {{"axis", axis}, {"start", start}, {"length", length}, {"stride", stride}});
    }

    Shape shape(ValueId value) const { return b_.shape(value); } // a copy: the builder's values move as it grows
    Kind kind(ValueId value) const { return b_.kind(value); }
    Builder& builder() { return b_; }

private:
    Builder b_;
    Node node_;
    std::vector<bool> active_;       // by value of the original graph
    std::vector<ValueId> gradients_; // by value of the original graph; grows no further
};

// An axis that may count from the end, of a tensor of this rank.
inline int64_t from_start(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

// The rules by family; false where the operation is not of the family. Called with any_dy() true.
bool pointwise_gradient(Backward& backward);
bool shape_gradient(Backward& backward);
bool reduce_gradient(Backward& backward);
bool layer_gradient(Backward& backward);
bool own_gradient(Backward& backward);

} // namespace hekla::graph
