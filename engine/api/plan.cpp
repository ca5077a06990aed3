// Implementation of hekla/plan.h.
#include "hekla/plan.h"
#include "api/boundary.hpp"
#include "api/captured_call.hpp"
#include "api/context.hpp"
#include "base/number_text.hpp"
#include "infer/open/model_estimate.hpp"
#include "infer/open/open_model.hpp"
#include "program/estimate.hpp"
#include "program/peak.hpp"
#include "program/runtime.hpp"
#include "program/speed.hpp"
#include "train/ranks/exchange_plan.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/training_plan.hpp"
#include "train/start/fit.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace hekla::api {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

struct NamedLimits {
    const char* name;
    hk_device_limits limits;
};
// Round numbers, typical of older devices.
constexpr std::array kNamedLimits{
    NamedLimits{"cpu", {0, 1, 8, 1024, 32768, 1, 1, 1, 1, 0, 2 * kGiB, 0, 2e10, 5e9}},
    NamedLimits{"desktop", {0, 0, 32, 1024, 49152, 1, 0, 1, 0, 64, 4 * kGiB, 8 * kGiB, 1e13, 3e11}},
    NamedLimits{"mobile", {0, 0, 64, 256, 16384, 1, 0, 1, 1, 8, kGiB, 4 * kGiB, 1e12, 3e10}},
};

Result<program::Target> target_from(const hk_device_limits& l) {
    program::Limits limits;
    limits.subgroup_size = l.subgroup_size;
    limits.max_group_invocations = l.max_group_invocations;
    limits.shared_memory = l.shared_memory;
    limits.storage16 = l.storage16 != 0;
    limits.cpu = l.cpu != 0;
    limits.uniform_loads = l.uniform_loads != 0;
    limits.generated_shaders = l.generated_shaders != 0;
    if (l.cores > 0) limits.cores = static_cast<uint32_t>(l.cores);
    Result<program::Target> target =
        program::described_target(limits, {l.flops, l.bandwidth}, l.max_allocation, l.mapped != 0);
    return target.ok() ? std::move(target) : target.status().with_context("hk_device_limits");
}

void fill_limits(program::Runtime& runtime, hk_device_limits& out) {
    const gpu::Capabilities& device = runtime.gpu().capabilities();
    const program::Limits& limits = runtime.limits();
    const program::Speed speed = program::speed_of(limits);
    out = {out.struct_size,
           limits.cpu ? 1 : 0,
           limits.subgroup_size,
           limits.max_group_invocations,
           limits.shared_memory,
           limits.storage16 ? 1 : 0,
           limits.uniform_loads ? 1 : 0,
           limits.generated_shaders ? 1 : 0,
           device.mapped_device_memory ? 1 : 0,
           static_cast<int32_t>(limits.cores),
           std::min(device.max_allocation_bytes, device.max_buffer_bytes),
           train::memory_room(runtime).free,
           speed.flops,
           speed.bytes};
}

// A device to plan for, and its free memory.
struct PlannedOn {
    program::Target target;
    program::Runtime* runtime = nullptr; // null: a described device
    uint64_t available = 0;
};

Result<PlannedOn> planned_on(const Context::Call& call, const hk_plan_options& o) {
    PlannedOn on;
    if (o.limits != nullptr) {
        HK_ASSIGN(on.target, target_from(*o.limits));
        on.available = o.limits->memory;
        return on;
    }
    const Result<program::Runtime*> runtime = call.runtime();
    if (!runtime.ok())
        return failed_precondition(
            fmt::format("{}: set hk_plan_options.limits to the device to plan for", runtime.message()));
    on.runtime = runtime.value();
    on.target = program::target_of(*on.runtime);
    on.available = train::memory_room(*on.runtime).free;
    return on;
}

std::string time_text(double seconds) {
    return seconds < 1e-3  ? fmt::format("{:.0f} us", seconds * 1e6)
           : seconds < 0.1 ? fmt::format("{:.1f} ms", seconds * 1e3)
                           : duration_text(seconds);
}

