#include "program/lowering/loop.hpp"

#include <algorithm>
#include <bit>

namespace hekla::program {

bool Loop::linear(std::size_t operand) const {
    int64_t expected = 1;
    for (int d = rank() - 1; d >= 0; --d) {
        const auto axis = static_cast<std::size_t>(d);
        if (dims[axis] != 1 && strides[operand][axis] != expected) return false;
        expected *= dims[axis];
    }
    return true;
}

bool Loop::uniform(std::size_t operand) const {
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (dims[d] != 1 && strides[operand][d] != 0) return false;
    return true;
}

Loop make_loop(std::span<const View> operands) {
    Loop loop;
    loop.strides.resize(operands.size());
    const graph::Shape& shape = operands.front().shape;
    for (int d = 0; d < shape.rank(); ++d) {
        if (shape[d] == 1) continue;
        const auto axis = static_cast<std::size_t>(d);
        bool merges = !loop.dims.empty();
        for (std::size_t o = 0; o < operands.size() && merges; ++o)
            merges = loop.strides[o][loop.dims.size() - 1] == operands[o].strides[axis] * shape[d];
        if (merges) {
            loop.dims.back() *= shape[d];
            for (std::size_t o = 0; o < operands.size(); ++o)
                loop.strides[o][loop.dims.size() - 1] = operands[o].strides[axis];
        } else {
            loop.dims.push_back(shape[d]);
            for (std::size_t o = 0; o < operands.size(); ++o)
                loop.strides[o][loop.dims.size() - 1] = operands[o].strides[axis];
        }
    }
    if (loop.dims.empty()) loop.dims.push_back(1);
    return loop;
}

View broadcast_view(const View& view, const graph::Shape& shape) {
    View out = view;
    out.shape = shape;
    out.strides.fill(0);
    for (int from_end = 1; from_end <= view.shape.rank(); ++from_end) {
        const auto source = static_cast<std::size_t>(view.shape.rank() - from_end);
        const auto target = static_cast<std::size_t>(shape.rank() - from_end);
        const bool repeated = view.shape.dims()[source] == 1 && shape.dims()[target] != 1;
        out.strides[target] = repeated ? 0 : view.strides[source];
    }
    return out;
}

Divisor divisor(uint32_t number) {
    const auto bits = static_cast<uint32_t>(std::bit_width(number - 1));
    const uint64_t power = uint64_t{1} << (31 + bits);
    return {static_cast<uint32_t>((power + number - 1) / number), 31 + bits};
}

void set_dims(std::span<const int64_t> dims, uint32_t (&to)[graph::kMaxRank], uint32_t (&factors)[graph::kMaxRank],
              uint32_t (&shifts)[graph::kMaxRank]) {
    for (std::size_t d = 0; d < graph::kMaxRank; ++d) {
        to[d] = d < dims.size() ? static_cast<uint32_t>(dims[d]) : 1u;
        const Divisor by = divisor(to[d]);
        factors[d] = by.factor;
        shifts[d] = by.shift;
    }
}

void set_strides(const graph::Strides& strides, int32_t (&to)[graph::kMaxRank]) {
    for (std::size_t d = 0; d < graph::kMaxRank; ++d) to[d] = static_cast<int32_t>(strides[d]);
}

uint64_t elementwise_groups(int64_t elements) {
    return static_cast<uint64_t>(std::max<int64_t>(1, divide_up(elements, kernels::kElementsPerGroup)));
}

uint64_t row_groups(const Limits& limits, int64_t rows) {
    return static_cast<uint64_t>(limits.uniform_loads ? rows : divide_up(rows, kernels::kRowsPerGroup));
}

} // namespace hekla::program
