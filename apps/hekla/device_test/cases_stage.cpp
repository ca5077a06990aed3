// Training steps and generated tokens of the cases of `hekla bench`, and the row kernels of a step.
#include "base/stopwatch.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/lab_stages.hpp"
#include "device_test/test_stages.hpp"
#include "lab/kernel.hpp"
#include "measured_case.hpp"
#include "program/lowering/half.hpp"
#include "program/runtime.hpp"
#include "verification.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

// A step reaches at least this share of the peak, and compilation takes at most this long.
constexpr double kShareOfPeak = 0.1, kSecondsToCompile = 4;
constexpr int64_t kStepsOfCase = 8; // at least, with those that warm up

// That in which a model is trained on such a device.
program::Storage usual_precision(const program::Runtime& runtime) {
    for (const program::Storage storage : {program::Storage::bf16, program::Storage::f16})
        if (runtime.device_limits().matrix_unit(storage)) return storage;
    return program::Storage::f32;
}

// Compares a model with its reference first. Returns what is wrong.
Result<std::string> check_training(program::Runtime& runtime, const plugin::Registry& registry, const Log& log,
                                   program::Storage precision) {
    HK_ASSIGN(const std::filesystem::path packed, packed_fixtures());
    FixtureReport report;
    HK_TRY(verify_fixture(registry, &runtime, packed / "gpt2", log, precision, report));
    if (report.pass()) return std::string();
    return fmt::format("a model in {} differs from its reference: outputs by {:.1e} of at most {:.1e}, gradients by "
                       "{:.1e} of {:.1e}",
                       program::storage_name(precision), report.outputs.error, report.bars.outputs,
                       report.gradients.error, report.bars.gradients);
}

double estimated_seconds(const BenchCase& c, double peak) {
    const auto layers = static_cast<double>(c.layers), width = static_cast<double>(c.width);
    const double parameters = 12 * layers * width * width + static_cast<double>(c.vocabulary) * width;
    const double flops = (6 * parameters + 6 * layers * width * static_cast<double>(c.context)) *
                         static_cast<double>(c.batch * c.context);
    return peak > 0 ? static_cast<double>(kStepsOfCase) * flops / (kShareOfPeak * peak) + kSecondsToCompile : 0.0;
}

// Each case on a runtime of its own, so that memory that one needed is free for the next.
Result<std::unique_ptr<program::Runtime>> case_runtime(const StageInput& input) {
    return stage_runtime(input, {.budget_seconds = lab::kLongest, .measure_kernels = measure_of(input.globals)});
}

report::Line chosen(const nlohmann::ordered_json& from, std::initializer_list<const char*> keys) {
    report::Line line = report::Line::object();
    for (const char* key : keys)
        if (from.contains(key)) line[key] = from[key];
    return line;
}

} // namespace

Result<StageOutcome> rows_stage(const StageInput& input) {
    HK_ASSIGN(const auto runtime, case_runtime(input));
    const plugin::Registry registry = scan_plugins(input.globals);
    const program::Storage precision = usual_precision(*runtime);
    StageOutcome outcome;
    HK_ASSIGN(outcome.problem, check_training(*runtime, registry, input.globals.log(), precision));
    if (!outcome.problem.empty()) return outcome;
    HK_ASSIGN(const double peak, lab::peak_of({*runtime, input.seconds, input.before}, precision));
    const BenchCase* c = find_bench_case("gpt2-124m");
    if (estimated_seconds(*c, peak) > input.seconds) c = find_bench_case("gpt2-124m-short");
    if (estimated_seconds(*c, peak) > input.seconds) c = find_bench_case("shakespeare-char");
    HK_ASSIGN(const nlohmann::ordered_json measured,
              measure_training(*runtime, registry, input.globals.log(), *c,
                               {.type = program::storage_name(precision), .seconds = 0, .profile = true}));
    if (!measured.contains("profile")) return internal_error("the step has no times of kernels");
    report::Line kernels = report::Line::array();
    double all = 0;
    std::string slowest;
    for (const report::Line& row : measured["profile"]) all += row.value("ms", 0.0);
    for (const report::Line& row : measured["profile"]) {
        const std::string kernel = row.value("kernel", "");
        if (kernel.starts_with("matmul/") || kernel.starts_with("attention/")) continue;
        const bool own = kernel.starts_with("generated:");
        kernels.push_back({{"kernel", own ? "generated" : kernel},
                           {"dispatches", row.value("dispatches", 0)},
                           {"ms", row.value("ms", 0.0)},
                           {"share", all > 0 ? lab::rounded(row.value("ms", 0.0) / all) : 0.0},
                           {"gb_per_s", row.value("gb_per_s", 0.0)}});
        if (slowest.empty()) slowest = fmt::format("{} {:.3g} ms", own ? "generated" : kernel, row.value("ms", 0.0));
    }
    outcome.result = {{"case", c->name}, {"dtype", program::storage_name(precision)}, {"kernels", kernels}};
    outcome.text = fmt::format("{} kernels without matrix products in a step of {}; the longest: {}", kernels.size(),
                               c->name, slowest.empty() ? "none" : slowest);
    return outcome;
}

