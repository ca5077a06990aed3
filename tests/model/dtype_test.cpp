#include "model/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

namespace dtype_test {

using namespace hekla;
using namespace hekla::model;

namespace {

// A 16-bit format by its definition, in double arithmetic and independent of the tested code.
struct Format {
    int exponent_bits;
    int mantissa_bits;

    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    uint16_t infinity() const { return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits); }
    double value(uint16_t bits) const {
        const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
        const int fraction = bits & ((1 << mantissa_bits) - 1);
        const double sign = bits >> 15 ? -1.0 : 1.0;
        if (exponent == (1 << exponent_bits) - 1)
            return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
        if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias() - mantissa_bits);
        return sign * std::ldexp(fraction + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
    }
};

constexpr Format f16_format{5, 10};
constexpr Format bf16_format{8, 7};

void check_widening(const Format& format, float (*widen)(uint16_t)) {
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        const double expected = format.value(bits);
        const float found = widen(bits);
        const bool same = std::isnan(expected) ? std::isnan(found) : static_cast<double>(found) == expected;
        if (!same || std::signbit(found) != (bits >> 15 != 0)) ++wrong;
    }
    CHECK(wrong == 0);
}

// Every value, every midpoint between neighbors, and the doubles next to each midpoint.
void check_narrowing(const Format& format, uint16_t (*narrow)(double)) {
    int wrong = 0;
    const auto expect = [&](double value, uint16_t bits) {
        if (narrow(value) != bits) ++wrong;
        if (narrow(-value) != (bits | 0x8000)) ++wrong;
    };
    for (uint16_t bits = 0; bits < format.infinity(); ++bits) {
        const double here = format.value(bits);
        expect(here, bits);
        const auto next = static_cast<uint16_t>(bits + 1);
        // Above the maximum the rounding assumes one more value: its midpoint and everything above become infinite.
        const double above = next == format.infinity() ? std::ldexp(1.0, format.bias() + 1) : format.value(next);
        const double middle = here + (above - here) / 2;
        expect(middle, bits % 2 == 0 ? bits : next);
        expect(std::nextafter(middle, 0.0), bits);
        expect(std::nextafter(middle, 1e300), next);
    }
    const double infinity = std::numeric_limits<double>::infinity();
    expect(infinity, format.infinity());
    expect(std::numeric_limits<double>::max(), format.infinity());
    expect(std::numeric_limits<double>::denorm_min(), 0);
    expect(std::numeric_limits<double>::min(), 0);
    CHECK(wrong == 0);
}

void check_nan(const Format& format, uint16_t (*narrow)(double), float (*widen)(uint16_t)) {
    const auto quiet = static_cast<uint16_t>(1 << (format.mantissa_bits - 1));
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        if (!std::isnan(format.value(bits))) {
            if (narrow(static_cast<double>(widen(bits))) != bits) ++wrong; // all other values round-trip
        } else if (narrow(static_cast<double>(widen(bits))) != (bits | quiet)) {
            ++wrong;
        }
    }
    CHECK(wrong == 0);
    // A NaN whose payload is only in the dropped bits must not become infinity.
    CHECK(std::isnan(format.value(narrow(std::bit_cast<double>(uint64_t{0x7ff0000000000001})))));
}

template<class T>
std::vector<std::byte> stored(std::vector<T> values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

} // namespace

TEST_CASE("float16: all 65,536 values, all midpoints") {
    check_widening(f16_format, f16_to_float);
    check_narrowing(f16_format, f16_from);
    check_nan(f16_format, f16_from, f16_to_float);
    CHECK(f16_from(65504.0) == 0x7bff);
    CHECK(f16_from(65519.99) == 0x7bff);
    CHECK(f16_from(65520.0) == 0x7c00);
}

TEST_CASE("bfloat16: all 65,536 values, all midpoints") {
    check_widening(bf16_format, bf16_to_float);
    check_narrowing(bf16_format, bf16_from);
    check_nan(bf16_format, bf16_from, bf16_to_float);
}

TEST_CASE("16-bit values are rounded once, from the double itself") {
    // With float32 in between the bits below 2^-24 would be lost, and the tie would round the other way.
    const double value = 1.0 + 0x1p-11 + 0x1p-40;
    CHECK(f16_from(value) == 0x3c01);
    CHECK(f16_from(static_cast<double>(static_cast<float>(value))) == 0x3c00);
    CHECK(bf16_from(1.0 + 0x1p-8 + 0x1p-40) == 0x3f81);
}

TEST_CASE("names and sizes") {
    for (int i = 0; i < kDtypes; ++i) {
        const auto dtype = static_cast<DType>(i);
        CHECK(dtype_named(name_of(dtype)) == dtype);
        CHECK(dtype_of_file_name(file_name_of(dtype)) == dtype);
        CHECK(size_of(dtype) >= 1);
    }
    CHECK_FALSE(dtype_named("F32"));
    CHECK_FALSE(dtype_of_file_name("f32"));
    CHECK_FALSE(dtype_of_file_name("F8_E4M3"));
    CHECK(is_floating(DType::bf16));
    CHECK_FALSE(is_floating(DType::i64));
}

