#include "plan_output.hpp"

#include "output.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

nlohmann::ordered_json plan_json(const hk_plan_report& r, const char* units) {
    const char* times[] = {"estimated", "measured", "one_example"};
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (uint64_t i = 0; i < r.node_count; ++i)
        nodes.push_back({{"name", view(r.nodes[i].name)},
                         {"dispatches", r.nodes[i].dispatches},
                         {"microseconds", r.nodes[i].microseconds},
                         {"flops", r.nodes[i].flops},
                         {"bytes", r.nodes[i].bytes}});
    nlohmann::ordered_json plan{{"weights", r.weights},
                                {"gradients", r.gradients},
                                {"optimizer", r.optimizer},
                                {"states", r.states},
                                {"activations", r.activations},
                                {"programs", r.programs},
                                {"staging", r.staging},
                                {"total", r.total},
                                {"system", r.system},
                                {"largest_allocation", r.largest},
                                {"available", r.available},
                                {"parameters", r.parameters},
                                {"embeddings", r.embeddings},
                                {"examples", r.examples},
                                {"label_tokens", r.label_tokens},
                                {"rows", r.rows},
                                {"length", r.length},
                                {"dispatches", r.dispatches},
                                {"flops", r.flops},
                                {"bytes", r.bytes},
                                {"microseconds", r.microseconds},
                                {"time", times[r.time]},
                                {"nodes", nodes}};
    if (r.exchanged_bytes > 0) {
        plan["exchanged_bytes"] = r.exchanged_bytes;
        plan["exchange_memory"] = r.exchange_memory;
        plan["exchange_seconds"] = r.exchange_seconds;
        plan["exposed_seconds"] = r.exposed_seconds;
    }
    if (*units != '\0') plan[units] = r.units;
    return plan;
}

} // namespace

int print_plan(hk_context context, const HostError& error, hk_plan_options options, const PlanOutput& output) {
    hk_device_limits limits{};
    limits.struct_size = sizeof limits;
    options.struct_size = sizeof options;
    if (!output.device.empty()) {
        if (hk_device_limits_named(text(output.device), &limits, error.error) != HK_OK) return error.report();
        options.limits = &limits;
    }
    PlanOutput to = output;
    options.user = &to;
    options.message = [](void* user, hk_string line) {
        const auto& to = *static_cast<const PlanOutput*>(user);
        if (to.message) to.message(std::string(view(line)));
    };
    options.report = [](void* user, const hk_plan_report* r) {
        const auto& to = *static_cast<const PlanOutput*>(user);
        const std::string printed = to.json ? plan_json(*r, to.units).dump(1) + "\n" : std::string(view(r->text));
        print_foreign(printed);
    };
    return hk_plan(context, &options, error.error) == HK_OK ? kDone : error.report();
}

} // namespace hekla::app
