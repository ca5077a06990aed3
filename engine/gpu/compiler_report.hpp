// What a driver's compiler reports about a pipeline (VK_KHR_pipeline_executable_properties): registers, spills,
// instructions, and its intermediate and final code. Needs DeviceOptions::compiler_reports.
#pragma once

#include "gpu/device.hpp"
#include "gpu/pipeline.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hekla::gpu {

struct CompilerStatistic {
    std::string name, description; // the driver's words
    double value = 0;              // a bool is 0 or 1
};

// One form of the code: "NIR Shader(s)", "ACO IR", "Assembly", ...
struct CompilerText {
    std::string name;
    std::string text;
};

// One executable that the driver made of a pipeline. Some drivers make a second one that runs before it.
struct CompilerReport {
    std::string name;
    uint32_t subgroup_size = 0;
    std::vector<CompilerStatistic> statistics;
    std::vector<CompilerText> texts; // empty unless requested
};

// Returns the reports of a pipeline; empty if the device has none. texts: also the code. Thread: any.
Result<std::vector<CompilerReport>> compiler_reports(const Device& device, const Pipeline& pipeline, bool texts);

// The statistics that most drivers report, by common names; without a value where a driver does not report it.
struct KernelStatistics {
    std::optional<double> registers;     // 32-bit registers an invocation
    std::optional<double> spills;        // registers stored to memory and loaded again for lack of registers
    std::optional<double> scratch_bytes; // memory an invocation for spills and arrays
    std::optional<double> shared_bytes;  // shared memory a workgroup
    std::optional<double> waves;         // subgroups that a core or SIMD unit holds at the same time
    std::optional<double> instructions;
};
// Combines the executables of a pipeline: the largest of each, the fewest waves, and the sum of instructions.
KernelStatistics kernel_statistics(const std::vector<CompilerReport>& reports);

} // namespace hekla::gpu
