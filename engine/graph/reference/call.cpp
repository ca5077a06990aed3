#include "graph/reference/call.hpp"

#include <fmt/format.h>

namespace hekla::graph {

Status run_same(const Call& call) {
    call.out().data = call.in(0).data;
    return {};
}

Strides broadcast_strides(const Shape& from, const Shape& to) {
    Strides result;
    const Strides own = from.strides();
    const int missing = to.rank() - from.rank();
    for (int axis = 0; axis < from.rank(); ++axis)
        if (from[axis] != 1) result[axis + missing] = own[axis];
    return result;
}

AxisView around_axis(const Shape& shape, int64_t axis) {
    const int place = static_cast<int>(from_start(axis, shape.rank()));
    AxisView view;
    for (int i = 0; i < shape.rank(); ++i) (i < place ? view.outer : i == place ? view.length : view.inner) *= shape[i];
    return view;
}

Status indices_ok(const Tensor& indices, const char* name, int64_t rows, const char* of,
                  std::optional<int64_t> excluded) {
    for (std::size_t i = 0; i < indices.data.size(); ++i) {
        if (excluded && indices.data[i] == static_cast<double>(*excluded)) continue;
        if (indices.data[i] < 0 || indices.data[i] >= static_cast<double>(rows))
            return invalid_argument(fmt::format("element {} of {} {} is {}, expected 0 to {}, the rows of {}", i, name,
                                                indices.shape.text(), indices.data[i], rows - 1, of));
    }
    return {};
}

} // namespace hekla::graph
