#include "verification.hpp"

#include "program/lowering/optimizer_state.hpp"

#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "infer/open/model_tensors.hpp"
#include "program/host_tensor.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/update/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::app {

Result<std::map<std::string, double>> loss_scales(const Fixture& fixture, const FixtureModel& model) {
    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    std::vector<graph::ValueId> counts;
    for (const graph::LossTerm& term : model.graph.losses) counts.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> counted, graph::evaluate(model.graph, feeds, counts));
    std::map<std::string, double> scales;
    for (std::size_t i = 0; i < counted.size(); ++i)
        scales[fmt::format("loss_scale.{}", i)] =
            counted[i].data[0] > 0.0 ? model.graph.losses[i].weight / counted[i].data[0] : 0.0;
    return scales;
}

Status upload(program::ParameterStore& store, const Tensors& parameters) {
    for (const auto& [name, tensor] : parameters) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        HK_TRY(store.upload(name, values));
    }
    return {};
}

namespace {

graph::Tensor widened(const graph::Shape& shape, std::span<const float> values, double scale = 1.0) {
    graph::Tensor tensor{graph::Kind::float32, shape, {values.begin(), values.end()}};
    for (double& value : tensor.data) value /= scale;
    return tensor;
}

bool all_finite(const Tensors& tensors) {
    return std::ranges::all_of(tensors, [](const auto& named) {
        return std::ranges::all_of(named.second.data, [](double x) { return std::isfinite(x); });
    });
}

// Uses the device as the engine. precision: as in training, with a loss scale for float16.
Result<Computed> compute_on_device(program::Runtime& runtime, const Fixture& fixture, const FixtureModel& model,
                                   program::Storage precision) {
    HK_ASSIGN(const graph::Graph graph, differentiated(model));
    HK_ASSIGN(const auto store, program::ParameterStore::create(
                                    runtime, program::parameter_table(model.graph),
                                    {.gradients = true, .moments = program::kAdamMoments, .frozen = model.frozen}));
    HK_TRY(upload(*store, model.parameters));
    program::CompileOptions options = fixture_options(graph);
    options.precision = precision;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));

    HK_ASSIGN(const auto scales, loss_scales(fixture, model));
    for (const auto& [name, tensor] : fixture.inputs)
        if (program->has_input(name)) HK_TRY(program->set_input(name, program::bytes_of(tensor)));
    const auto run = [&](double loss_scale) -> Status {
        for (const auto& [name, scale] : scales)
            if (program->has_scalar(name)) HK_TRY(program->set_scalar(name, static_cast<float>(scale * loss_scale)));
        return program->run();
    };
    const auto compute = [&](double loss_scale) -> Result<Tensors> {
        HK_TRY(run(loss_scale));
        Tensors computed;
        for (const std::string& name : options.outputs) {
            HK_ASSIGN(const program::HostTensor output, program->read_output(name));
            computed.emplace(name, widened(output.shape, output.floats(), name == "loss" ? loss_scale : 1.0));
        }
        for (const std::string& name : program->gradient_names()) {
            HK_ASSIGN(const ResourceArray<float> values, store->download(name, program::StoreArena::gradients));
            computed.emplace("grad." + name, widened(store->find(name)->shape, values, loss_scale));
        }
        return computed;
    };
    Computed computed;
    double first_scale = precision == program::Storage::f16 ? double{program::kFirstLossScale} : 1.0;
    HK_ASSIGN(computed.first, compute(first_scale));
    while (!all_finite(computed.first) && first_scale > 1.0) {
        first_scale /= 2.0;
        HK_ASSIGN(computed.first, compute(first_scale));
    }
    if (!fixture.has_adamw) return computed;

    train::TrainSection settings;
    settings.adam_beta1 = fixture.adamw.beta1;
    settings.adam_beta2 = fixture.adamw.beta2;
    settings.adam_epsilon = fixture.adamw.epsilon;
    settings.weight_decay = fixture.adamw.weight_decay;
    settings.max_grad_norm = fixture.adamw.clip_norm;
    settings.fp16 = precision == program::Storage::f16;
    HK_ASSIGN(const auto optimizer, train::Optimizer::create(runtime, *store, settings, program->gradient_names(), {}));
    while (std::ssize(computed.losses) < fixture.adamw.steps) {
        HK_ASSIGN(const double scale, optimizer->loss_scale());
        HK_TRY(run(scale));
        HK_ASSIGN(const float loss, program->read_scalar_output("loss"));
        HK_ASSIGN(const train::StepOutcome outcome, optimizer->step(fixture.adamw.learning_rate));
        if (!outcome.skipped)
            computed.losses.push_back(static_cast<double>(loss) / scale);
        else if (scale <= 1.0)
            return internal_error("an AdamW step was skipped: its loss or gradient was not finite");
    }
    for (const program::ParameterEntry& entry : store->table()) {
        HK_ASSIGN(const ResourceArray<float> values, store->download(entry.name));
        computed.stepped.emplace(entry.name, widened(entry.shape, values));
    }
    return computed;
}

} // namespace

Status verify_fixture(const plugin::Registry& registry, program::Runtime* runtime, const std::filesystem::path& folder,
                      const Log& log, program::Storage precision, FixtureReport& report) {
    HK_ASSIGN(const Fixture fixture, read_fixture(registry, folder));
    HK_ASSIGN(const FixtureModel model, describe_fixture(registry, fixture, log));
    HK_TRY(compare_merged(fixture, model, report));
    report.bars = bars_of(precision);
    if (runtime == nullptr) {
        HK_ASSIGN(const Computed computed, compute_reference(fixture, model));
        HK_TRY(compare(fixture, computed, report));
        return generate_reference(fixture, model, report);
    }
    HK_ASSIGN(const Computed computed, compute_on_device(*runtime, fixture, model, precision));
    HK_TRY(compare(fixture, computed, report));
    if (precision != program::Storage::f32 && !report.pass()) HK_TRY(widen_bars(fixture, model, precision, report));
    // Rounded scores may order tokens otherwise.
    if (fixture.generation.empty() || precision != program::Storage::f32) return {};
    HK_ASSIGN(const auto store, program::ParameterStore::create(*runtime, program::parameter_table(model.graph)));
    HK_TRY(upload(*store, model.parameters));
    HK_TRY(infer::upload_described_buffers(*store, model.graph));
    HK_ASSIGN(const std::unique_ptr<generate::Decoder> decoder,
              generate::make_program_decoder(*runtime, *store, *model.composition));
    return compare_generation(fixture, *decoder, report);
}

} // namespace hekla::app
