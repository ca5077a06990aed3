// Internal to the interpreter: the arguments of one operation, and loops that several families share.
#pragma once

#include "graph/feeds.hpp"
#include "graph/graph.hpp"
#include "graph/tensor.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>

namespace hekla::graph::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Neither branch overflows.
inline double sigmoid(double x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }

// A node with its values. Outputs have their kind and shape and are initialized to zeros.
struct Call {
    const Graph& graph;
    const Node& node;
    std::span<const Tensor* const> inputs; // null for an omitted optional input
    std::span<Tensor> outputs;
    const Feeds& feeds;
    std::map<std::string, Tensor>* caches;

    bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
    const Tensor& in(std::size_t i) const { return *inputs[i]; }
    const double* data(std::size_t i) const { return has(i) ? inputs[i]->data.data() : nullptr; }
    Tensor& out(std::size_t i = 0) const { return outputs[i]; }
};

// One function per family of operations; each computes the outputs of a node.
Status run_shape(const Call& call);
Status run_pointwise(const Call& call);
Status run_random(const Call& call);
Status run_reduce(const Call& call);
Status run_matrix(const Call& call);
Status run_windows(const Call& call);
Status run_norm(const Call& call);
Status run_lookup(const Call& call);
Status run_attention(const Call& call);
Status run_attention_gradient(const Call& call);
Status run_attention_cached(const Call& call);
Status run_gru(const Call& call);
Status run_gru_gradient(const Call& call);
Status run_lstm(const Call& call);
Status run_lstm_gradient(const Call& call);
Status run_loss(const Call& call);
Status run_own(const Call& call);

// Returns the strides with which a tensor of shape `from` is read as one of shape `to` by NumPy's rule.
Strides broadcast_strides(const Shape& from, const Shape& to);

// Calls row(offsets, length, steps) for rows of elements that together visit every index of `shape` once, in row-major
// order, where operand n is at offsets[n] + its strides. Axes that are contiguous in all operands are merged.
template<std::size_t N, class Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides, std::array<int64_t, N> offsets,
                  Row&& row) {
    if (shape.elements() == 0) return;
    std::array<int64_t, kMaxRank> dims{};
    std::array<std::array<int64_t, N>, kMaxRank> steps{};
    int rank = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape[axis] == 1) continue;
        std::array<int64_t, N> step{};
        bool joins = rank > 0;
        for (std::size_t n = 0; n < N; ++n) {
            step[n] = strides[n][axis];
            if (rank > 0) joins = joins && steps[static_cast<std::size_t>(rank - 1)][n] == step[n] * shape[axis];
        }
        const auto place = static_cast<std::size_t>(joins ? rank - 1 : rank++);
        dims[place] = joins ? dims[place] * shape[axis] : shape[axis];
        steps[place] = step;
    }
    if (rank == 0) {
        row(offsets, int64_t{1}, std::array<int64_t, N>{});
        return;
    }
    const auto last = static_cast<std::size_t>(rank - 1);
    std::array<int64_t, kMaxRank> index{};
    for (;;) {
        row(offsets, dims[last], steps[last]);
        std::size_t axis = last;
        for (;;) { // the next row: count up the outer indices
            if (axis == 0) return;
            --axis;
            for (std::size_t n = 0; n < N; ++n) offsets[n] += steps[axis][n];
            if (++index[axis] < dims[axis]) break;
            for (std::size_t n = 0; n < N; ++n) offsets[n] -= steps[axis][n] * dims[axis];
            index[axis] = 0;
        }
    }
}

// c [m, n] = a [m, k] b [k, n], optionally added to c. A transposed operand is stored as [k, m] or [n, k].
struct Product {
    int64_t m = 0, k = 0, n = 0;
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;
};
void multiply(const Product& product, const double* a, const double* b, double* c);

// Returns the 32-bit word of element `element` of example `example` of a stream (see reference.hpp).
uint32_t random_word(const Feeds& feeds, int64_t stream, int64_t example, int64_t element);

// Returns the factor of dropout for an element: 0 or 1 / (1 - probability).
double dropout_factor(const Feeds& feeds, int64_t stream, double probability, int64_t example, int64_t element);

// Integers wrap like int32 in the shaders.
inline double wrapped(int64_t x) { return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(x))); }

inline std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }
inline int64_t normal_axis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

// A shape as [before the axis, the axis, after it].
struct AxisView {
    int64_t outer = 1, length = 1, inner = 1;
};
AxisView around_axis(const Shape& shape, int64_t axis);

} // namespace hekla::graph::reference
