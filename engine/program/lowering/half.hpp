// float16 and bfloat16 as bits, on the host: the same rounding as shaders/half.glsl.
#pragma once

#include "program/lowering/view.hpp"

namespace hekla::program {

// Rounds to the nearest, ties to even; values beyond float16's range become infinite. `storage` is f16 or bf16.
uint16_t to_half(Storage storage, float x);
float from_half(Storage storage, uint16_t bits); // exact

const char* storage_name(Storage storage); // "f32" "f16" "bf16" "i32"

} // namespace hekla::program
