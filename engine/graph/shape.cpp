#include "graph/shape.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::graph {

const char* kind_name(Kind kind) {
    switch (kind) {
    case Kind::float_: return "float";
    case Kind::float32: return "float32";
    case Kind::int32: return "int32";
    }
    return "?";
}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(std::min<std::size_t>(dims.size(), kMaxRank))) {
    std::copy_n(dims.begin(), rank_, dims_.begin());
}

int64_t Shape::elements() const {
    int64_t product = 1;
    for (const int64_t dim : dims()) product *= dim;
    return product;
}

Strides Shape::strides() const {
    Strides result;
    int64_t stride = 1;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
        result[axis] = stride;
        stride *= (*this)[axis];
    }
    return result;
}

bool Shape::operator==(const Shape& other) const { return std::ranges::equal(dims(), other.dims()); }

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

void Shape::push_back(int64_t dim) {
    if (rank_ < kMaxRank) dims_[static_cast<std::size_t>(rank_++)] = dim;
}

void Shape::erase(int axis) {
    if (axis < 0) axis += rank_;
    for (int i = axis; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
    --rank_;
}

void Shape::insert(int axis, int64_t dim) {
    if (rank_ == kMaxRank) return;
    ++rank_;
    for (int i = rank_ - 1; i > axis; --i) (*this)[i] = (*this)[i - 1];
    (*this)[axis] = dim;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
    const Shape& longer = a.rank() >= b.rank() ? a : b;
    const Shape& shorter = a.rank() >= b.rank() ? b : a;
    Shape result = longer;
    for (int i = 1; i <= shorter.rank(); ++i) {
        const int64_t x = longer[-i], y = shorter[-i];
        if (x != y && x != 1 && y != 1) return std::nullopt;
        result[-i] = x == 1 ? y : x;
    }
    return result;
}

} // namespace hekla::graph
