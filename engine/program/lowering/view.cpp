#include "program/lowering/view.hpp"

namespace hekla::program {

uint64_t bytes_of(Storage storage) { return storage == Storage::f16 || storage == Storage::bf16 ? 2 : 4; }

bool View::contiguous() const {
    int64_t expected = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
        if (shape[d] != 1 && strides[static_cast<std::size_t>(d)] != expected) return false;
        expected *= shape[d];
    }
    return true;
}

std::optional<View> reshaped(const View& x, const graph::Shape& shape) {
    View out = x;
    out.shape = shape;
    if (x.elements() == 0 || x.contiguous()) {
        out.strides = shape.strides();
        return out;
    }
    // Iterate over both shapes from the outermost dimension; contiguous old dimensions can be split again.
    out.strides.fill(0);
    int from = 0;
    int to = 0;
    while (from < x.shape.rank() || to < shape.rank()) {
        if (from < x.shape.rank() && x.shape[from] == 1) {
            ++from;
            continue;
        }
        if (to < shape.rank() && shape[to] == 1) {
            ++to;
            continue;
        }
        if (from >= x.shape.rank() || to >= shape.rank()) return std::nullopt;
        int64_t old_elements = x.shape[from];
        int64_t new_elements = shape[to];
        int from_end = from + 1;
        int to_end = to + 1;
        while (old_elements != new_elements) {
            if (old_elements < new_elements) {
                const int next = from_end++;
                if (next >= x.shape.rank()) return std::nullopt;
                if (x.shape[next] == 1) continue;
                int last = next - 1;
                while (x.shape[last] == 1) --last;
                const auto outer = static_cast<std::size_t>(last);
                if (x.strides[outer] != x.strides[static_cast<std::size_t>(next)] * x.shape[next]) return std::nullopt;
                old_elements *= x.shape[next];
            } else {
                if (to_end >= shape.rank()) return std::nullopt;
                new_elements *= shape[to_end++];
            }
        }
        int innermost = from_end - 1;
        while (x.shape[innermost] == 1) --innermost;
        int64_t stride = x.strides[static_cast<std::size_t>(innermost)];
        for (int d = to_end - 1; d >= to; --d) {
            out.strides[static_cast<std::size_t>(d)] = stride;
            stride *= shape[d];
        }
        from = from_end;
        to = to_end;
    }
    return out;
}

View transposed(const View& x, const std::vector<int64_t>& permutation) {
    View y = x;
    for (std::size_t d = 0; d < permutation.size(); ++d) {
        const auto source = static_cast<std::size_t>(permutation[d]);
        y.shape[static_cast<int>(d)] = x.shape.dims()[source];
        y.strides[d] = x.strides[source];
    }
    return y;
}

View sliced(const View& x, std::size_t axis, int64_t start, int64_t length, int64_t stride) {
    View y = x;
    y.shape[static_cast<int>(axis)] = length;
    if (length > 0) y.offset = static_cast<uint64_t>(static_cast<int64_t>(x.offset) + start * x.strides[axis]);
    y.strides[axis] = x.strides[axis] * stride;
    return y;
}

View flipped(const View& x, std::size_t axis) {
    View y = x;
    const int64_t length = x.shape.dims()[axis];
    if (length > 0) y.offset = static_cast<uint64_t>(static_cast<int64_t>(x.offset) + (length - 1) * x.strides[axis]);
    y.strides[axis] = -x.strides[axis];
    return y;
}

} // namespace hekla::program