// A report, and what it is made of.
struct Report {
    hk_plan_report out{}; // without what `estimate` and `exchange` have
    program::Estimate estimate;
    int32_t mode = HK_PLAN_TRAIN;
    uint64_t rollouts = 0; // bytes of the host's memory
    double seconds = 0.0;  // of a unit
    train::ExchangePlan exchange;
    int64_t inner_steps = 0; // between exchanges; 0: every step has one

    std::string text() const;
    std::string exchange_text() const;
    void give(const hk_plan_options& options, uint64_t available);
};

std::string Report::exchange_text() const {
    std::string text =
        fmt::format("{} ranks: rank 0 sends and receives {} {}; {} of the host's memory on each\n", exchange.ranks,
                    size_text(exchange.bytes),
                    inner_steps > 0 ? fmt::format("once in {} steps", inner_steps) : std::string("in each"),
                    size_text(exchange.memory));
    if (exchange.seconds <= 0.0) return text;
    const double exposed = exchange.exposed / static_cast<double>(std::max<int64_t>(inner_steps, 1));
    return text + fmt::format("over this link {}, of which ranks wait {}: a step takes {}, {:.0f}% of it to compute\n",
                              time_text(exchange.seconds), time_text(exchange.exposed), time_text(seconds + exposed),
                              100.0 * seconds / (seconds + exposed));
}

std::string Report::text() const {
    const program::Estimate& e = estimate;
    std::string text;
    const std::pair<const char*, uint64_t> kinds[] = {
        {"weights", e.weights},         {"gradients", e.gradients}, {"optimizer", e.optimizer}, {"states", e.states},
        {"activations", e.activations}, {"programs", e.programs},   {"staging", e.staging},     {"total", e.total()}};
    for (const auto& [name, bytes] : kinds)
        if (bytes > 0) text += fmt::format("  {:<12} {:>12}\n", name, size_text(bytes));
    if (e.system > 0)
        text += fmt::format("  {:<12} {:>12} of the host's memory: moments\n", "system", size_text(e.system));
    if (rollouts > 0)
        text += fmt::format("  {:<12} {:>12} of the host's memory: completions of an iteration\n", "rollouts",
                            size_text(rollouts));
    text += fmt::format("  {} parameters; the largest allocation is {}{}\n", grouped(static_cast<double>(e.parameters)),
                        size_text(e.largest),
                        out.available > 0 ? fmt::format("; {} are free", size_text(out.available)) : "");
    const double tokens = static_cast<double>(out.rows * out.length);
    const char* how = out.time == HK_TIME_ESTIMATED  ? "estimated from operations and bytes"
                      : out.time == HK_TIME_MEASURED ? "measured"
                                                     : "measured with one example";
    text += fmt::format(
        "\n{} rows of {} tokens: {} dispatches, {:.3g} floating-point operations, {} read and written\n", out.rows,
        out.length, grouped(static_cast<double>(e.dispatches)), e.flops, size_text(static_cast<uint64_t>(e.bytes)));
    if (mode == HK_PLAN_TRAIN) {
        text += fmt::format("{} of one step: {}, {}; {}\n",
                            out.time == HK_TIME_ESTIMATED ? "forward, backward and update" : "forward and backward",
                            time_text(seconds), how,
                            out.units > 0 ? fmt::format("{} steps left: about {}, without evaluations", out.units,
                                                        time_text(static_cast<double>(out.units) * seconds))
                                          : "the run is finished, no steps are left");
        if (out.label_tokens > 0.0)
            text += fmt::format("{} tokens of a step are predicted\n", grouped(std::round(out.label_tokens)));
        if (exchange.ranks > 1) text += exchange_text();
    } else if (mode == HK_PLAN_GENERATE) {
        text += fmt::format("a token of every row: {} ({} tokens/s), {}\n", time_text(seconds),
                            grouped(static_cast<double>(out.rows) / seconds), how);
    } else {
        text += fmt::format("a pass: {} ({} tokens/s), {}\n", time_text(seconds), grouped(tokens / seconds), how);
    }
    double all = 0.0;
    for (const program::NodeCost& node : e.nodes) all += node.seconds;
    text += "most expensive operations:\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(3, e.nodes.size()); ++i)
        text += fmt::format("  {:>8}  {:4.1f}%  {}\n", time_text(e.nodes[i].seconds),
                            all > 0.0 ? 100.0 * e.nodes[i].seconds / all : 0.0, e.nodes[i].name);
    return text;
}

