// What `--plan` prints: a plan as text or JSON.
#pragma once

#include "command.hpp"

#include "hekla/plan.h"

#include <functional>
#include <string>
#include <vector>

namespace hekla::app {

inline const std::vector<std::string> kPlannedDevices{"cpu", "desktop", "mobile"};

// How a verb plans.
struct PlanOutput {
    std::string device; // a kind that hk_device_limits_named() knows; "": the context's own
    bool json = false;
    const char* units = ""; // name of hk_plan_report::units in JSON; "": the mode has none
    std::function<void(const std::string& line)> message = {}; // may be empty
};

// Makes the plan and prints it. limits, report, message and user of `options` are set here. Returns the exit status.
int print_plan(hk_context context, const HostError& error, hk_plan_options options, const PlanOutput& output);

} // namespace hekla::app
