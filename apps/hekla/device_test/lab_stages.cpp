#include "device_test/lab_stages.hpp"

#include "device_test/device_facts.hpp"
#include "lab/kernel.hpp"
#include "lab/lab.hpp"
#include "program/runtime.hpp"

namespace hekla::app {
namespace {

template<Result<report::Outcome> (*kMeasure)(const lab::Input&)>
Result<StageOutcome> in_lab(const StageInput& input) {
    HK_ASSIGN(const auto runtime, stage_runtime(input, {.budget_seconds = lab::kLongest}));
    return kMeasure({*runtime, input.seconds, input.before});
}

} // namespace

std::span<const Stage> lab_stages() {
    static constexpr Stage kStages[] = {
        {"device", 5, device_stage},
        {"clock", 5, in_lab<lab::clock>},
        {"memory", 15, in_lab<lab::memory>},
        {"units", 30, in_lab<lab::units>},
        {"products", 90, in_lab<lab::products>},
        {"attention", 60, in_lab<lab::attention>},
        {"rows", 40, rows_stage},
        {"chains", 10, in_lab<lab::chains>},
        {"cases", 100, cases_stage},
        {"stores", 20, in_lab<lab::stores>},
        {"shapes", 10, in_lab<lab::shapes>},
        {"epilogues", 20, in_lab<lab::epilogues>},
        {"orders", 20, in_lab<lab::orders>},
        {"workgroups", 40, in_lab<lab::workgroups>},
        {"others", 60, others_stage},
    };
    return kStages;
}

} // namespace hekla::app
