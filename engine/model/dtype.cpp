#include "model/dtype.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <type_traits>

namespace hekla::model {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without swapping");

struct Row {
    std::string_view name;
    std::string_view file_name;
    std::size_t size;
};

constexpr std::array<Row, kDtypes> kTable{{{"bool", "BOOL", 1},
                                           {"u8", "U8", 1},
                                           {"i8", "I8", 1},
                                           {"i16", "I16", 2},
                                           {"f16", "F16", 2},
                                           {"bf16", "BF16", 2},
                                           {"i32", "I32", 4},
                                           {"f32", "F32", 4},
                                           {"f64", "F64", 8},
                                           {"i64", "I64", 8}}};

const Row& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

// Storage types whose bits are not a C++ type's.
struct Float16 {
    uint16_t bits;
};
struct BFloat16 {
    uint16_t bits;
};
struct Boolean {
    uint8_t bits;
};

// Rounds to a binary format with the given exponent and mantissa widths, once, from the double's bits.
template<int ExponentBits, int MantissaBits>
uint16_t narrow(double value) {
    constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
    constexpr uint16_t kInfinity = ((1 << ExponentBits) - 1) << MantissaBits;
    constexpr int kDropped = 52 - MantissaBits;
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 63) << 15);
    const int stored = static_cast<int>(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (stored == 0x7ff) {
        if (fraction == 0) return static_cast<uint16_t>(sign | kInfinity);
        constexpr uint16_t kQuiet = 1 << (MantissaBits - 1);
        return static_cast<uint16_t>(sign | kInfinity | kQuiet | static_cast<uint16_t>(fraction >> kDropped));
    }
    const int exponent = stored - 1023;
    if (stored == 0 || exponent < -kBias - MantissaBits) return sign; // below half of the smallest
    if (exponent > kBias) return static_cast<uint16_t>(sign | kInfinity);
    const bool normal = exponent >= 1 - kBias;
    const int shift = normal ? kDropped : kDropped + (1 - kBias - exponent);
    const uint64_t significand = fraction | uint64_t{1} << 52;
    uint64_t kept = significand >> shift;
    const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    // A carry out of the mantissa increments the exponent, from subnormal to normal and from the largest to infinite.
    if (normal) kept += static_cast<uint64_t>(exponent + kBias - 1) << MantissaBits;
    return static_cast<uint16_t>(sign | kept);
}

template<class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

float plain(Float16 x) { return f16_to_float(x.bits); }
float plain(BFloat16 x) { return bf16_to_float(x.bits); }
int32_t plain(Boolean x) { return x.bits != 0 ? 1 : 0; }
template<class T>
T plain(T x) {
    return x;
}

template<class To, class From>
bool whole_in_range(From value) {
    if constexpr (std::is_floating_point_v<From>) {
        // The bounds of every integer type here are powers of two, so they are exact in From.
        const From low = static_cast<From>(std::numeric_limits<To>::min());
        const From high = std::ldexp(From{1}, std::numeric_limits<To>::digits);
        return value >= low && value < high && std::trunc(value) == value;
    } else {
        return std::in_range<To>(value);
    }
}

// Stores `value` as To; returns false if To cannot represent it.
template<class To, class From>
bool convert(From value, To& out) {
    if constexpr (std::is_same_v<To, Float16>) {
        out.bits = f16_from(static_cast<double>(value));
    } else if constexpr (std::is_same_v<To, BFloat16>) {
        out.bits = bf16_from(static_cast<double>(value));
    } else if constexpr (std::is_same_v<To, Boolean>) {
        if (value != From{0} && value != From{1}) return false;
        out.bits = value != From{0} ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<To>) {
        out = static_cast<To>(value);
    } else {
        if (!whole_in_range<To>(value)) return false;
        out = static_cast<To>(value); // NOLINT(bugprone-signed-char-misuse): an int8_t is a number here
    }
    return true;
}

Status count_error(DType dtype, std::size_t bytes, std::size_t elements) {
    return invalid_argument(fmt::format("{} bytes of {} cannot be {} elements of {} bytes", bytes, name_of(dtype),
                                        elements, size_of(dtype)));
}

