// The device properties that lowering depends on.
#pragma once

#include "program/lowering/view.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace hekla::program {

class SpillCounts;

// A matrix multiplication in hardware, of a whole subgroup: [m, k] x [k, n] in 16 bits, sums in float32. 0: none.
struct MatrixUnit {
    uint32_t m = 0, n = 0, k = 0;
    explicit operator bool() const { return m != 0; }
};

// Limits for lowering; plain numbers and counts, so that lowering runs (and is tested) without a device.
struct Limits {
    uint32_t subgroup_size = 8; // the driver's choice, and that of kernels for which it does not matter
    // Sizes that a kernel can require are the powers of two from min to max; 0: only subgroup_size.
    uint32_t min_subgroup_size = 0, max_subgroup_size = 0;
    uint32_t max_subgroups = 0; // per workgroup that requires a size; 0: any number
    uint32_t max_group_invocations = 256;
    uint32_t shared_memory = 16384;
    uint32_t cores = 64; // compute units or streaming multiprocessors; a guess where the device does not tell
    bool storage16 = false;
    bool cpu = false;                   // the device is a CPU: prefer kernels without shared memory
    bool uniform_loads = false;         // the capability of that name: kernels with such loads are preferred
    MatrixUnit matrix_f16, matrix_bf16; // for factors in this storage, if there are kernels for it
    bool matrix_elements = false;       // attention by functions of a matrix's elements, if there are kernels for it
    bool long_kernels = true;           // the capability of that name: otherwise the shortest kernels are chosen
    bool many_registers = true;         // the capability of that name
    bool registers_at_any_width = true; // the capability of that name
    bool large_register_file = true;    // the capability of that name
    bool generated_shaders = true;      // runtime GLSL is available
    bool chains = true;                 // CompileOptions::chained is followed; not with kernels compiled in advance
    bool compiles_slowly = false;       // prefer less code: the kernels of GPUs on a CPU
    std::shared_ptr<SpillCounts> spills = nullptr; // null: spilled registers are not known

    // A CPU's driver multiplies matrices lane by lane (Mesa 26.2's crashes with 16 lanes), and no kernel for CPUs does.
    MatrixUnit matrix_unit(Storage factors) const {
        if (cpu) return {};
        return factors == Storage::f16 ? matrix_f16 : factors == Storage::bf16 ? matrix_bf16 : MatrixUnit{};
    }

    // Whether kernels are preferred that suit a GPU: wide loads, shared memory, several subgroups.
    bool kernels_of_gpus() const { return !cpu && !uniform_loads; }

    // Returns the subgroup size of a kernel whose lanes need many registers: the driver's choice, unless lanes of
    // narrow subgroups have more registers.
    uint32_t subgroup_of_many_registers() const {
        if (cpu || registers_at_any_width || min_subgroup_size == 0) return subgroup_size;
        return std::min(subgroup_size, std::max(min_subgroup_size, 16u));
    }
    // Returns the sizes that a workgroup with this number of invocations can require.
    std::vector<uint32_t> subgroup_sizes(uint32_t invocations) const {
        if (min_subgroup_size == 0) return {subgroup_size};
        std::vector<uint32_t> sizes;
        for (uint32_t size = min_subgroup_size; size <= max_subgroup_size; size *= 2)
            if (max_subgroups == 0 || invocations <= size * max_subgroups) sizes.push_back(size);
        return sizes;
    }
    Limits with_subgroups_of(uint32_t size) const {
        Limits limits = *this;
        limits.subgroup_size = size;
        return limits;
    }
};

} // namespace hekla::program
