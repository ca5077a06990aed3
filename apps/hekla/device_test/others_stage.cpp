// The same training steps in PyTorch, eager and compiled, and the same tokens in llama.cpp, if they are installed.
#include "base/installed_path.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/last_line.hpp"
#include "base/run_child.hpp"
#include "base/stopwatch.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/lab_stages.hpp"
#include "device_test/llama_cpp.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

constexpr const char* kFindPytorch =
    "import torch, transformers; print(torch.__version__, 'cuda' if torch.cuda.is_available() else 'cpu')";

using Clock = std::chrono::steady_clock;

// What one program did.
struct Compared {
    report::Line runs = report::Line::array();
    std::string version, not_measured; // one of them
    std::vector<std::string> texts;
};

Result<Compared> with_pytorch(const StageInput& input, const report::Line& cases, bool cpu, Clock::time_point begin) {
    Compared compared;
    const char* const named = std::getenv("PYTHON");
    const std::string python = named != nullptr && *named != '\0' ? named : "python3";
    const auto run = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"/usr/bin/env", python});
        return run_child(arguments, {.seconds = std::max(5.0, input.seconds - seconds_since(begin)),
                                     .stop = [] { return interrupted(); }});
    };
    HK_ASSIGN(const ChildResult found, run({"-c", kFindPytorch}));
    if (found.status != 0) {
        compared.not_measured = "PyTorch with transformers is not installed; PYTHON names a Python that has them";
        return compared;
    }
    compared.version = last_line(found.out);
    const bool cuda = compared.version.ends_with("cuda");
    if (cuda == cpu) {
        compared.not_measured = fmt::format("PyTorch {} computes on another kind of device", compared.version);
        return compared;
    }
    const std::string script = installed_path("apps/compare_pytorch.py");
    for (const report::Line& own : cases) {
        const std::string name = own.value("case", ""), dtype = own.value("dtype", "");
        if (!own.contains("tokens_per_s") || name.find("lora") != std::string::npos || dtype == "f16") continue;
        for (const bool compiled : {false, true}) {
            const char* const program = compiled ? "PyTorch, compiled" : "PyTorch, eager";
            report::Line row{{"program", program}, {"case", name}, {"dtype", dtype}};
            if (seconds_since(begin) > input.seconds / 2) {
                row["skipped"] = "no time is left";
                compared.texts.push_back(fmt::format("{} {} skipped", name, program));
                compared.runs.push_back(std::move(row));
                continue;
            }
            std::vector<std::string> arguments{script,    "--device", cuda ? "cuda" : "cpu", "--seconds", "2",
                                               "--dtype", dtype};
            if (compiled) arguments.emplace_back("--compile");
            arguments.insert(arguments.end(), {"train", name});
            HK_ASSIGN(const ChildResult measured, run(arguments));
            const report::Line line = ordered_json_or_null(last_line(measured.out));
            if (measured.status == 0 && line.is_object() && line.contains("tokens_per_s"))
                row["tokens_per_s"] = line["tokens_per_s"];
            else
                row["problem"] = measured.timed_out ? "took too long" : last_line(measured.error);
            compared.texts.push_back(row.contains("problem")
                                         ? fmt::format("{} {} failed ({})", name, program, row.value("problem", ""))
                                         : fmt::format("{} {} {:.0f}", name, program, row.value("tokens_per_s", 0.0)));
            compared.runs.push_back(std::move(row));
        }
    }
    return compared;
}

// Tokens in float32, as the stage cases has generated them.
Result<Compared> with_llama_cpp(const StageInput& input, const report::Line& cases, bool cpu, Clock::time_point begin) {
    Compared compared;
    HK_ASSIGN(const bool found, finds_llama_cpp());
    if (!found) {
        compared.not_measured = "llama-bench is not on the PATH";
        return compared;
    }
    const plugin::Registry registry = scan_plugins(input.globals);
    for (const report::Line& own : cases) {
        const BenchCase* const c = find_bench_case(own.value("case", ""));
        if (c == nullptr || own.value("generate_tokens_per_s", 0.0) <= 0) continue;
        const double left = input.seconds - seconds_since(begin);
        report::Line row{{"program", "llama.cpp"}, {"case", c->name}, {"dtype", "f32"}};
        if (left < 5.0) {
            row["skipped"] = "no time is left";
        } else {
            HK_ASSIGN(row, generate_with_llama_cpp(registry, *c, cpu, left));
        }
        compared.texts.push_back(row.contains("skipped") ? fmt::format("{} skipped", c->name)
                                 : row.contains("problem")
                                     ? fmt::format("{} failed ({})", c->name, row.value("problem", ""))
                                     : fmt::format("{} {:.0f}", c->name, row.value("generate_tokens_per_s", 0.0)));
        if (row.contains("build")) compared.version = fmt::format("{}", row.value("build", 0));
        compared.runs.push_back(std::move(row));
    }
    return compared;
}

} // namespace

Result<StageOutcome> others_stage(const StageInput& input) {
    const auto begin = Clock::now();
    StageOutcome outcome;
    const report::Line* const cases = report::result_of(input.before, "cases");
    if (cases == nullptr || !cases->contains("cases")) {
        outcome.result["not_measured"] = "the stage cases has no results";
        outcome.text = "not compared: the stage cases has no results";
        return outcome;
    }
    const report::Line* const device = report::result_of(input.before, "device");
    const bool cpu = device != nullptr && (*device)["device"].value("type", "") == "cpu";
    HK_ASSIGN(Compared pytorch, with_pytorch(input, (*cases)["cases"], cpu, begin));
    HK_ASSIGN(Compared llama, with_llama_cpp(input, (*cases)["cases"], cpu, begin));
    outcome.result["runs"] = report::Line::array();
    for (const auto& [name, key, compared] :
         {std::tuple{"PyTorch", "pytorch", &pytorch}, std::tuple{"llama.cpp", "llama_cpp", &llama}}) {
        outcome.result[key] = compared->not_measured.empty() ? report::Line(compared->version)
                                                             : report::Line{{"not_measured", compared->not_measured}};
        for (report::Line& run : compared->runs) outcome.result["runs"].push_back(std::move(run));
        if (!outcome.text.empty()) outcome.text += "; ";
        outcome.text +=
            compared->not_measured.empty()
                ? fmt::format("{} {}, tokens/s: {}", name, compared->version, fmt::join(compared->texts, ", "))
                : fmt::format("{} not compared: {}", name, compared->not_measured);
    }
    return outcome;
}

} // namespace hekla::app
