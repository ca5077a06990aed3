// The step scalars of a run: named inputs of a graph (`step_scalar`) that a schedule of the recipe or the host sets at
// every step.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {
class Program;
}
namespace hekla::graph {
struct Graph;
}

namespace hekla::train {

// Refuses a name that is not in `names` (ascending; the message suggests the nearest), and a value that is not a finite
// float32 number.
Status check_step_scalar(std::span<const std::string> names, std::string_view name, double value);

// Step scalars that a training sets itself, unless a schedule or the host does: the number of the step, from 0, and
// that number divided by the steps of the run.
inline constexpr std::string_view kStepScalar = "train.step";
inline constexpr std::string_view kProgressScalar = "train.progress";

class StepScalars {
public:
    using Values = std::map<std::string, double, std::less<>>;

    StepScalars() = default;
    // `described`: the graph before differentiation, whose step scalars can be set. Errors: a schedule for another name
    // (the message suggests the nearest).
    static Result<StepScalars> create(const NamedSections<ScheduleSection>& schedules, const graph::Graph& described);

    const std::vector<std::string>& names() const { return names_; }

    // Computes the values for the update that follows `step` applied ones. `host`: values that the host set so far;
    // they replace the schedules. Errors: an unknown name, a value that is not finite.
    Status begin_step(int64_t step, int64_t max_steps, const Values& host = {});
    // Returns float32 numbers. Names without a schedule that the host did not set are omitted and keep the graph's
    // initial value; those that a training sets itself are omitted too.
    const Values& values() const { return values_; }
    // Sets the values in a program; names that it does not read are skipped.
    Status apply(program::Program& program) const;

    // Returns the state for a checkpoint: the values that the host set. Schedules are functions of the step.
    nlohmann::json state() const;
    void restore(const nlohmann::json& state); // throws nlohmann::json::exception

private:
    NamedSections<ScheduleSection> schedules_;
    std::vector<std::string> names_; // sorted
    Values host_, values_, own_;     // own_: kStepScalar and kProgressScalar
};

} // namespace hekla::train
