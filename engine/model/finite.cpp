#include "model/finite.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::model {
namespace {

// Returns the index of the first element whose exponent bits are all set.
template<class Bits>
std::optional<std::size_t> first_with_exponent(std::span<const std::byte> bytes, Bits exponent) {
    constexpr std::size_t kBlock = 1024; // elements; the inner loop has no early exit, so that it is vectorized
    const std::size_t count = bytes.size() / sizeof(Bits);
    Bits block[kBlock];
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
        const std::size_t size = std::min(kBlock, count - begin);
        std::memcpy(block, bytes.data() + begin * sizeof(Bits), size * sizeof(Bits));
        unsigned found = 0;
        for (std::size_t i = 0; i < size; ++i) found |= (block[i] & exponent) == exponent ? 1u : 0u;
        if (found == 0) continue;
        for (std::size_t i = 0; i < size; ++i)
            if ((block[i] & exponent) == exponent) return begin + i;
    }
    return std::nullopt;
}

std::optional<std::size_t> first_index(DType dtype, std::span<const std::byte> bytes) {
    switch (dtype) {
    case DType::f16: return first_with_exponent<uint16_t>(bytes, 0x7c00);
    case DType::bf16: return first_with_exponent<uint16_t>(bytes, 0x7f80);
    case DType::f32: return first_with_exponent<uint32_t>(bytes, 0x7f800000);
    case DType::f64: return first_with_exponent<uint64_t>(bytes, 0x7ff0000000000000);
    default: return std::nullopt;
    }
}

Status non_finite_error(const TensorInfo& tensor, const NonFiniteElement& element) {
    return corrupt(fmt::format("tensor {} ({}): element {} is {}", in_quotes(tensor.name), describe(tensor),
                               element.index, element.value));
}

} // namespace

std::optional<NonFiniteElement> first_non_finite(DType dtype, std::span<const std::byte> bytes) {
    const std::optional<std::size_t> index = first_index(dtype, bytes);
    if (!index) return std::nullopt;
    double value = 0.0;
    const std::size_t size = size_of(dtype);
    if (!to_float64(dtype, bytes.subspan(*index * size, size), {&value, 1}).ok()) return std::nullopt;
    return NonFiniteElement{*index, value};
}

Status check_finite(const TensorView& tensor) {
    std::size_t before = 0;
    for (const std::span<const std::byte> piece : tensor.pieces()) {
        std::optional<NonFiniteElement> found = first_non_finite(tensor.dtype, piece);
        if (found) {
            found->index += before;
            return non_finite_error(tensor, *found);
        }
        before += piece.size() / size_of(tensor.dtype);
    }
    return {};
}

TensorSource finite_source(TensorSource source) {
    if (!is_floating(source.dtype)) return source;
    TensorSource checked = source;
    checked.stream = [source = std::move(source)](const Sink& sink) {
        const std::size_t size = size_of(source.dtype);
        std::size_t done = 0;             // elements before the next piece
        std::vector<std::byte> remainder; // an element split between two pieces
        return source.stream([&](std::span<const std::byte> piece) -> Status {
            std::span<const std::byte> whole = piece;
            if (!remainder.empty()) {
                remainder.insert(remainder.end(), piece.begin(), piece.end());
                whole = remainder;
            }
            const std::size_t count = whole.size() / size;
            if (auto found = first_non_finite(source.dtype, whole.first(count * size))) {
                found->index += done;
                return non_finite_error(source, *found);
            }
            done += count;
            remainder = std::vector<std::byte>(whole.begin() + static_cast<std::ptrdiff_t>(count * size), whole.end());
            return sink(piece);
        });
    };
    return checked;
}

} // namespace hekla::model