void Report::give(const hk_plan_options& options, uint64_t available) {
    const program::Estimate& e = estimate;
    std::vector<hk_plan_node> nodes;
    for (const program::NodeCost& node : e.nodes)
        nodes.push_back({view(node.name), node.dispatches, node.seconds * 1e6, node.flops, node.bytes});
    out.struct_size = sizeof out;
    out.weights = e.weights;
    out.gradients = e.gradients;
    out.optimizer = e.optimizer;
    out.states = e.states;
    out.activations = e.activations;
    out.programs = e.programs;
    out.staging = e.staging;
    out.total = e.total();
    out.largest = e.largest;
    out.available = available;
    out.parameters = e.parameters;
    out.dispatches = e.dispatches;
    out.flops = e.flops;
    out.bytes = e.bytes;
    out.microseconds = seconds * 1e6;
    out.nodes = nodes.data();
    out.node_count = nodes.size();
    out.system = e.system + rollouts;
    out.exchanged_bytes = exchange.bytes;
    out.exchange_memory = exchange.memory;
    out.exchange_seconds = exchange.seconds;
    out.exposed_seconds = exchange.exposed;
    const std::string words = text();
    out.text = view(words);
    options.report(options.user, &out);
}

// `on` is set after the recipe was read and its model described.
Result<Report> plan_training(const Context::Call& call, const hk_plan_options& o, PlannedOn& on) {
    HK_ASSIGN(const train::Recipe recipe,
              train::read_recipe(string_of(o.recipe), texts(o.overrides, o.override_count)));
    train::TrainerEvents events;
    if (o.message != nullptr) events.message = [&o](const std::string& m) { o.message(o.user, view(m)); };
    const Context& context = call.context();
    events.own_threads = context.own_threads();
    Report report;
    std::optional<train::TrainingRun::Times> times;
    const auto take = [&](train::TrainingPlan plan) {
        report.out.rows = plan.rows;
        report.out.length = plan.length;
        report.out.units = plan.steps_left;
        report.out.embeddings = plan.embeddings;
        report.out.examples = plan.examples;
        report.out.label_tokens = plan.label_tokens;
        report.rollouts = plan.rollouts;
        report.estimate = std::move(plan.estimate);
        report.exchange = plan.exchange;
        if (recipe.distributed.mode == "diloco") report.inner_steps = recipe.distributed.inner_steps;
        report.seconds = report.estimate.seconds;
    };
    train::PlannedRanks ranks{o.ranks, o.nodes, o.link_bytes_per_second, o.link_latency};
    if (o.measure == 0) {
        HK_ASSIGN(on, planned_on(call, o));
        HK_ASSIGN(auto plan,
                  train::TrainingRun::plan(recipe, context.registry(), on.target, context.log(), events, ranks));
        take(std::move(plan));
        return report;
    }
    const auto use_device = [&]() -> Result<program::Runtime*> {
        HK_ASSIGN(on, planned_on(call, o));
        return on.runtime;
    };
    HK_ASSIGN(const auto trainer,
              train::TrainingRun::create(recipe, context.registry(), {use_device, call.device().host_memory()},
                                         context.log(), events));
    const bool divided = ranks.ranks > 1; // the step of one rank is measured
    if (!divided) {
        HK_ASSIGN(auto plan, trainer->plan());
        take(std::move(plan));
    }
    HK_ASSIGN(train::TrainingRun::Times measured, trainer->measure());
    report.seconds = measured.seconds;
    if (divided) {
        ranks.micro_seconds =
            measured.seconds / static_cast<double>(trainer->recipe().train.gradient_accumulation_steps);
        events.message = nullptr; // the same as above
        HK_ASSIGN(auto plan,
                  train::TrainingRun::plan(recipe, context.registry(), on.target, context.log(), events, ranks));
        take(std::move(plan));
        report.seconds = ranks.micro_seconds * static_cast<double>(report.exchange.micro);
    }
    report.out.time = measured.one_example ? HK_TIME_ONE_EXAMPLE : HK_TIME_MEASURED;
    report.estimate.nodes = std::move(measured.nodes);
    return report;
}

