#include "stages.hpp"

#include "base/child_process.hpp"
#include "base/host.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/last_line.hpp"
#include "base/run_child.hpp"
#include "base/stopwatch.hpp"
#include "base/temporary_folder.hpp"
#include "output.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>

namespace hekla::app {
namespace {

constexpr double kSecondsToStart = 20; // of a process: device, plugins, pipelines

report::Line head_of(const std::string& kind) {
    return {{"report", kind},
            {"format", 1},
            {"hekla", HEKLA_VERSION},
            {"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
            {"system", system_name()}};
}

// Returns the message of the last "hekla: error: MESSAGE" in what a process wrote.
std::string last_error(const std::string& text) {
    constexpr std::string_view kBegin = "hekla: error: ";
    const std::size_t at = text.rfind(kBegin);
    if (at == std::string::npos) return {};
    std::string message = text.substr(at + kBegin.size());
    return message.substr(0, message.find('\n'));
}

std::string end_of(const ChildResult& child, double limit) {
    if (child.timed_out) return fmt::format("the stage had not ended after {:.0f} s, and was ended", limit);
    if (child.signal != 0)
        return fmt::format("the process of the stage was ended by {}, in the driver or in the program",
                           signal_text(child.signal));
    const std::string message = last_error(child.error);
    return message.empty() ? fmt::format("the process of the stage ended with status {} and no message", child.status)
                           : message;
}

// Runs one stage in a process of its own, which is ended after `limit` seconds. Returns its line of the report.
report::Line line_of(const std::vector<std::string>& own, const Stage& stage, const std::string& kind,
                     const std::filesystem::path& before, double seconds, double limit) {
    std::vector<std::string> command = own;
    command.insert(command.end(), {"doctor", "--" + kind, "--stage", stage.name, "--stage-report", before.string(),
                                   "--stage-seconds", fmt::format("{:.3f}", seconds)});
    const auto begin = std::chrono::steady_clock::now();
    const Result<ChildResult> child = run_child(command, {.seconds = limit, .stop = [] { return interrupted(); }});
    report::Line line{{"stage", stage.name},
                      {"seconds", static_cast<double>(static_cast<int64_t>(seconds_since(begin) * 100)) / 100},
                      {"ok", false}};
    if (!child.ok()) {
        line["problem"] = child.message();
        return line;
    }
    report::Line outcome = ordered_json_or_null(last_line(child->out));
    if (!outcome.is_object()) {
        line["problem"] = end_of(child.value(), limit);
        return line;
    }
    // The outcome of a stage is complete, whatever happens when its process ends.
    if (child->status != 0) outcome["end"] = end_of(child.value(), limit);
    line["ok"] = outcome.value("problem", "").empty();
    line.update(outcome);
    return line;
}

void show(const report::Line& line) {
    const std::string name = line.value("stage", "");
    const char* const state = line.contains("skipped") ? "skip" : line.value("ok", false) ? "ok  " : "FAIL";
    fmt::print("{} {:<12} {}\n", state, name,
               line.contains("skipped") ? line.value("skipped", "")
                                        : fmt::format("{}{}({:.1f} s)", line.value("text", ""),
                                                      line.contains("text") ? " " : "", line.value("seconds", 0.0)));
    for (const char* key : {"problem", "end"})
        if (line.contains(key)) fmt::print("     {:<12} ! {}\n", "", line.value(key, ""));
    if (line.contains("decides"))
        for (const report::Line& sentence : line["decides"])
            fmt::print("     {:<12} -> {}\n", "", sentence.get<std::string>());
    std::fflush(stdout);
}

} // namespace

int run_stages(const Globals& globals, std::span<const Stage> stages, const StagesOptions& options) {
    if (!options.file.empty())
        if (const Status writable = check_output_file(options.file.string()); !writable.ok()) return fail(writable);
    const Result<std::vector<std::string>> own = own_command(globals);
    if (!own.ok()) return fail(own.status());
    Result<TemporaryFolder> folder = TemporaryFolder::make();
    if (!folder.ok()) return fail(folder.status());
    const std::filesystem::path before = folder->path() / "report.jsonl";
    Result<report::ReportFile> file = report::ReportFile::create(options.file),
                               passed_on = report::ReportFile::create(before);
    if (!file.ok()) return fail(file.status());
    if (!passed_on.ok()) return fail(passed_on.status());
    const auto append = [&](const report::Line& line) -> Status {
        HK_TRY(passed_on->append(line));
        HK_TRY(file->append(line));
        if (options.json)
            fmt::print("{}\n", json_line(file->lines().back()));
        else if (line.contains("stage"))
            show(file->lines().back());
        std::fflush(stdout);
        return {};
    };
    watch_interrupts(kStoppedEarly);
    if (const Status written = append(head_of(options.kind)); !written.ok()) return fail(written);
    const auto begin = std::chrono::steady_clock::now();
    bool right = true;
    for (const Stage& stage : stages) {
        const double left = options.seconds - seconds_since(begin);
        const bool no_device = &stage != stages.data() && !report::passed(file->lines(), stages.front().name);
        report::Line line{{"stage", stage.name}};
        if (no_device)
            line["skipped"] = fmt::format("the stage {} found no device to use", stages.front().name);
        else if (left < std::min(stage.seconds, 5.0))
            line["skipped"] = fmt::format("{:.0f} s of {:.0f} s are left", std::max(left, 0.0), options.seconds);
        else
            line = line_of(own.value(), stage, options.kind, before, std::min(stage.seconds, left),
                           std::min(2 * stage.seconds + kSecondsToStart, left));
        if (interrupted()) return stopped_status();
        right = right && (line.contains("skipped") || line.value("ok", false));
        if (options.decide && line.contains("result")) {
            std::vector<report::Line> all = file->lines();
            all.push_back(line);
            if (const std::vector<std::string> sentences = options.decide(all); !sentences.empty())
                line["decides"] = sentences;
        }
        if (const Status written = append(line); !written.ok()) return fail(written);
    }
    report::Line end{{"end", true}, {"healthy", right}, {"seconds", static_cast<int64_t>(seconds_since(begin))}};
    if (options.summary) end["summary"] = options.summary(file->lines());
    if (const Status written = append(end); !written.ok()) return fail(written);
    if (!options.json && end.contains("summary")) fmt::print("\n{}\n", end.value("summary", ""));
    return right ? kDone : kFailed;
}

int run_stage(const Globals& globals, std::span<const Stage> stages, const StageProcess& process) {
    const auto stage = std::ranges::find(stages, process.name, &Stage::name);
    if (stage == stages.end()) return fail(not_found(fmt::format("unknown stage '{}'", process.name)));
    Result<std::vector<report::Line>> before = report::read_report(process.report);
    if (!before.ok()) return fail(before.status());
    Result<TemporaryFolder> folder = TemporaryFolder::make();
    if (!folder.ok()) return fail(folder.status());
    const Result<StageOutcome> outcome = stage->run({globals, process.seconds, before.take(), folder->path()});
    if (!outcome.ok()) return fail(outcome.status());
    report::Line line = report::Line::object();
    if (!outcome->text.empty()) line["text"] = outcome->text;
    if (!outcome->problem.empty()) line["problem"] = outcome->problem;
    line["result"] = outcome->result;
    fmt::print("{}\n", json_line(line));
    std::fflush(stdout);
    return kDone;
}

} // namespace hekla::app
