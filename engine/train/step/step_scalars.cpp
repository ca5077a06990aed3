#include "train/step/step_scalars.hpp"

#include "base/nearest_name.hpp"
#include "program/program.hpp"
#include "train/update/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <span>

namespace hekla::train {
namespace {

Status check_name(std::span<const std::string> names, std::string_view name) {
    if (std::ranges::binary_search(names, name)) return {};
    if (names.empty())
        return invalid_argument(fmt::format("the graph has no step scalar '{}', and no others: an architecture, "
                                            "objective or head makes one with step_scalar(name, initial)",
                                            name));
    return invalid_argument(
        fmt::format("the graph has no step scalar '{}'{}", name,
                    did_you_mean(name, names, fmt::format(" (it has {})", fmt::join(names, ", ")))));
}

} // namespace

Status check_step_scalar(std::span<const std::string> names, std::string_view name, double value) {
    HK_TRY(check_name(names, name));
    if (std::isfinite(static_cast<float>(value))) return {};
    return invalid_argument(fmt::format("step scalar '{}': {} is not a finite float32 number", name, value));
}

Result<StepScalars> StepScalars::create(const NamedSections<ScheduleSection>& schedules,
                                        const graph::Graph& described) {
    StepScalars result;
    result.schedules_ = schedules;
    std::set<std::string> names;
    for (const graph::Node& node : described.nodes)
        if (node.op == graph::Op::step_scalar) names.insert(std::string(node.text("name")));
    result.names_.assign(names.begin(), names.end());
    for (const auto& [name, schedule] : schedules)
        HK_TRY(check_name(result.names_, name).with_context(fmt::format("[schedules.{}]", name)));
    return result;
}

Status StepScalars::begin_step(int64_t step, int64_t max_steps, const Values& host) {
    for (const auto& [name, value] : host) {
        HK_TRY(check_step_scalar(names_, name, value));
        host_[name] = static_cast<float>(value);
    }
    values_.clear();
    for (const auto& [name, schedule] : schedules_)
        values_[name] = static_cast<float>(scheduled_value(schedule, step, max_steps));
    for (const auto& [name, value] : host_) values_[name] = value;
    const auto done = static_cast<double>(step);
    own_ = {{std::string(kStepScalar), done},
            {std::string(kProgressScalar), done / static_cast<double>(std::max<int64_t>(max_steps, 1))}};
    for (const auto& [name, value] : values_) own_.erase(name);
    return {};
}

Status StepScalars::apply(program::Program& program) const {
    for (const Values* values : {&own_, &values_})
        for (const auto& [name, value] : *values)
            if (program.has_scalar(name)) HK_TRY(program.set_scalar(name, static_cast<float>(value)));
    return {};
}

nlohmann::json StepScalars::state() const { return host_; }

void StepScalars::restore(const nlohmann::json& state) { host_ = state.get<Values>(); }

} // namespace hekla::train
