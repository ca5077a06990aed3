#include "base/file.hpp"
#include "check/probe.hpp"
#include "check/tests.hpp"
#include "hekla/plugin/combiner.h"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"
#include "train/run/run_context.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <fmt/format.h>
#include <numeric>

namespace hekla::check {
namespace {

// Trains from the start, or resumes from the run's folder. Returns the losses of the steps.
Result<std::vector<double>> train(const Trial& trial, program::Runtime& runtime, train::Recipe recipe,
                                  const std::string& run, int64_t steps) {
    recipe.output.dir = (trial.folder() / run).string();
    recipe.train.max_steps = steps;
    std::vector<double> losses;
    train::TrainerEvents events;
    events.step = [&](const train::StepRecord& record) { losses.push_back(record.loss); };
    HK_ASSIGN(const auto opened,
              train::TrainingRun::create(recipe, trial.registry(), runtime, {}, events, train::Purpose::train));
    HK_TRY(train::TrainingLoop(*opened).run().status());
    return losses;
}

Result<std::string> weights_of(const Trial& trial, const std::string& run) {
    return read_file((trial.folder() / run / "model.safetensors").string());
}

// Kinds of kernels of plugins' operations in a network: spirv if any is.
enum class Own { none, glsl, spirv };
Own own_operations(const graph::Graph& graph) {
    Own found = Own::none;
    for (const graph::Node& node : graph.nodes)
        if (node.own != nullptr)
            found = node.own->operation->declaration().glsl.empty() || found == Own::spirv ? Own::spirv : Own::glsl;
    return found;
}

} // namespace

Status test_device(Trial& trial, DeviceSetting setting) {
    HK_ASSIGN(const auto runtime, make_runtime(trial, setting));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Probe probe, evaluation_probe(trial, provided, 3));
        HK_TRY(compare_outputs(trial, *runtime, probe, program::Storage::f32));
    }
    HK_ASSIGN(const std::vector<Probe> operations, operation_probes(trial));
    for (const Probe& probe : operations) HK_TRY(compare_outputs(trial, *runtime, probe, program::Storage::f32));
    return {};
}

Status test_precision(Trial& trial, program::Storage precision) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    if (precision != program::Storage::f32 && !runtime->limits().storage16)
        return Status(Code::cancelled, "the device here cannot store 16 bits");
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Probe outputs, evaluation_probe(trial, provided, 3));
        if (precision != program::Storage::f32) HK_TRY(compare_outputs(trial, *runtime, outputs, precision));
        HK_ASSIGN(const Probe learns, training_probe(trial, provided, 3));
        HK_TRY(compare_gradients(trial, *runtime, learns, precision));
    }
    return {};
}

Status test_bounds_on_device(Trial& trial) {
    std::unique_ptr<program::Runtime> runtime;
    DeviceSetting setting;
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Probe probe, evaluation_probe(trial, provided, 3));
        const Own own = own_operations(probe.graph);
        if (own == Own::none) {
            trial.skip(
                fmt::format("{}: its network has no operation of a plugin; Hekla tests its own", name_of(provided)));
            continue;
        }
        // Accessors count clamped accesses. A SPIR-V module from a plugin has no accessors, so the validation layer
        // checks it.
        if (setting.assisted != (own == Own::spirv)) runtime.reset();
        setting.assisted = own == Own::spirv;
        if (runtime == nullptr) { HK_ASSIGN(runtime, make_runtime(trial, setting)); }
        HK_TRY(compare_outputs(trial, *runtime, probe, program::Storage::f32, true));
    }
    return {};
}

Status test_learns(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        if (provided.interface_id == HK_ADAPTER_INTERFACE || provided.interface_id == HK_COMBINER_INTERFACE) {
            trial.skip(name_of(provided) + ": its body is not trained here, so that an adapter cannot fit the data");
            continue;
        }
        trial.doing(name_of(provided) + ": trained on 32 examples");
        constexpr int64_t kSteps = 60;
        HK_ASSIGN(const std::vector<double> losses,
                  train(trial, *runtime, recipe, fmt::format("learns-{}", provided.id), kSteps));
        const auto mean = [](std::span<const double> of) {
            return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
        };
        const double first = mean(std::span(losses).first(5)), last = mean(std::span(losses).last(10));
        // An objective with new random targets in every step learns more slowly than one that can be memorized.
        if (!(last < 0.9 * first))
            trial.fail(fmt::format("{}: after {} steps on 32 examples the loss is {:.4g}; it started at {:.4g}",
                                   name_of(provided), kSteps, last, first));
    }
    return {};
}

Status test_repeats(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        const std::string id(provided.id);
        trial.doing(name_of(provided) + ": the same training twice");
        HK_ASSIGN(const std::vector<double> first, train(trial, *runtime, recipe, "once-" + id, 4));
        HK_ASSIGN(const std::vector<double> second, train(trial, *runtime, recipe, "twice-" + id, 4));
        for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
            if (first[i] != second[i]) {
                trial.fail(fmt::format("{}: two runs have different losses in step {}: {:.9g} and {:.9g}",
                                       name_of(provided), i + 1, first[i], second[i]));
                break;
            }
        HK_ASSIGN(const std::string a, weights_of(trial, "once-" + id));
        HK_ASSIGN(const std::string b, weights_of(trial, "twice-" + id));
        if (a != b) trial.fail(fmt::format("{}: two runs give different weights", name_of(provided)));
    }
    return {};
}

Status test_resumes(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        const std::string id(provided.id);
        trial.doing(name_of(provided) + ": stopped after two steps, saved, loaded, resumed");
        HK_TRY(train(trial, *runtime, recipe, "whole-" + id, 4).status());
        HK_TRY(train(trial, *runtime, recipe, "parts-" + id, 2).status());
        HK_TRY(train(trial, *runtime, recipe, "parts-" + id, 4).status());
        HK_ASSIGN(const std::string a, weights_of(trial, "whole-" + id));
        HK_ASSIGN(const std::string b, weights_of(trial, "parts-" + id));
        if (a != b)
            trial.fail(
                fmt::format("{}: a run that was stopped and resumed has other weights than one that was not: "
                            "write_config() leaves something out, or the graph depends on more than its configuration",
                            name_of(provided)));
    }
    return {};
}

} // namespace hekla::check
