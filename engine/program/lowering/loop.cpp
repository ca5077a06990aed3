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

void put_dims(Arguments& arguments, std::span<const int64_t> dims) {
    const auto dim = [&](std::size_t d) { return d < dims.size() ? static_cast<uint32_t>(dims[d]) : 1u; };
    for (std::size_t d = 0; d < graph::kMaxRank; ++d) arguments.u32(dim(d));
    for (std::size_t d = 0; d < graph::kMaxRank; ++d) arguments.u32(divisor(dim(d)).factor);
    for (std::size_t d = 0; d < graph::kMaxRank; ++d) arguments.u32(divisor(dim(d)).shift);
}

uint64_t elementwise_groups(int64_t elements) {
    return std::max<uint64_t>(1, (static_cast<uint64_t>(elements) + kElementsPerGroup - 1) / kElementsPerGroup);
}

} // namespace hekla::program
