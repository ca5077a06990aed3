// The device properties that lowering depends on.
#pragma once

#include "program/lowering/view.hpp"

#include <cstdint>

namespace hekla::program {

// A matrix multiplication in hardware, of a whole subgroup: [m, k] x [k, n] in 16 bits, sums in float32. 0: none.
struct MatrixUnit {
    uint32_t m = 0, n = 0, k = 0;
    explicit operator bool() const { return m != 0; }
};

// Limits for lowering; plain numbers, so that lowering runs (and is tested) without a device.
struct Limits {
    uint32_t subgroup_size = 8;
    uint32_t max_group_invocations = 256;
    uint32_t shared_memory = 16384;
    uint32_t cores = 64; // compute units or streaming multiprocessors; a guess where the device does not tell
    bool storage16 = false;
    bool cpu = false;                   // the device is a CPU: prefer kernels without shared memory
    bool uniform_loads = false;         // the capability of that name: kernels with such loads are preferred
    MatrixUnit matrix_f16, matrix_bf16; // for factors in this storage, if there are kernels for it
    bool long_kernels = true;           // the capability of that name: otherwise the shortest kernels are chosen
    bool many_registers = true;         // the capability of that name
    bool generated_shaders = true;      // runtime GLSL is available
    bool chains = true;                 // CompileOptions::chained is followed; not with kernels compiled in advance
    bool compiles_slowly = false;       // prefer less code: the kernels of GPUs on a CPU

    MatrixUnit matrix_unit(Storage factors) const {
        return factors == Storage::f16 ? matrix_f16 : factors == Storage::bf16 ? matrix_bf16 : MatrixUnit{};
    }
};

} // namespace hekla::program