Result<Report> plan_model(const Context::Call& call, const hk_plan_options& o, PlannedOn& on) {
    const bool writes = o.mode == HK_PLAN_GENERATE;
    const Context& context = call.context();
    infer::ModelOptions options;
    options.describe_only = true;
    options.tokenizer_required = false;
    if (writes) options.head = "lm";
    HK_ASSIGN(options.adapters, infer::parse_adapter_uses(texts(o.adapters, o.adapter_count)));
    options.adapters_by_row = o.adapters_by_row != 0;
    options.slots = {o.adapter_slots, o.adapter_rank, string_of(o.adapter_targets)};
    HK_ASSIGN(infer::Model model,
              infer::open_model(context.registry(), nullptr, string_of(o.model), options, context.log()));
    HK_ASSIGN(on, planned_on(call, o));
    Report report;
    report.mode = o.mode;
    report.out.rows = std::max<int64_t>(1, o.rows);
    report.out.length = o.length;
    if (model.exported != nullptr) { // as Runtime::limits() with compiled kernels
        on.target.limits.generated_shaders = true;
        on.target.limits.chains = false;
    }
    program::Estimator estimator(on.target);
    const auto weights = static_cast<program::Storage>(o.weights);
    HK_TRY(writes ? infer::estimate_generation(estimator, model, weights, report.out.rows, report.out.length)
                  : infer::estimate_pass(estimator, model, weights, report.out.rows, report.out.length,
                                         texts(o.ports, o.port_count), o.attention != 0));
    report.estimate = estimator.finish();
    report.seconds = report.estimate.seconds;
    return report;
}

} // namespace
} // namespace hekla::api

using hekla::Status;
using hekla::api::complete;
using hekla::api::Context;
using hekla::api::guarded;

extern "C" {

int32_t hk_device_limits_named(hk_string name, hk_device_limits* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(complete(out, "hk_device_limits"));
        HK_TRY(hekla::api::check_text("name", name));
        const std::string wanted = hekla::api::string_of(name);
        std::string known;
        for (const auto& one : hekla::api::kNamedLimits) {
            known += (known.empty() ? "" : ", ") + std::string(one.name);
            if (wanted != one.name) continue;
            const uint32_t size = out->struct_size;
            *out = one.limits;
            out->struct_size = size;
            return {};
        }
        return hekla::not_found(fmt::format("name is '{}', expected one of: {}", wanted, known));
    });
}

int32_t hk_device_limits_of(hk_context context, hk_device_limits* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(complete(out, "hk_device_limits"));
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_ASSIGN(hekla::program::Runtime * runtime, call.runtime());
        hekla::api::fill_limits(*runtime, *out);
        return {};
    });
}

int32_t hk_plan(hk_context context, const hk_plan_options* options, hk_error* error) {
    return hekla::api::captured_call(context, "hk_plan", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        hekla::api::PlannedOn on;
        HK_ASSIGN(hekla::api::Report report, options->mode == HK_PLAN_TRAIN
                                                 ? hekla::api::plan_training(call, *options, on)
                                                 : hekla::api::plan_model(call, *options, on));
        report.give(*options, on.available);
        return {};
    });
}

} // extern "C"
