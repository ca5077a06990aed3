#include "report/summary.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::report {
namespace {

std::string device_text(const std::vector<Line>& lines) {
    const Line* const found = result_of(lines, "device");
    if (found == nullptr || !found->contains("device")) return "no device that can be used";
    const Line& device = (*found)["device"];
    return fmt::format("{} | {} {} | Vulkan {}", device.value("name", "?"), device.value("driver", "?"),
                       device.value("driver_info", ""), device.value("vulkan", "?"));
}

// Returns "models FAIL" or "models not run" for a stage without right results; empty otherwise.
std::string failure_of(const std::vector<Line>& lines, const char* stage) {
    if (passed(lines, stage)) return {};
    for (const Line& line : lines)
        if (line.value("stage", "") == stage && line.contains("ok")) return fmt::format("{} FAIL", stage);
    return fmt::format("{} not run", stage);
}

std::string models_text(const std::vector<Line>& lines) {
    std::vector<std::string> counts;
    if (const Line* const models = result_of(lines, "models"))
        for (const auto& [precision, of] : models->items())
            counts.push_back(fmt::format("{} {}/{}", precision, of.value("right", 0), of.value("of", 0)));
    return counts.empty() ? failure_of(lines, "models") : fmt::format("models {}", fmt::join(counts, " "));
}

// The names of the largest models of a use in the stage plan.
std::string largest(const Line& plan, const char* use) {
    std::string name = "none";
    if (plan.contains("models"))
        for (const auto& [shape, uses] : plan["models"].items())
            if (uses.contains(use) && uses[use].value("context", 0) > 0) name = shape;
    return name;
}

std::string rate_text(double per_second) {
    return per_second >= 1e12 ? fmt::format("{:.1f} TFLOP/s", per_second / 1e12)
                              : fmt::format("{:.0f} GFLOP/s", per_second / 1e9);
}

void add_test(const std::vector<Line>& lines, std::vector<std::string>& parts) {
    parts.push_back(models_text(lines));
    for (const char* stage : {"training", "generation"}) {
        const std::string failure = failure_of(lines, stage);
        parts.push_back(!failure.empty()                   ? failure
                        : std::string(stage) == "training" ? "resume equal"
                                                           : "generation equal");
    }
    if (const Line* const plan = result_of(lines, "plan"))
        parts.push_back(fmt::format("up to: generate {}, LoRA {}, whole {}", largest(*plan, "generates"),
                                    largest(*plan, "trains_lora"), largest(*plan, "trains_all")));
    else
        parts.push_back(failure_of(lines, "plan"));
}

void add_lab(const std::vector<Line>& lines, std::vector<std::string>& parts) {
    if (const Line* const memory = result_of(lines, "memory"); memory != nullptr && memory->contains("copy_gb_per_s"))
        parts.push_back(fmt::format("copy {:.0f} GB/s", memory->value("copy_gb_per_s", 0.0)));
    if (const Line* const units = result_of(lines, "units"); units != nullptr && units->contains("peak_flops"))
        for (const auto& [type, flops] : (*units)["peak_flops"].items())
            parts.push_back(fmt::format("{} {}", type, rate_text(flops.get<double>())));
    if (const Line* const cases = result_of(lines, "cases"); cases != nullptr && cases->contains("cases"))
        for (const Line& one : (*cases)["cases"])
            if (one.contains("tokens_per_s"))
                parts.push_back(fmt::format("{} {} {:.0f} tokens/s", one.value("case", ""), one.value("dtype", ""),
                                            one.value("tokens_per_s", 0.0)));
    std::vector<std::string> failed;
    for (const Line& line : lines)
        if (line.contains("stage") && line.contains("ok") && !line.value("ok", false))
            failed.push_back(line.value("stage", ""));
    if (!failed.empty()) parts.push_back(fmt::format("FAIL: {}", fmt::join(failed, ", ")));
}

} // namespace

std::string summary_of(const std::vector<Line>& lines) {
    if (lines.empty()) return {};
    std::vector<std::string> parts{fmt::format("hekla {}", lines.front().value("hekla", "?")), device_text(lines)};
    if (passed(lines, "device")) {
        if (lines.front().value("report", "") == "lab")
            add_lab(lines, parts);
        else
            add_test(lines, parts);
    }
    return fmt::format("{}", fmt::join(parts, " | "));
}

} // namespace hekla::report
