// The capabilities of a device: one plain struct, made from what is *enabled*, masked by the quirk table, then by the
// user. All rooms above gpu/ query this struct and never Vulkan.
#pragma once

#include "gpu/features.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::gpu {

enum class DeviceType : int32_t { other = 0, integrated = 1, discrete = 2, virtual_gpu = 3, cpu = 4 };
const char* device_type_name(DeviceType type);

enum class ComponentType : int32_t { float16, bfloat16, float32, other };

// One shape of VK_KHR_cooperative_matrix at subgroup scope: result[m, n] = a[m, k] * b[k, n] + c[m, n].
struct MatrixShape {
    uint32_t m = 0;
    uint32_t n = 0;
    uint32_t k = 0;
    ComponentType a = ComponentType::other;
    ComponentType b = ComponentType::other;
    ComponentType c = ComponentType::other;
    ComponentType result = ComponentType::other;
};

// Matrices of a whole workgroup (VK_NV_cooperative_matrix2): their sides are multiples of m, n and k, for workgroups of
// this many invocations.
struct WorkgroupMatrix {
    MatrixShape multiples;
    uint32_t invocations = 0;
};

struct Capabilities {
    // Identity.
    std::string device_name;
    std::string driver_name; // "llvmpipe", "radv", ...
    std::string driver_info; // the driver's own version string
    uint32_t vendor_id = 0;
    uint32_t device_id = 0;
    uint32_t driver_id = 0;      // VkDriverId
    uint32_t driver_version = 0; // packed in a vendor-specific way
    uint32_t api_version = 0;
    DeviceType type = DeviceType::other;
    std::array<uint8_t, 16> device_uuid{};
    std::array<uint8_t, 16> driver_uuid{};
    std::array<uint8_t, 16> pipeline_cache_uuid{};

    // Optional bits. Names are those of `capability_names()`, in the quirk table and in overrides.
    bool storage_16bit = false; // 16-bit loads and stores through addresses
    bool storage_8bit = false;
    bool float16 = false; // arithmetic
    bool int64 = false;   // without: kernels are rewritten (without_int64.hpp)
    bool int16 = false;
    bool int8 = false;
    bool float64 = false;
    bool bfloat16 = false;
    bool integer_dot_product = false;
    bool cooperative_matrix = false;
    bool bfloat16_cooperative_matrix = false;
    // Functions of a matrix's elements, sums of columns and conversions of sums to factors, in SPIR-V 1.6
    // (VK_NV_cooperative_matrix2).
    bool cooperative_matrix_elements = false;
    // Matrices of a whole workgroup, and loads of them from tensors, in SPIR-V 1.6 (VK_NV_cooperative_matrix2).
    bool cooperative_matrix_workgroups = false;
    bool subgroup_clock = false; // VK_KHR_shader_clock
    bool spirv_1_6 = false;      // Vulkan 1.3 with maintenance4, which LocalSizeId needs
    bool subgroup_size_control = false;
    bool full_subgroups = false;
    bool subgroup_arithmetic = false; // in compute shaders, as are the next two
    bool subgroup_shuffle = false;
    bool subgroup_ballot = false;
    bool subgroup_extended_types = false; // subgroup operations on 16- and 64-bit types
    bool memory_model = false;            // Vulkan's memory model, including device scope
    bool uniform_loads = false;           // a load with the same address in all lanes is executed as one load
    bool long_kernels = false;            // the compiler handles kernels with thousands of instructions in seconds
    bool many_registers = false;          // an invocation can have 200 registers of 32 bits or more, without spills
    bool registers_at_any_width = false;  // as many in wide subgroups as in narrow ones
    // Eight subgroups of 32 such invocations fit into the registers of a SIMD unit at the same time, or no extension
    // tells how many registers it has.
    bool large_register_file = false;
    bool timestamps = false;
    bool memory_budget = false;
    bool mapped_device_memory = false; // device memory is host-visible (unified memory, a CPU): no staging copies

    // Limits.
    uint32_t subgroup_size = 0; // default of a pipeline that requires none
    uint32_t min_subgroup_size = 0;
    uint32_t max_subgroup_size = 0;
    uint32_t max_subgroups_per_workgroup = 0; // with a required subgroup size
    uint32_t shared_memory_bytes = 0;         // per workgroup
    uint32_t cores = 0;                       // compute units or streaming multiprocessors; 0: no extension tells
    uint32_t max_workgroup_invocations = 0;
    std::array<uint32_t, 3> max_workgroup_size{};
    std::array<uint32_t, 3> max_groups{}; // per dispatch, in each dimension
    uint64_t max_allocation_bytes = 0;    // per vkAllocateMemory
    uint64_t max_buffer_bytes = 0;        // per VkBuffer
    uint32_t max_allocations = 0;         // at the same time
    uint64_t device_memory_bytes = 0;     // the largest device-local heap
    bool display = false;                 // a display is connected to the device; false where nothing tells
    double timestamp_nanoseconds = 0;     // per tick
    uint32_t timestamp_bits = 0;
    std::vector<MatrixShape> matrix_shapes; // empty without cooperative_matrix

    std::vector<WorkgroupMatrix> workgroup_matrices; // empty without cooperative_matrix_workgroups
    uint32_t workgroup_matrix_side = 0;              // at most, of each side of these
    uint32_t workgroup_matrix_shared_bytes = 0;      // of a workgroup's shared memory, which they take

    std::vector<std::string> taken_away; // one line per bit or limit that quirks or the user lowered, with the reason
};

// Restrictions by a user (or a test). Nothing can be added.
struct CapabilityOverrides {
    std::vector<std::string> disable; // names of bits: "float16", "timestamps", ...
    std::optional<uint32_t> shared_memory_bytes;
    std::optional<uint32_t> max_groups; // in every dimension
    std::optional<uint32_t> max_workgroup_invocations;
    std::optional<uint64_t> max_allocation_bytes;
};

// Reads properties of `physical` and combines them with what is enabled. `queue_family` determines timestamps;
// `api_version` is the version in use, at most the device's own.
Result<Capabilities> query_capabilities(const Functions& functions, VkPhysicalDevice physical, uint32_t queue_family,
                                        const Features& enabled, uint32_t api_version);

std::vector<std::string_view> capability_names();

// Clears one bit and records the reason; bits that depend on it are cleared too (cooperative_matrix clears
// bfloat16_cooperative_matrix, cooperative_matrix_elements and ..._workgroups; float16 and storage_16bit clear none).
// Unknown names: invalid_argument, with the nearest known one.
Status take_away(Capabilities& capabilities, std::string_view name, std::string_view reason);
// Returns what every kernel needs and this device lacks: "subgroup_shuffle", "workgroups of 128 invocations (64 are
// possible)". Empty: it can be used.
std::vector<std::string> missing_capabilities(const Capabilities& capabilities);
// Returns null if the bit does not exist.
const bool* find_capability(const Capabilities& capabilities, std::string_view name);

// Limits can only be lowered: an override above the device's own value is refused.
Status apply_overrides(Capabilities& capabilities, const CapabilityOverrides& overrides);

} // namespace hekla::gpu
