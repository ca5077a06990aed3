// The device properties that lowering depends on.
#pragma once

#include <cstdint>

namespace hekla::program {

// Limits for lowering; plain numbers, so that lowering runs (and is tested) without a device.
struct Limits {
    uint32_t subgroup_size = 8;
    uint32_t max_group_invocations = 256;
    uint32_t shared_memory = 16384;
    uint32_t cores = 64; // compute units or streaming multiprocessors; a guess where the device does not tell
    bool storage16 = false;
    bool cpu = false;              // the device is a CPU: prefer kernels without shared memory
    bool uniform_loads = false;    // the capability of that name: kernels with such loads are preferred
    bool many_registers = true;    // the capability of that name
    bool generated_shaders = true; // runtime GLSL is available
    bool compiles_slowly = false;  // prefer less code: the kernels of GPUs in tests on a CPU
};

} // namespace hekla::program
