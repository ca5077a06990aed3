// What a linear does to its result before it is stored, in place of a dispatch of its own: an activation, or the sum
// with a residual. Where a token is generated at a time, dispatches are what takes the time.
#pragma once

#include "program/lowering/pointwise.hpp"
#include "program/lowering/records.hpp"

#include <map>
#include <set>
#include <vector>

namespace hekla::program {

enum class Activation : uint32_t {
    none = kernels::matmul::kActivationNone,
    relu = kernels::matmul::kActivationRelu,
    gelu_tanh = kernels::matmul::kActivationGeluTanh,
    gelu = kernels::matmul::kActivationGelu,
};

struct ProductEpilogue {
    graph::NodeId product = 0;            // the linear
    graph::ValueId output = graph::kNone; // what is stored in place of the linear's result
    Activation activation = Activation::none;
    graph::ValueId residual = graph::kNone; // of the output's shape, made before the operation that adds it
};

class ProductEpilogues {
public:
    void add(graph::NodeId end, const ProductEpilogue& epilogue);
    // The linear is lowered in place of the operation that it absorbs: by then everything that either reads is made.
    const ProductEpilogue* ending_at(graph::NodeId node) const; // null: none does
    bool inside(graph::NodeId product) const { return products_.contains(product); }

private:
    std::map<graph::NodeId, ProductEpilogue> ends_;
    std::set<graph::NodeId> products_;
};

// Linears whose result is read once, by a pointwise operation that no group has: none where `groups` is empty because
// nothing is to be fused. `needed` and `kept` as in group_pointwise().
ProductEpilogues find_product_epilogues(const graph::Graph& graph, const std::vector<bool>& needed,
                                        const std::vector<graph::ValueId>& kept, const PointwiseGroups& groups,
                                        const Limits& limits);

// Lowers the linear with what it absorbs, and sets the view of `output` (matmul.cpp).
void lower_product(Lowering& lowering, const ProductEpilogue& epilogue);

} // namespace hekla::program
