#include "check/tests.hpp"

#include "base/file.hpp"
#include "graph/simplify.hpp"
#include "infer/model_tensors.hpp"
#include "program/host_tensor.hpp"
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace hekla::check {
namespace {

// A training from its beginning, or from where its folder stands; the losses of its steps.
Result<std::vector<double>> train(const Trial& trial, program::Runtime& runtime, train::Recipe recipe,
                                  const std::string& run, int64_t steps) {
    recipe.output.dir = (trial.folder() / run).string();
    recipe.train.max_steps = steps;
    std::vector<double> losses;
    train::TrainerEvents events;
    events.step = [&](const train::StepReport& report) { losses.push_back(report.loss); };
    HK_ASSIGN(const auto trainer,
              train::Trainer::create(recipe, trial.registry(), runtime, {}, events, train::Purpose::train));
    HK_TRY(trainer->run().status());
    return losses;
}

Result<std::string> weights_of(const Trial& trial, const std::string& run) {
    return read_file((trial.folder() / run / "model.safetensors").string());
}

// How the operations that plugins bring are written: spirv where one is.
enum class Own { none, glsl, spirv };
Own own_operations(const graph::Graph& graph) {
    Own found = Own::none;
    for (const graph::Node& node : graph.nodes)
        if (node.own != nullptr)
            found = node.own->operation->declaration().glsl.empty() || found == Own::spirv ? Own::spirv : Own::glsl;
    return found;
}

// bounds: of the operations that plugins bring, and of nothing else.
Status compare_with_float64(Trial& trial, DeviceSetting setting, bool bounds) {
    std::unique_ptr<program::Runtime> runtime;
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<data::Field> fields,
                  batch_of(small, std::span(small.examples).first(std::min<std::size_t>(3, small.examples.size())), 3,
                           small.length, 1));
        HK_ASSIGN(const std::vector<plugin::BatchField> described, small.composition->batch_fields(3, small.length));
        HK_ASSIGN(graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, described, {}, true));
        if (bounds) {
            const Own own = own_operations(graph);
            if (own == Own::none) {
                trial.skip(fmt::format(
                    "{}: its network has no operation of a plugin's; Hekla's own are tried by Hekla's tests",
                    name_of(provided)));
                continue;
            }
            // Accessors count what they clamp; a module that a plugin gives has none, so the validation layer watches.
            if (setting.assisted != (own == Own::spirv)) runtime.reset();
            setting.assisted = own == Own::spirv;
        }
        if (runtime == nullptr) { HK_ASSIGN(runtime, make_runtime(trial, setting)); }
        graph::Feeds feeds = feeds_of(graph, fields, trial.seed());
        for (auto& [name, tensor] : feeds.parameters) // what the device holds
            for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
        std::vector<graph::ValueId> wanted;
        std::vector<std::string> names;
        for (const auto& [name, value] : graph.outputs) {
            names.push_back(name);
            wanted.push_back(value);
        }
        HK_ASSIGN(const std::vector<graph::Tensor> right, graph::evaluate(graph, feeds, wanted));
        trial.doing(name_of(provided) + ": computed on the device");
        HK_ASSIGN(const graph::Graph simple, graph::simplify(graph));
        HK_ASSIGN(const auto store, program::ParameterStore::create(*runtime, program::parameter_table(simple)));
        for (const auto& [name, tensor] : feeds.parameters) {
            if (simple.find_leaf(graph::Op::parameter, name) == graph::kNone) continue;
            std::vector<float> values;
            for (const double value : tensor.data) values.push_back(static_cast<float>(value));
            HK_TRY(store->upload(name, values));
        }
        HK_TRY(infer::upload_described_buffers(*store, simple));
        program::CompileOptions options;
        options.outputs = names;
        options.gradients = program::Gradients::ignore;
        options.count_accesses = bounds;
        HK_ASSIGN(const auto program, program::Program::compile(*runtime, simple, *store, options));
        for (const data::Field& field : fields)
            if (program->has_input(field.name)) HK_TRY(program->set_input(field.name, field.bytes));
        HK_TRY(program->run({.seed = trial.seed()}));
        for (std::size_t i = 0; i < names.size(); ++i) {
            HK_ASSIGN(const program::HostTensor host, program->read_output(names[i]));
            const graph::Tensor got = program::tensor_of(host);
            double largest = 1e-6, worst = 0.0;
            std::size_t where = 0;
            for (const double value : right[i].data) largest = std::max(largest, std::abs(value));
            for (std::size_t k = 0; k < got.data.size(); ++k) {
                const double difference = std::abs(got.data[k] - right[i].data[k]) / largest;
                if (difference > worst || std::isnan(difference)) worst = difference, where = k;
            }
            if (!(worst <= 2e-4))
                trial.fail(fmt::format("{}: {} on the device is off by {:.2g} of its largest at element {}: {:.7g}, in "
                                       "float64 {:.7g}",
                                       name_of(provided), names[i], worst, where, got.data[where],
                                       right[i].data[where]));
        }
        if (!bounds) continue;
        HK_ASSIGN(const std::vector<program::AccessCounts> outside, program->access_counts());
        for (const program::AccessCounts& one : outside)
            if (one.loads > 0 || one.stores > 0)
                trial.fail(
                    fmt::format("{}: {} reaches outside of its tensors: {} loads, {} stores (which were clamped)",
                                name_of(provided), one.name, one.loads, one.stores));
        if (const gpu::ValidationCounts said = runtime->gpu().device->validation_counts(); said.errors > 0)
            trial.fail(fmt::format("{}: Vulkan's validation reports {} errors, the first: {}", name_of(provided),
                                   said.errors, said.first));
    }
    return {};
}

} // namespace