template<class Value>
Status value_error(std::size_t index, Value value, std::string_view type) {
    return invalid_argument(fmt::format("element {} is {}, which {} cannot hold exactly", index, value, type));
}

template<class Stored, class Out>
Status read_as(std::span<const std::byte> bytes, std::span<Out> out, std::string_view type) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto value = plain(load<Stored>(bytes.data() + i * sizeof(Stored)));
        if (!convert(value, out[i])) return value_error(i, value, type);
    }
    return {};
}

template<class Stored, class In>
Status write_as(std::span<const In> in, std::span<std::byte> bytes, std::string_view type) {
    for (std::size_t i = 0; i < in.size(); ++i) {
        Stored stored{};
        if (!convert(in[i], stored)) return value_error(i, in[i], type);
        std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
    }
    return {};
}

// Calls `visit` with a value of the type that represents `dtype`.
template<class Visit>
Status with_storage(DType dtype, Visit visit) {
    switch (dtype) {
    case DType::boolean: return visit(Boolean{});
    case DType::u8: return visit(uint8_t{});
    case DType::i8: return visit(int8_t{});
    case DType::i16: return visit(int16_t{});
    case DType::f16: return visit(Float16{});
    case DType::bf16: return visit(BFloat16{});
    case DType::i32: return visit(int32_t{});
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
    case DType::i64: return visit(int64_t{});
    }
    return internal_error("an element type outside its enumeration");
}

bool counts_agree(DType dtype, std::size_t bytes, std::size_t elements) {
    return bytes % size_of(dtype) == 0 && bytes / size_of(dtype) == elements;
}

template<class Out>
Status read_all(DType dtype, std::span<const std::byte> bytes, std::span<Out> out, std::string_view type) {
    if (!counts_agree(dtype, bytes.size(), out.size())) return count_error(dtype, bytes.size(), out.size());
    return with_storage(dtype, [&](auto stored) { return read_as<decltype(stored)>(bytes, out, type); });
}

template<class In>
Status write_all(DType dtype, std::span<const In> in, std::span<std::byte> bytes) {
    if (!counts_agree(dtype, bytes.size(), in.size())) return count_error(dtype, bytes.size(), in.size());
    return with_storage(dtype, [&](auto stored) { return write_as<decltype(stored)>(in, bytes, name_of(dtype)); });
}

} // namespace

std::size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view file_name_of(DType dtype) { return row(dtype).file_name; }

bool is_floating(DType dtype) {
    return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

std::optional<DType> dtype_named(std::string_view name) {
    for (int i = 0; i < kDtypes; ++i)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return std::nullopt;
}

std::optional<DType> dtype_of_file_name(std::string_view name) {
    for (int i = 0; i < kDtypes; ++i)
        if (file_name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return std::nullopt;
}

uint16_t f16_from(double value) { return narrow<5, 10>(value); }
uint16_t bf16_from(double value) { return narrow<8, 7>(value); }

float f16_to_float(uint16_t bits) {
    const uint32_t sign = uint32_t{bits} >> 15 << 31;
    const uint32_t exponent = bits >> 10 & 31u;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) { // zero or subnormal: the fraction counts in units of 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    const uint32_t widened = exponent == 31 ? 255 : exponent + (127 - 15);
    return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

Status to_float32(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
    return read_all(dtype, bytes, out, "f32");
}
Status to_float64(DType dtype, std::span<const std::byte> bytes, std::span<double> out) {
    return read_all(dtype, bytes, out, "f64");
}
Status to_int32(DType dtype, std::span<const std::byte> bytes, std::span<int32_t> out) {
    return read_all(dtype, bytes, out, "i32");
}
Status from_float32(DType dtype, std::span<const float> in, std::span<std::byte> bytes) {
    return write_all(dtype, in, bytes);
}
Status from_float64(DType dtype, std::span<const double> in, std::span<std::byte> bytes) {
    return write_all(dtype, in, bytes);
}
Status from_int32(DType dtype, std::span<const int32_t> in, std::span<std::byte> bytes) {
    return write_all(dtype, in, bytes);
}

} // namespace hekla::model
