// The interpreter's shape operations, and those that pass a value through.
#include "graph/reference/call.hpp"

#include <algorithm>

namespace hekla::graph::reference {

Strides broadcast_strides(const Shape& from, const Shape& to) {
    Strides result;
    const Strides own = from.strides();
    const int missing = to.rank() - from.rank();
    for (int axis = 0; axis < from.rank(); ++axis)
        if (from[axis] != 1) result[axis + missing] = own[axis];
    return result;
}

AxisView around_axis(const Shape& shape, int64_t axis) {
    const int place = static_cast<int>(normal_axis(axis, shape.rank()));
    AxisView view;
    for (int i = 0; i < shape.rank(); ++i) (i < place ? view.outer : i == place ? view.length : view.inner) *= shape[i];
    return view;
}

namespace {

// Copies to[...] = from[...] over `shape`, each with its own strides.
void copy(const Shape& shape, double* to, int64_t to_offset, const Strides& to_strides, const double* from,
          int64_t from_offset, const Strides& from_strides) {
    for_each_row<2>(shape, {to_strides, from_strides}, {to_offset, from_offset},
                    [&](const auto& offset, int64_t length, const auto& step) {
                        double* y = to + offset[0];
                        const double* x = from + offset[1];
                        if (step[0] == 1 && step[1] == 1) {
                            std::copy_n(x, length, y);
                            return;
                        }
                        for (int64_t i = 0; i < length; ++i) y[i * step[0]] = x[i * step[1]];
                    });
}

void transpose(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const auto& permutation = call.node.ints("permutation");
    const Strides own = x.shape.strides();
    Strides read;
    for (std::size_t i = 0; i < permutation.size(); ++i) read[i] = own[normal_axis(permutation[i], x.shape.rank())];
    copy(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), 0, read);
}

void slice(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = normal_axis(call.node.integer("axis"), x.shape.rank());
    Strides read = x.shape.strides();
    const int64_t offset = call.node.integer("start") * read[axis];
    read[axis] *= call.node.integer("stride");
    copy(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), offset, read);
}

void unslice(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = normal_axis(call.node.integer("axis"), x.shape.rank());
    Strides write = y.shape.strides();
    const int64_t offset = call.node.integer("start") * write[axis];
    write[axis] *= call.node.integer("stride");
    copy(x.shape, y.data.data(), offset, write, x.data.data(), 0, x.shape.strides());
}

void concat(const Call& call) {
    Tensor& y = call.out();
    const Strides write = y.shape.strides();
    const int64_t axis = normal_axis(call.node.integer("axis"), y.shape.rank());
    int64_t offset = 0;
    for (const Tensor* part : call.inputs) {
        copy(part->shape, y.data.data(), offset, write, part->data.data(), 0, part->shape.strides());
        offset += part->shape[static_cast<int>(axis)] * write[axis];
    }
}

void pad(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const Strides write = y.shape.strides();
    const int64_t axis = normal_axis(call.node.integer("axis"), y.shape.rank());
    std::ranges::fill(y.data, call.node.real("value"));
    copy(x.shape, y.data.data(), call.node.integer("before") * write[axis], write, x.data.data(), 0, x.shape.strides());
}

void flip(const Call& call) {
    const Tensor& x = call.in(0);
    Tensor& y = call.out();
    const int64_t axis = normal_axis(call.node.integer("axis"), x.shape.rank());
    Strides read = x.shape.strides();
    const int64_t offset = (x.shape[static_cast<int>(axis)] - 1) * read[axis];
    read[axis] = -read[axis];
    copy(y.shape, y.data.data(), 0, y.shape.strides(), x.data.data(), offset, read);
}

} // namespace

Status run_shape(const Call& call) {
    Tensor& y = call.out();
    switch (call.node.op) {
    case Op::transpose: transpose(call); break;
    case Op::slice: slice(call); break;
    case Op::unslice: unslice(call); break;
    case Op::concat: concat(call); break;
    case Op::pad: pad(call); break;
    case Op::flip: flip(call); break;
    case Op::broadcast:
        copy(y.shape, y.data.data(), 0, y.shape.strides(), call.data(0), 0,
             broadcast_strides(call.in(0).shape, y.shape));
        break;
    default: y.data = call.in(0).data; // reshape and the operations that pass their input through
    }
    return {};
}

} // namespace hekla::graph::reference
