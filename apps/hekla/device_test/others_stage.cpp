// The same training steps in PyTorch, eager and compiled, if it is installed.
#include "base/installed_path.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/last_line.hpp"
#include "base/run_child.hpp"
#include "base/stopwatch.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/lab_stages.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

constexpr const char* kFindPytorch =
    "import torch, transformers; print(torch.__version__, 'cuda' if torch.cuda.is_available() else 'cpu')";

} // namespace

Result<StageOutcome> others_stage(const StageInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    StageOutcome outcome;
    const auto not_compared = [&](const std::string& why) {
        outcome.result["not_measured"] = why;
        outcome.text = "not compared: " + why;
        return outcome;
    };
    const char* const named = std::getenv("PYTHON");
    const std::string python = named != nullptr && *named != '\0' ? named : "python3";
    const auto run = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"/usr/bin/env", python});
        return run_child(arguments, {.seconds = std::max(5.0, input.seconds - seconds_since(begin)),
                                     .stop = [] { return interrupted(); }});
    };
    HK_ASSIGN(const ChildResult found, run({"-c", kFindPytorch}));
    if (found.status != 0)
        return not_compared("PyTorch with transformers is not installed; PYTHON names a Python that has them");
    const std::string version(last_line(found.out));
    const bool cuda = version.ends_with("cuda");
    const report::Line* const device = report::result_of(input.before, "device");
    const bool cpu = device != nullptr && (*device)["device"].value("type", "") == "cpu";
    if (cuda == cpu) return not_compared(fmt::format("PyTorch {} computes on another kind of device", version));
    const report::Line* const cases = report::result_of(input.before, "cases");
    if (cases == nullptr || !cases->contains("cases")) return not_compared("the stage cases has no results");
    const std::string script = installed_path("apps/compare_pytorch.py");
    report::Line runs = report::Line::array();
    std::vector<std::string> texts;
    for (const report::Line& own : (*cases)["cases"]) {
        const std::string name = own.value("case", ""), dtype = own.value("dtype", "");
        if (!own.contains("tokens_per_s") || name.find("lora") != std::string::npos || dtype == "f16") continue;
        for (const bool compiled : {false, true}) {
            const char* const program = compiled ? "PyTorch, compiled" : "PyTorch, eager";
            if (seconds_since(begin) > input.seconds / 2) {
                runs.push_back(
                    {{"program", program}, {"case", name}, {"dtype", dtype}, {"skipped", "no time is left"}});
                texts.push_back(fmt::format("{} {} skipped", name, program));
                continue;
            }
            std::vector<std::string> arguments{script,    "--device", cuda ? "cuda" : "cpu", "--seconds", "2",
                                               "--dtype", dtype};
            if (compiled) arguments.emplace_back("--compile");
            arguments.insert(arguments.end(), {"train", name});
            HK_ASSIGN(const ChildResult measured, run(arguments));
            report::Line row{{"program", program}, {"case", name}, {"dtype", dtype}};
            const report::Line line = ordered_json_or_null(last_line(measured.out));
            if (measured.status == 0 && line.is_object() && line.contains("tokens_per_s"))
                row["tokens_per_s"] = line["tokens_per_s"];
            else
                row["problem"] = measured.timed_out ? "took too long" : last_line(measured.error);
            texts.push_back(row.contains("problem")
                                ? fmt::format("{} {} failed ({})", name, program, row.value("problem", ""))
                                : fmt::format("{} {} {:.0f}", name, program, row.value("tokens_per_s", 0.0)));
            runs.push_back(std::move(row));
        }
    }
    outcome.result = {{"pytorch", version}, {"runs", runs}};
    outcome.text = fmt::format("PyTorch {}, tokens/s: {}", version, fmt::join(texts, ", "));
    return outcome;
}

} // namespace hekla::app
