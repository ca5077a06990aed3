// Element types of stored tensors, and conversions between them and the arrays the engine computes with.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::model {

// In the reverse order of Hugging Face's writer (safetensors.hpp): never reorder.
enum class DType : int32_t { boolean, u8, i8, i16, f16, bf16, i32, f32, f64, i64 };

inline constexpr int kDtypes = 10;

std::size_t size_of(DType dtype);                               // bytes of one element
std::string_view name_of(DType dtype);                          // "f32", "bool", ...
std::string_view file_name_of(DType dtype);                     // as in a safetensors header: "F32", "BOOL", ...
bool is_floating(DType dtype);                                  // f16 bf16 f32 f64
std::optional<DType> dtype_named(std::string_view name);        // of name_of
std::optional<DType> dtype_of_file_name(std::string_view name); // of file_name_of

// Converts one value to 16 bits, rounded once to the nearest, ties to even; overflow becomes infinite; NaN stays NaN
// (quiet, with its sign and the upper bits of its payload), infinities and signed zeros are kept.
uint16_t f16_from(double value);
uint16_t bf16_from(double value);
// Converts one value from 16 bits, always exactly.
float f16_to_float(uint16_t bits);
float bf16_to_float(uint16_t bits);

// Convert arrays. `bytes` may have any alignment and must hold exactly as many elements as the other side,
// little-endian. To a floating type: rounded once, to the nearest, ties to even. To an integer or bool: the value must
// be a whole number within the range (0 or 1 for bool), otherwise invalid_argument contains the first invalid element;
// values are never rounded or clamped silently. A stored bool is true for any byte but 0. On error the output's content
// is unspecified.
Status to_float32(DType dtype, std::span<const std::byte> bytes, std::span<float> out);
Status to_float64(DType dtype, std::span<const std::byte> bytes, std::span<double> out);
Status to_int32(DType dtype, std::span<const std::byte> bytes, std::span<int32_t> out);
Status from_float32(DType dtype, std::span<const float> in, std::span<std::byte> bytes);
Status from_float64(DType dtype, std::span<const double> in, std::span<std::byte> bytes);
Status from_int32(DType dtype, std::span<const int32_t> in, std::span<std::byte> bytes);

} // namespace hekla::model
