// Kinds and static shapes of tensors.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::graph {

// float_: the engine chooses the storage (32 or 16 bits); float32: kept. The numbers are the ABI's HK_KIND_*.
enum class Kind : int32_t { float_ = 0, float32 = 1, int32 = 2 };

inline bool is_float(Kind kind) { return kind != Kind::int32; }
const char* kind_name(Kind kind); // "float" "float32" "int32"

inline constexpr int kMaxRank = 6;

// The distance between neighboring elements along each axis of a tensor, in elements. 0 repeats the same element.
class Strides {
public:
    int64_t operator[](std::integral auto axis) const { return values_[static_cast<std::size_t>(axis)]; }
    int64_t& operator[](std::integral auto axis) { return values_[static_cast<std::size_t>(axis)]; }
    void fill(int64_t stride) { values_.fill(stride); }
    bool operator==(const Strides&) const = default;

private:
    std::array<int64_t, kMaxRank> values_{};
};

// 0 to 6 dimensions, row-major. Dimensions may be 0 (an empty tensor) and are never negative.
class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
    explicit Shape(std::span<const int64_t> dims); // at most kMaxRank of them
    explicit Shape(const std::vector<int64_t>& dims) : Shape(std::span<const int64_t>(dims)) {}

    int rank() const { return rank_; }
    int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
    int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)]; }
    int64_t elements() const; // product; 1 for rank 0
    std::span<const int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
    std::vector<int64_t> vector() const { return {dims_.begin(), dims_.begin() + rank_}; }
    Strides strides() const; // of a row-major tensor without gaps
    bool operator==(const Shape& other) const;
    std::string text() const; // "[12, 64, 128]"

    void push_back(int64_t dim);        // at most kMaxRank in total
    void erase(int axis);               // axis may count from the end
    void insert(int axis, int64_t dim); // before axis

private:
    std::array<int64_t, kMaxRank> dims_{};
    int rank_ = 0;
};

// Converts an axis that may count from the end, for this rank.
inline int64_t from_start(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

// Returns the broadcast shape by NumPy's rule; nothing if the shapes do not fit.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

} // namespace hekla::graph