Status test_device(Trial& trial, DeviceSetting setting) { return compare_with_float64(trial, setting, false); }

Status test_bounds_on_device(Trial& trial) { return compare_with_float64(trial, {}, true); }

Status test_learns(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        trial.doing(name_of(provided) + ": 32 examples are learnt");
        constexpr int64_t kSteps = 60;
        HK_ASSIGN(const std::vector<double> losses, train(trial, *runtime, recipe, "learns-" + provided.id, kSteps));
        const auto mean = [](std::span<const double> of) {
            return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
        };
        const double first = mean(std::span(losses).first(5)), last = mean(std::span(losses).last(10));
        // An objective that draws anew what it asks for learns more slowly than one that can be known by heart.
        if (!(last < 0.9 * first))
            trial.fail(fmt::format("{}: after {} steps on 32 examples the loss is {:.4g}, it began with {:.4g}",
                                   name_of(provided), kSteps, last, first));
    }
    return {};
}

Status test_repeats(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        trial.doing(name_of(provided) + ": the same training twice");
        HK_ASSIGN(const std::vector<double> first, train(trial, *runtime, recipe, "once-" + provided.id, 4));
        HK_ASSIGN(const std::vector<double> second, train(trial, *runtime, recipe, "twice-" + provided.id, 4));
        for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
            if (first[i] != second[i]) {
                trial.fail(fmt::format("{}: the same training has another loss in step {}: {:.9g} and {:.9g}",
                                       name_of(provided), i + 1, first[i], second[i]));
                break;
            }
        HK_ASSIGN(const std::string a, weights_of(trial, "once-" + provided.id));
        HK_ASSIGN(const std::string b, weights_of(trial, "twice-" + provided.id));
        if (a != b)
            trial.fail(fmt::format("{}: the same training gives other weights the second time", name_of(provided)));
    }
    return {};
}

Status test_resumes(Trial& trial) {
    HK_ASSIGN(const auto runtime, make_runtime(trial));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const train::Recipe recipe, small_recipe(trial, provided));
        trial.doing(name_of(provided) + ": stopped after two steps, saved, loaded, gone on with");
        HK_TRY(train(trial, *runtime, recipe, "whole-" + provided.id, 4).status());
        HK_TRY(train(trial, *runtime, recipe, "parts-" + provided.id, 2).status());
        HK_TRY(train(trial, *runtime, recipe, "parts-" + provided.id, 4).status());
        HK_ASSIGN(const std::string a, weights_of(trial, "whole-" + provided.id));
        HK_ASSIGN(const std::string b, weights_of(trial, "parts-" + provided.id));
        if (a != b)
            trial.fail(
                fmt::format("{}: a training that was stopped and went on has other weights than one that was not: "
                            "write_config leaves something out, or a graph depends on more than its configuration",
                            name_of(provided)));
    }
    return {};
}

} // namespace hekla::check
