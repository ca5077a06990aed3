#include "gpu/compiler_report.hpp"

#include "gpu/enumerate.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace hekla::gpu {
namespace {

using Field = std::optional<double> KernelStatistics::*;

// The drivers' names of a statistic. A driver that divides one into several (spilled scalar and vector registers) has a
// row for each; they are added.
struct Known {
    const char* name;
    Field field;
    double factor = 1.0;
    bool of_subgroup = false; // divided by CompilerReport::subgroup_size
};
constexpr Known kKnown[] = {
    // RADV (AMD). A spilled scalar register is stored in a lane of a vector register, not in memory.
    {"VGPRs", &KernelStatistics::registers},
    {"Spilled VGPRs", &KernelStatistics::spills},
    {"Scratch size", &KernelStatistics::scratch_bytes},
    {"LDS size", &KernelStatistics::shared_bytes},
    {"Subgroups per SIMD", &KernelStatistics::waves},
    {"Instructions", &KernelStatistics::instructions}, // Honeykrisp too
    // NVK (NVIDIA). Registers are also spilled to uniform registers and predicates, which costs no memory.
    {"Number of GPRs", &KernelStatistics::registers},
    {"Spills to memory", &KernelStatistics::spills},
    {"SLM size", &KernelStatistics::scratch_bytes},
    {"Max warps/SM", &KernelStatistics::waves},
    {"Instruction count", &KernelStatistics::instructions},
    // Turnip (Adreno): registers of four 32-bit values; STP stores a spilled one.
    {"Registers used", &KernelStatistics::registers, 4.0},
    {"STP Count", &KernelStatistics::spills},
    {"Max Waves Per Core", &KernelStatistics::waves},
    {"Instruction Count", &KernelStatistics::instructions},
    // Honeykrisp (Apple): registers of 16 bits; threads of a core in place of waves of 32.
    {"GPRs", &KernelStatistics::registers, 0.5},
    {"Spills", &KernelStatistics::spills},
    {"Scratch", &KernelStatistics::scratch_bytes},
    {"Threads", &KernelStatistics::waves, 1.0 / 32.0},
    // ANV (Intel): "Instruction Count" as Turnip; scratch memory of a whole subgroup.
    {"Spill Count", &KernelStatistics::spills},
    {"Scratch Memory Size", &KernelStatistics::scratch_bytes, 1.0, true},
    {"Workgroup Memory Size", &KernelStatistics::shared_bytes},
};

std::string text_of(const char* from, std::size_t size) { return {from, strnlen(from, size)}; }

double value_of(const VkPipelineExecutableStatisticKHR& s) {
    switch (s.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s.value.b32 != 0 ? 1.0 : 0.0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return static_cast<double>(s.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return s.value.f64;
    default: return static_cast<double>(s.value.u64);
    }
}

Result<std::vector<CompilerText>> texts_of(const Device& device, const VkPipelineExecutableInfoKHR& which) {
    const Functions& f = device.functions();
    constexpr const char* kCall = "vkGetPipelineExecutableInternalRepresentationsKHR";
    VkPipelineExecutableInternalRepresentationKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    HK_ASSIGN(std::vector<VkPipelineExecutableInternalRepresentationKHR> found,
              enumerate<VkPipelineExecutableInternalRepresentationKHR>(
                  kCall,
                  [&](uint32_t* count, VkPipelineExecutableInternalRepresentationKHR* to) {
                      return f.vkGetPipelineExecutableInternalRepresentationsKHR(device.handle(), &which, count, to);
                  },
                  empty));
    std::vector<std::string> contents; // the second call writes into them
    for (VkPipelineExecutableInternalRepresentationKHR& one : found) contents.emplace_back(one.dataSize, '\0');
    for (std::size_t i = 0; i < found.size(); ++i) found[i].pData = contents[i].data();
    auto count = static_cast<uint32_t>(found.size());
    HK_TRY(device.check(
        f.vkGetPipelineExecutableInternalRepresentationsKHR(device.handle(), &which, &count, found.data()), kCall));
    std::vector<CompilerText> texts;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].isText != VK_TRUE) continue;
        contents[i].resize(strnlen(contents[i].data(), contents[i].size()));
        texts.push_back({text_of(found[i].name, sizeof found[i].name), std::move(contents[i])});
    }
    return texts;
}

} // namespace

