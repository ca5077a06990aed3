#include "model_cost.hpp"

#include "base/number_text.hpp"
#include "command.hpp"
#include "graph/output.hpp"
#include "output.hpp"
#include "program/runtime.hpp"
#include "train/step/training_graph.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

std::string flops_text(double flops) {
    constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    std::size_t unit = 0;
    while (flops >= 1000.0 && unit + 1 < std::size(kUnits)) {
        flops /= 1000.0;
        ++unit;
    }
    return fmt::format("{:.3g} {}", flops, kUnits[unit]);
}

std::string line(const char* what, const Planned& planned, double tokens) {
    const program::MemoryPlan& m = planned.memory;
    std::string parts = fmt::format("parameters {}", size_text(m.parameters));
    if (m.gradients > 0) parts += fmt::format(", gradients {}, AdamW {}", size_text(m.gradients), size_text(m.moments));
    parts += fmt::format(", activations {}", size_text(m.arena()));
    return fmt::format("  {:<10} {:>10} ({}), {} per token\n", what, size_text(m.total()), parts,
                       flops_text(planned.flops / tokens));
}

nlohmann::ordered_json as_json(const Planned& planned, double tokens) {
    return {{"bytes", planned.memory.total()},
            {"activation_bytes", planned.memory.arena()},
            {"flops_per_token", planned.flops / tokens}};
}

} // namespace

std::string ModelCost::text() const {
    std::string out =
        fmt::format("{} parameters; {} x {} tokens take\n", grouped(static_cast<double>(parameters)), batch, length);
    out += line("inference", inference, tokens());
    out += training ? line("training", *training, tokens())
                    : std::string("  training   unknown: the class in config.json has no objective\n");
    return out;
}

nlohmann::ordered_json ModelCost::json() const {
    nlohmann::ordered_json j{
        {"parameters", parameters}, {"batch", batch}, {"length", length}, {"inference", as_json(inference, tokens())}};
    if (training) j["training"] = as_json(*training, tokens());
    return j;
}

Result<ModelCost> cost_of(DeviceOnDemand& device, const plugin::Registry& registry, const std::filesystem::path& folder,
                          int64_t batch, int64_t length, const Log& log) {
    ModelCost cost;
    cost.batch = batch;
    cost.length = length;
    HK_ASSIGN(const Described described, describe_folder(registry, folder, batch, length, log));
    cost.parameters = parameter_count(described.graph);
    // A pass computes the scores of the head, or the body's output for a model without a head.
    HK_ASSIGN(const graph::Graph offered,
              described.composition->build(HK_MODE_EVALUATE, described.fields, {}, /*all_ports=*/true));
    const std::vector<std::string> wanted{
        offered.outputs.contains(graph::output_name(graph::OutputKind::port, "logits")) ? "logits" : "hidden"};
    HK_ASSIGN(graph::Graph forward, described.composition->build(HK_MODE_EVALUATE, described.fields, wanted));
    forward.losses.clear();
    forward.metrics.clear();
    HK_ASSIGN(const program::Runtime* runtime, device.runtime());
    HK_ASSIGN(cost.inference, plan_of(*runtime, forward));
    if (described.graph.losses.empty()) return cost;
    HK_ASSIGN(const graph::Graph train, described.composition->build(HK_MODE_TRAIN, described.fields));
    HK_ASSIGN(const graph::Graph differentiated, train::training_graph(train));
    HK_ASSIGN(cost.training, plan_of(*runtime, differentiated));
    return cost;
}

} // namespace hekla::app
