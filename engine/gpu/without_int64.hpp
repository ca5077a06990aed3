// Shaders for devices without 64-bit integers: SPIR-V in which every 64-bit integer is a vector of two 32-bit ones, low
// word first. Kernels compute addresses in 64 bits; such devices take addresses as vectors
// (SPV_KHR_physical_storage_buffer).
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::gpu {

// Returns the same module without 64-bit integers, and without the capability Int64; unchanged if it has none. Results
// and memory layouts are the same. `words`: a module that Shader has checked. unsupported: an instruction on 64-bit
// integers that no kernel of the engine contains (divisions, signed comparisons, atomics, conversions to floating
// point).
Result<std::vector<uint32_t>> without_int64(std::span<const uint32_t> words);

} // namespace hekla::gpu
