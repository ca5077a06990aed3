// What the references of operations share: the arguments of one operation, and loops. Internal to the room; the entry
// points are those of reference.hpp.
#pragma once

#include "graph/feeds.hpp"
#include "graph/graph.hpp"
#include "graph/tensor.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace hekla::graph {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The order of numbers in which NaN is the largest.
inline bool above(double a, double b) { return (std::isnan(a) && !std::isnan(b)) || a > b; }

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

// The reference of operations that pass their first input through: the same elements, under the shape of the output.
Status run_same(const Call& call);

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

// Integers wrap like int32 in the shaders.
inline double wrapped(int64_t x) { return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(x))); }

inline std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }

// A shape as [before the axis, the axis, after it].
struct AxisView {
    int64_t outer = 1, length = 1, inner = 1;
};
AxisView around_axis(const Shape& shape, int64_t axis);

// Checks that indices are those of rows: one out of range is an error here, so that its cause is found; kernels have to
// clamp it. excluded: an index that is not used.
Status indices_ok(const Tensor& indices, const char* name, int64_t rows, const char* of,
                  std::optional<int64_t> excluded = {});
inline int64_t index_at(const Tensor& indices, int64_t i) { return static_cast<int64_t>(indices.data[at(i)]); }

} // namespace hekla::graph
