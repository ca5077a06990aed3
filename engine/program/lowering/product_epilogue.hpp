// Operations fused into a linear before its result is stored, instead of a separate dispatch: an activation, or the sum
// with a residual. When tokens are generated one at a time, dispatches take most of the time.
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
    graph::ValueId output = graph::kNone; // stored instead of the linear's result
    Activation activation = Activation::none;
    graph::ValueId residual = graph::kNone; // of the output's shape, computed before the operation that adds it
};

class ProductEpilogues {
public:
    void add(graph::NodeId end, const ProductEpilogue& epilogue);
    // The linear is lowered at the position of the fused operation, when all inputs of both are computed.
    const ProductEpilogue* ending_at(graph::NodeId node) const; // null: none does
    bool inside(graph::NodeId product) const { return products_.contains(product); }

private:
    std::map<graph::NodeId, ProductEpilogue> ends_;
    std::set<graph::NodeId> products_;
};

// Finds linears whose result is read once, by a pointwise operation outside of all groups; none if `groups` is empty
// because fusion is off. `needed` and `kept` as in group_pointwise().
ProductEpilogues find_product_epilogues(const graph::Graph& graph, const std::vector<bool>& needed,
                                        const std::vector<graph::ValueId>& kept, const PointwiseGroups& groups,
                                        const Limits& limits);

// Lowers the linear with the fused operation, and sets the view of `output` (matmul.cpp).
void lower_product(Lowering& lowering, const ProductEpilogue& epilogue);

} // namespace hekla::program
