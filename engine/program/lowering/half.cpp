#include "program/lowering/half.hpp"

#include <bit>

namespace hekla::program {

namespace {

uint16_t to_float16(float x) {
    const auto all = std::bit_cast<uint32_t>(x);
    const auto sign = static_cast<uint16_t>(all >> 16 & 0x8000u);
    const uint32_t bits = all & 0x7FFFFFFFu;
    uint32_t y = 0;
    if (bits > 0x7F800000u)
        y = 0x7E00u; // NaN
    else if (bits >= 0x477FF000u)
        y = 0x7C00u; // 65520 and above
    else if (bits < 0x38800000u)
        // Below 2^-14 the unit is 2^-24, to which a sum with 0.5 is rounded.
        y = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - 0x3F000000u;
    else
        y = (bits + 0xFFFu + (bits >> 13 & 1u) - 0x38000000u) >> 13;
    return static_cast<uint16_t>(sign | y);
}

float from_float16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 0x1Fu;
    const uint32_t fraction = bits & 0x3FFu;
    if (exponent == 0) {
        const float x = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -x : x;
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

} // namespace

uint16_t to_half(Storage storage, float x) {
    if (storage == Storage::f16) return to_float16(x);
    const auto bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float from_half(Storage storage, uint16_t bits) {
    if (storage == Storage::f16) return from_float16(bits);
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

const char* storage_name(Storage storage) {
    switch (storage) {
    case Storage::f32: return "f32";
    case Storage::f16: return "f16";
    case Storage::bf16: return "bf16";
    case Storage::i32: return "i32";
    }
    return "";
}

} // namespace hekla::program
