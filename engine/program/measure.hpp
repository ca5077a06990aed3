// Whether kernels are measured.
#pragma once

#include <cstdint>

namespace hekla::program {

// The devices on which kernels are measured. Kernels for CPUs are chosen by rules from measurements (shaders/TRIED.md).
enum class Measure : uint8_t { never, on_gpus, always };

} // namespace hekla::program
