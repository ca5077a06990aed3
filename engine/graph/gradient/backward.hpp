// State that the gradient rules of operations share: gradients of outputs and of inputs. Internal to the room; its
// entry points are differentiate() and gradient_of.
#pragma once

#include "graph/builder.hpp"

#include <functional>
#include <set>
#include <string>

namespace hekla::graph {

class Backward {
public:
    // Marks values that depend on a parameter that is not frozen.
    Backward(Graph graph, const std::set<std::string, std::less<>>& frozen);
    // Marks values that depend on this one. What the rules emit can be differentiated again, as far as there are rules.
    Backward(Graph graph, ValueId from);

    // Sets the node to differentiate.
    void enter(NodeId id);
    const Node& node() const { return node_; }
    ValueId x(std::size_t input = 0) const { return input < node_.inputs.size() ? node_.inputs[input] : kNone; }
    ValueId y(std::size_t output = 0) const { return node_.outputs[output]; }
    // Returns the gradient of an output, in its shape; 0 if no loss depends on it.
    ValueId dy(std::size_t output = 0) const { return gradients_[node_.outputs[output]]; }
    bool any_dy() const;

    // Returns whether the gradient of this input is needed: it is given, floating and depends on a parameter.
    bool wants(std::size_t input) const { return x(input) != kNone && active_[x(input)]; }
    // Returns wants() of the first inputs as bits, for operations that compute the gradients of all of them.
    int64_t wanted(std::size_t inputs) const;
    // Adds to the gradient of an input. Undoes broadcasting and converts to the input's kind.
    void give(std::size_t input, ValueId gradient);
    void give_value(ValueId value, ValueId gradient);
    void give_each(std::span<const ValueId> gradients); // of the first inputs
    // The same for a gradient that is 0 but for dy from `start` on along an axis, and for the product a^T b of a [R, K]
    // and b [R, N]. The slices of a value and the products with a small one come in numbers, from the steps of a loop:
    // these are joined, so that they cost what one of the whole costs.
    void give_slice(std::size_t input, ValueId dy, int64_t axis, int64_t start);
    void give_product(std::size_t input, ValueId a, ValueId b);
    // All of what was given must be there.
    ValueId gradient(ValueId value);
    bool active(ValueId value) const { return active_[value]; }
    // Whether rules emit operations that have gradients where there is a choice.
    bool again() const { return again_; }

    // Shorthands for operations in rules.
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
    ValueId reshape(ValueId a, const Shape& shape); // a itself if it has this shape
    ValueId rows(ValueId a);                        // [..., N] as [rows, N]
    ValueId broadcast(ValueId a, const Shape& shape);
    ValueId cast(ValueId a, Kind kind);
    ValueId reduce_to(ValueId a, const Shape& shape); // sums over the axes that were broadcast to a's shape
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
    struct Slice {
        ValueId dy = kNone;
        int64_t axis = 0, start = 0;
    };
    struct Product {
        ValueId a = kNone, b = kNone;
    };
    // What was given for a value and is not in its gradient yet.
    struct Parts {
        std::vector<Slice> slices;
        std::vector<Product> products;
    };

    void mark_dependents(); // of the active values
    void count_parts();
    void join_parts(ValueId value);
    ValueId joined_slices(ValueId value, std::vector<Slice> slices); // kNone: they overlap, or have several axes
    ValueId joined_products(ValueId value, std::span<const Product> products);
    ValueId unslice(ValueId value, const Slice& slice);

    Builder b_;
    Node node_;
    bool again_ = false;
    std::vector<uint32_t> readers_; // by value: slices of it, or products with it
    std::map<ValueId, Parts> parts_;
    std::vector<bool> active_;       // by value of the original graph
    std::vector<ValueId> gradients_; // by value of the original graph; does not grow
};

// Adds the gradients of the nodes below `end` by the rules, from the last to the first.
void go_back(Backward& backward, NodeId end);

} // namespace hekla::graph