TEST_CASE("every type round-trips through every array") {
    const std::vector<int32_t> small{0, 1, 1, 0};
    const std::vector<int32_t> wide{0, 1, -2, 127, -128, 100};
    for (int i = 0; i < kDtypes; ++i) {
        const auto dtype = static_cast<DType>(i);
        CAPTURE(name_of(dtype));
        const auto& values = dtype == DType::boolean || dtype == DType::u8 ? small : wide;
        std::vector<std::byte> bytes(values.size() * size_of(dtype));
        REQUIRE(from_int32(dtype, values, bytes).ok());
        std::vector<float> singles(values.size());
        std::vector<double> doubles(values.size());
        std::vector<int32_t> back(values.size());
        REQUIRE(to_float32(dtype, bytes, singles).ok());
        REQUIRE(to_float64(dtype, bytes, doubles).ok());
        REQUIRE(to_int32(dtype, bytes, back).ok());
        CHECK(back == values);
        for (std::size_t k = 0; k < values.size(); ++k) {
            CHECK(singles[k] == static_cast<float>(values[k]));
            CHECK(doubles[k] == static_cast<double>(values[k]));
        }
        std::vector<std::byte> again(bytes.size());
        REQUIRE(from_float32(dtype, singles, again).ok());
        CHECK(again == bytes);
        REQUIRE(from_float64(dtype, doubles, again).ok());
        CHECK(again == bytes);
    }
}

TEST_CASE("unaligned bytes") {
    std::vector<std::byte> bytes(1 + 8);
    const double value = -2.5;
    std::memcpy(bytes.data() + 1, &value, 8);
    double out = 0;
    REQUIRE(to_float64(DType::f64, std::span<const std::byte>(bytes).subspan(1), {&out, 1}).ok());
    CHECK(out == value);
}

TEST_CASE("integers are exact or rejected, with the index") {
    std::vector<int32_t> out(2);
    auto status = to_int32(DType::i64, stored<int64_t>({5, int64_t{1} << 31}), out);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message() == "element 1 is 2147483648, which i32 cannot hold exactly");
    CHECK(to_int32(DType::i64,
                   stored<int64_t>({std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}), out)
              .ok());
    CHECK(out[0] == std::numeric_limits<int32_t>::min());
    CHECK(to_int32(DType::f32, stored<float>({1.0f, 0.5f}), out).message() ==
          "element 1 is 0.5, which i32 cannot hold exactly");
    CHECK_FALSE(to_int32(DType::f32, stored<float>({1.0f, std::nanf("")}), out).ok());
    CHECK_FALSE(to_int32(DType::f32, stored<float>({1.0f, 2147483648.0f}), out).ok());
    CHECK(to_int32(DType::f32, stored<float>({1.0f, -2147483648.0f}), out).ok());
    CHECK_FALSE(to_int32(DType::f64, stored<double>({1.0, std::numeric_limits<double>::infinity()}), out).ok());

    std::vector<std::byte> bytes(2);
    CHECK_FALSE(from_int32(DType::u8, std::vector<int32_t>{0, 256}, bytes).ok());
    CHECK_FALSE(from_int32(DType::u8, std::vector<int32_t>{0, -1}, bytes).ok());
    CHECK_FALSE(from_int32(DType::i8, std::vector<int32_t>{-129, 0}, bytes).ok());
    CHECK(from_int32(DType::i8, std::vector<int32_t>{-128, 127}, bytes).ok());
    CHECK_FALSE(from_int32(DType::boolean, std::vector<int32_t>{0, 2}, bytes).ok());
    CHECK_FALSE(from_float32(DType::boolean, std::vector<float>{0, std::nanf("")}, bytes).ok());
    std::vector<std::byte> wide(16);
    CHECK_FALSE(from_float64(DType::i64, std::vector<double>{0, 0x1p63}, wide).ok());
    CHECK(from_float64(DType::i64, std::vector<double>{-0x1p63, 0x1p62}, wide).ok());
}

TEST_CASE("float64 to float32 keeps infinities and NaN and rounds once") {
    const auto bytes = stored<double>({1e300, -1e300, std::nan(""), 1.0 + 0x1p-24, 1.0 + 0x1p-24 + 0x1p-50, -0.0});
    std::vector<float> out(6);
    REQUIRE(to_float32(DType::f64, bytes, out).ok());
    CHECK(out[0] == std::numeric_limits<float>::infinity());
    CHECK(out[1] == -std::numeric_limits<float>::infinity());
    CHECK(std::isnan(out[2]));
    CHECK(out[3] == 1.0f);
    CHECK(out[4] == 1.0f + 0x1p-23f);
    CHECK(std::signbit(out[5]));
    std::vector<float> large(1);
    REQUIRE(to_float32(DType::i64, stored<int64_t>({(int64_t{1} << 60) + (int64_t{1} << 36) + 1}), large).ok());
    CHECK(large[0] == 0x1p60f + 0x1p37f); // once, not through float64, which would create a tie
}

TEST_CASE("a stored bool is true for any byte but 0") {
    std::vector<float> out(3);
    REQUIRE(to_float32(DType::boolean, stored<uint8_t>({0, 1, 255}), out).ok());
    CHECK(out == std::vector<float>{0, 1, 1});
}

TEST_CASE("sizes must match") {
    std::vector<float> out(2);
    std::vector<std::byte> bytes(7);
    CHECK(to_float32(DType::f32, bytes, out).message() == "7 bytes of f32 cannot be 2 elements of 4 bytes");
    bytes.resize(12);
    CHECK_FALSE(to_float32(DType::f32, bytes, out).ok());
    CHECK_FALSE(from_float32(DType::f16, out, bytes).ok());
    CHECK(to_float32(DType::f32, {}, {}).ok());
}

} // namespace dtype_test
