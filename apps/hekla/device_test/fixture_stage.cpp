// Compares the packed fixtures with their reference implementation, in every precision of the device.
#include "base/stopwatch.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/test_stages.hpp"
#include "program/lowering/half.hpp"
#include "verification.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {

Result<StageOutcome> fixtures_stage(const StageInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    HK_ASSIGN(const std::filesystem::path packed, packed_fixtures());
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(packed)) folders.push_back(entry.path());
    std::ranges::sort(folders);
    HK_ASSIGN(const auto runtime, stage_runtime(input));
    const plugin::Registry registry = scan_plugins(input.globals);
    StageOutcome outcome;
    std::vector<std::string> texts;
    std::size_t late = 0; // models that were not compared
    for (const program::Storage precision : precisions_of(*runtime)) {
        std::size_t right = 0;
        report::Line models = report::Line::array();
        for (const std::filesystem::path& folder : folders) {
            if (seconds_since(begin) > input.seconds) {
                ++late;
                continue;
            }
            FixtureReport report;
            report.fixture = folder.filename().string();
            report.problem = verify_fixture(registry, runtime.get(), folder, input.globals.log(), precision, report);
            right += report.pass() ? 1 : 0;
            report::Line line = report.json();
            line.erase("seconds");
            models.push_back(std::move(line));
            if (!report.pass() && outcome.problem.empty())
                outcome.problem =
                    fmt::format("{} in {}: {}", report.fixture, program::storage_name(precision),
                                report.problem.ok()
                                    ? fmt::format("outputs differ by {:.1e} of at most {:.1e}, gradients by {:.1e} of "
                                                  "{:.1e} ({})",
                                                  report.outputs.error, report.bars.outputs, report.gradients.error,
                                                  report.bars.gradients, report.outputs.tensor)
                                    : report.problem.message());
        }
        const char* name = program::storage_name(precision);
        if (models.empty()) continue;
        const std::size_t compared = models.size();
        outcome.result[name] = {{"right", right}, {"of", compared}, {"models", models}};
        texts.push_back(fmt::format("{} {} of {}", name, right, compared));
    }
    outcome.text = fmt::format("equal to the reference implementation: {}", fmt::join(texts, ", "));
    if (late > 0) outcome.text += fmt::format("; {} not compared for lack of time", late);
    return outcome;
}

} // namespace hekla::app
