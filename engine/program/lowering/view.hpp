// Tensors as kernels access them: a resource and strides.
#pragma once

#include "graph/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace hekla::program {

// Storage of elements, numbered as in shaders/common.h. A `float` value may have any of the first three, `float32` is
// f32, `int32` is i32.
enum class Storage : uint32_t { f32 = 0, f16 = 1, bf16 = 2, i32 = 3 };
uint64_t bytes_of(Storage storage);

using ResourceId = uint32_t; // index into Lowering::resources; 0 is none

// A resource and strides in elements (0 repeats). Shape operations create views, not copies.
struct View {
    ResourceId resource = 0;
    uint64_t offset = 0; // elements
    Storage storage = Storage::f32;
    graph::Shape shape;
    graph::Strides strides;

    bool contiguous() const; // elements are in row-major order without gaps; dimensions of 1 may have any stride
    int64_t elements() const { return shape.elements(); }
    uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * bytes_of(storage); }
};

// How a parameter is stored.
struct StoredAs {
    Storage storage = Storage::f32;
    // Columns of a panel: a matrix [K, N] is stored as [N / panel, K, panel], as products read it
    // (shaders/matmul/pack.comp). 0: row by row.
    int64_t panel = 0;
    bool transposed = false; // of panels: the parameter is [N, K]
    friend bool operator==(const StoredAs&, const StoredAs&) = default;
};

// Returns a view of the same elements with another shape, or nothing if strides cannot express it.
std::optional<View> reshaped(const View& x, const graph::Shape& shape);
// Returns a view whose dimension d is dimension permutation[d] of x.
View transposed(const View& x, const std::vector<int64_t>& permutation);
// Returns elements start, start + stride, ... (`length` of them) along the axis.
View sliced(const View& x, std::size_t axis, int64_t start, int64_t length, int64_t stride);
View flipped(const View& x, std::size_t axis);

} // namespace hekla::program