Result<std::vector<CompilerReport>> compiler_reports(const Device& device, const Pipeline& pipeline, bool texts) {
    const Functions& f = device.functions();
    if (!device.compiler_reports() || f.vkGetPipelineExecutablePropertiesKHR == nullptr ||
        f.vkGetPipelineExecutableStatisticsKHR == nullptr ||
        f.vkGetPipelineExecutableInternalRepresentationsKHR == nullptr)
        return std::vector<CompilerReport>();
    VkPipelineInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR;
    info.pipeline = pipeline.handle();
    VkPipelineExecutablePropertiesKHR none{};
    none.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    HK_ASSIGN(const std::vector<VkPipelineExecutablePropertiesKHR> executables,
              enumerate<VkPipelineExecutablePropertiesKHR>(
                  "vkGetPipelineExecutablePropertiesKHR",
                  [&](uint32_t* count, VkPipelineExecutablePropertiesKHR* to) {
                      return f.vkGetPipelineExecutablePropertiesKHR(device.handle(), &info, count, to);
                  },
                  none));
    std::vector<CompilerReport> reports;
    for (uint32_t i = 0; i < executables.size(); ++i) {
        CompilerReport report;
        report.name = text_of(executables[i].name, sizeof executables[i].name);
        report.subgroup_size = executables[i].subgroupSize;
        VkPipelineExecutableInfoKHR which{};
        which.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
        which.pipeline = pipeline.handle();
        which.executableIndex = i;
        VkPipelineExecutableStatisticKHR empty{};
        empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
        HK_ASSIGN(const std::vector<VkPipelineExecutableStatisticKHR> found,
                  enumerate<VkPipelineExecutableStatisticKHR>(
                      "vkGetPipelineExecutableStatisticsKHR",
                      [&](uint32_t* count, VkPipelineExecutableStatisticKHR* to) {
                          return f.vkGetPipelineExecutableStatisticsKHR(device.handle(), &which, count, to);
                      },
                      empty));
        for (const VkPipelineExecutableStatisticKHR& s : found)
            report.statistics.push_back(
                {text_of(s.name, sizeof s.name), text_of(s.description, sizeof s.description), value_of(s)});
        if (texts) { HK_ASSIGN(report.texts, texts_of(device, which)); }
        reports.push_back(std::move(report));
    }
    return reports;
}

KernelStatistics kernel_statistics(const std::vector<CompilerReport>& reports) {
    KernelStatistics all;
    for (const CompilerReport& report : reports) {
        KernelStatistics one;
        for (const CompilerStatistic& s : report.statistics)
            for (const Known& known : kKnown)
                if (s.name == known.name)
                    one.*known.field =
                        (one.*known.field).value_or(0.0) +
                        s.value * known.factor / (known.of_subgroup ? std::max(1u, report.subgroup_size) : 1u);
        for (const Field field :
             {&KernelStatistics::registers, &KernelStatistics::spills, &KernelStatistics::scratch_bytes,
              &KernelStatistics::shared_bytes, &KernelStatistics::waves, &KernelStatistics::instructions}) {
            if (!(one.*field)) continue;
            const double value = *(one.*field), before = (all.*field).value_or(value);
            if (field == &KernelStatistics::instructions)
                all.*field = (all.*field).value_or(0.0) + value;
            else
                all.*field = field == &KernelStatistics::waves ? std::min(before, value) : std::max(before, value);
        }
    }
    return all;
}

} // namespace hekla::gpu
