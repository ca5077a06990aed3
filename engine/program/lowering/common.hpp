// Shared by the kernel families for lowering a node.
#pragma once

#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/records.hpp"

#include <initializer_list>
#include <string>
#include <vector>

namespace hekla::program {

// Returns the number of lanes that subgroup kernels are specialized for: the workgroup is one subgroup.
inline uint32_t lanes(const Lowering& lowering) { return lowering.limits.subgroup_size; }

// Returns the attribute `axis` of a node whose tensor has this shape, counted from the first dimension.
inline std::size_t axis_of(const graph::Node& node, const graph::Shape& shape) {
    const int64_t axis = node.integer("axis");
    return static_cast<std::size_t>(axis < 0 ? axis + shape.rank() : axis);
}

// A view whose last dimension is dense and whose other dimensions have one common stride: rows [rows, width]. If
// strides cannot express it, it is a copy (appends a dispatch).
struct Rows {
    View view;
    int64_t rows = 0;
    int64_t width = 0;
    int64_t stride = 0; // elements between rows
};
Rows as_rows(Lowering& lowering, const View& view);

// Creates a dense float32 or int32 tensor for output `index` of a node, and sets its view.
View make_output(Lowering& lowering, graph::NodeId node, std::size_t index);

// Returns a dispatch of a kernel for subgroups of the device's size. Its first specialization constant is the number of
// lanes; `constants` follow.
Dispatch subgroup_dispatch(const Lowering& lowering, std::string shader,
                           std::initializer_list<uint32_t> constants = {});

// Selects the variant "16" of a kernel that reads or writes this tensor if it is stored in 16 bits; its storage is then
// the next specialization constant. `width`: elements per load, for kernels with the variants of set_variant().
void set_type(Dispatch& dispatch, const View& view, uint32_t width = 1);

// Selects the variant of a row kernel: plain, "16", "fours" or "fours_16".
void set_variant(Dispatch& dispatch, uint32_t width, bool has_16_bit);

// One number for each of the rows of a gradient: a stride of 0 is the same for all, as of a sum's gradient, which is
// read without a copy.
struct RowNumbers {
    View view;
    uint32_t stride = 1;
};
RowNumbers row_numbers(Lowering& lowering, const View& view);

// Returns 1 or 2 elements per load, for rows of this width that all begin at even elements, or 4 for the variant
// "fours" on a GPU, if everything added to an address is a multiple of four. `dense`: other operands (resource 0: not
// used) of which a row has an element per column.
uint32_t load_width(const Lowering& lowering, int64_t width, std::initializer_list<const Rows*> rows,
                    std::initializer_list<const View*> dense = {});

// Returns how many loads of a row a lane keeps in registers: all of them, or 0 if they are too many. `rows`: that are
// kept at the same time.
uint32_t held_parts(const Lowering& lowering, int64_t width, uint32_t load_width, uint32_t rows = 1);

// Computes to [count] (dense) = the sum over `chunks` of from [chunks, count], in order.
void sum_chunks(Lowering& lowering, const View& from, const View& to, int64_t chunks);

// Computes to (dense) = the sum of from over the marked dimensions, in row-major order.
void reduce_sum(Lowering& lowering, const View& from, const std::vector<bool>& reduced, const View& to);

// A matrix [rows, columns] as kernels for CPUs read it (shaders/matmul/pack.comp).
struct PackedFactor {
    View panels; // without a resource: there is none
    int64_t rows = 0, columns = 0, panel_width = 0;
};

// Returns the transpose of b [N, K], packed, if a product of as many rows with it would pack it first: for several such
// products.
PackedFactor packed_for_products(Lowering& lowering, const View& b, int64_t rows);

// Computes c [M, N] (rows are dense) = a [M, K] times a packed [K, N], plus bias [N] if given.
void multiply(Lowering& lowering, const View& a, const PackedFactor& b, const View& c, const View& bias);

// Computes c [M, N] (rows are dense) = a [M, K], or its transpose, times b [K, N], or its transpose, plus bias [N] if
// given; or adds that product to c, without a bias.
void multiply(Lowering& lowering, const View& a, bool transpose_a, const View& b, bool transpose_b, const View& c,
              const View& bias, bool accumulate = false);

// Computes c [tiles, height, N] = a [tiles, height, K] times the matrix of each tile, b [matrices, K, N] or its
// transpose. The rows of a tile whose matrix is -1 are of no use.
void multiply_by_tiles(Lowering& lowering, const View& a, const View& matrix_of_tile, const View& b, bool transpose_b,
                       const View& c);

// Computes c [ranges, M, N] = the transpose of a [K, M] times b [K, N] for each range of K, from first[i] to first[i +
// 1]: not empty, and multiples of every kernel's step.
void multiply_ranges(Lowering& lowering, const View& a, const View& b, const View& first, const View& c);

// Whether two elements can be loaded with 8 bytes at once: everything added to the address must be even.
inline bool even(std::initializer_list<int64_t> numbers) {
    for (const int64_t number : numbers)
        if (number % 2 != 0) return false;
    return true;
}

// Returns the view of an input, or a view of resource 0 where the input was omitted.
inline View optional_view(const Lowering& lowering, graph::ValueId value) {
    return value == graph::kNone ? View{} : lowering.view(value);
}

// Returns the view of a factor of a product, or of its 16-bit copy if that is the program's precision and the kind of
// the value allows it.
View factor_view(Lowering& lowering, graph::ValueId value);

} // namespace hekla::program