Result<StageOutcome> cases_stage(const StageInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    const plugin::Registry registry = scan_plugins(input.globals);
    StageOutcome outcome;
    program::Storage precision = program::Storage::f32;
    double peak = 0;
    {
        HK_ASSIGN(const auto runtime, case_runtime(input));
        precision = usual_precision(*runtime);
        HK_ASSIGN(outcome.problem, check_training(*runtime, registry, input.globals.log(), precision));
        if (!outcome.problem.empty()) return outcome;
        HK_ASSIGN(peak, lab::peak_of({*runtime, input.seconds, input.before}, precision));
    }
    report::Line rows = report::Line::array();
    std::vector<std::string> texts;
    for (const char* name : {"shakespeare-char-cpu", "gpt2-124m", "shakespeare-char", "smollm2-135m-lora"}) {
        const BenchCase* c = find_bench_case(name);
        const auto left = [&] { return input.seconds - seconds_since(begin); };
        if (std::string_view(name) == "gpt2-124m" && estimated_seconds(*c, peak) > left() / 2)
            c = find_bench_case("gpt2-124m-short");
        report::Line row{{"case", c->name}, {"dtype", program::storage_name(precision)}};
        if (const double needed = estimated_seconds(*c, peak); needed > left()) {
            row["skipped"] = fmt::format("about {:.0f} s are needed, {:.0f} are left", needed, std::max(0.0, left()));
            rows.push_back(std::move(row));
            continue;
        }
        const auto measure = [&]() -> Status {
            {
                HK_ASSIGN(const auto runtime, case_runtime(input));
                HK_ASSIGN(const nlohmann::ordered_json trained,
                          measure_training(*runtime, registry, input.globals.log(), *c,
                                           {.type = program::storage_name(precision), .seconds = 2}));
                row.update(chosen(trained, {"tokens_per_s", "ms_per_step", "percent_of_peak", "memory_bytes",
                                            "dispatches", "submits"}));
            }
            HK_ASSIGN(const auto runtime, case_runtime(input));
            HK_ASSIGN(const nlohmann::ordered_json generated,
                      measure_generation(*runtime, registry, input.globals.log(), *c, program::Storage::f32, 1));
            row.update(chosen(generated, {"generate_tokens_per_s"}));
            return {};
        };
        if (const Status measured = measure(); !measured.ok()) {
            row["problem"] = measured.message();
            outcome.problem = fmt::format("{}: {}", c->name, measured.message());
        }
        texts.push_back(fmt::format("{} {:.0f} and {:.0f}", c->name, row.value("tokens_per_s", 0.0),
                                    row.value("generate_tokens_per_s", 0.0)));
        rows.push_back(std::move(row));
    }
    outcome.result = {{"cases", rows}};
    outcome.text = fmt::format("tokens/s trained in {} and generated in f32: {}", program::storage_name(precision),
                               fmt::join(texts, ", "));
    return outcome;
}

} // namespace hekla::app
