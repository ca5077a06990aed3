// hekla verify: does this device (or the float64 interpreter) compute what the reference implementation computes?
#include "command.hpp"
#include "comparison.hpp"

#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "graph/gradient.hpp"
#include "graph/simplify.hpp"
#include "train/optimizer.hpp"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>

namespace hekla::app {
namespace {

struct VerifyArguments {
    std::vector<std::string> folders;
    bool json = false, reference = false;
};

std::vector<std::byte> bytes_of(const graph::Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.data.size() * 4);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        if (tensor.kind == graph::Kind::int32) {
            const auto value = static_cast<int32_t>(tensor.data[i]);
            std::memcpy(bytes.data() + i * 4, &value, 4);
        } else {
            const auto value = static_cast<float>(tensor.data[i]);
            std::memcpy(bytes.data() + i * 4, &value, 4);
        }
    }
    return bytes;
}

graph::Tensor widened(const graph::Shape& shape, std::span<const float> values) {
    return {graph::Kind::float32, shape, {values.begin(), values.end()}};
}

Status upload(program::ParameterStore& store, const Tensors& parameters) {
    for (const auto& [name, tensor] : parameters) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        HK_TRY(store.upload(name, values));
    }
    return {};
}

// The device as the engine.
Result<Computed> compute_on_device(program::Runtime& runtime, const Fixture& fixture, const FixtureModel& model) {
    HK_ASSIGN(graph::Graph graph, graph::differentiate(model.graph));
    HK_ASSIGN(graph, graph::simplify(graph));
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(model.graph),
                                                                {.gradients = true, .moments = true}));
    HK_TRY(upload(*store, model.parameters));
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.state_outputs = {{"loss", train::kLossState}};
    for (const auto& [name, value] : graph.outputs)
        if (name.starts_with("out.")) options.outputs.push_back(name);
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));

    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    std::vector<graph::ValueId> counts;
    for (const graph::LossTerm& term : model.graph.losses) counts.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> counted, graph::evaluate(model.graph, feeds, counts));
    for (std::size_t i = 0; i < counted.size(); ++i)
        HK_TRY(program->set_scalar(
            fmt::format("loss_scale.{}", i),
            counted[i].data[0] > 0.0 ? static_cast<float>(model.graph.losses[i].weight / counted[i].data[0]) : 0.0f));
    for (const auto& [name, tensor] : fixture.inputs)
        if (program->has_input(name)) HK_TRY(program->set_input(name, bytes_of(tensor)));
    HK_TRY(program->run());

    Computed computed;
    for (const std::string& name : options.outputs) {
        HK_ASSIGN(const program::HostTensor output, program->read_output(name));
        computed.first.emplace(name, widened(output.shape, output.floats()));
    }
    for (const std::string& name : program->gradient_names()) {
        HK_ASSIGN(const std::vector<float> values, store->download(name, program::StoreArena::gradients));
        computed.first.emplace("grad." + name, widened(store->find(name)->shape, values));
    }
    if (!fixture.has_adamw) return computed;

    train::TrainSection settings;
    settings.adam_beta1 = fixture.adamw.beta1;
    settings.adam_beta2 = fixture.adamw.beta2;
    settings.adam_epsilon = fixture.adamw.epsilon;
    settings.weight_decay = fixture.adamw.weight_decay;
    settings.max_grad_norm = fixture.adamw.clip_norm;
    HK_ASSIGN(const auto optimizer, train::Optimizer::create(runtime, *store, settings, program->gradient_names(), {}));
    for (int64_t step = 0; step < fixture.adamw.steps; ++step) {
        HK_TRY(program->run());
        HK_ASSIGN(const float loss, program->read_scalar_output("loss"));
        computed.losses.push_back(static_cast<double>(loss));
        HK_ASSIGN(const train::StepOutcome outcome, optimizer->step(fixture.adamw.learning_rate));
        if (outcome.skipped) return internal_error("an AdamW step was skipped: its loss or gradient was not finite");
    }
    for (const program::ParameterEntry& entry : store->table()) {
        HK_ASSIGN(const std::vector<float> values, store->download(entry.name));
        computed.stepped.emplace(entry.name, widened(entry.shape, values));
    }
    return computed;
}

Status verify_folder(const plugin::Registry& registry, program::Runtime* runtime, const std::filesystem::path& folder,
                     const Log& log, FixtureReport& report) {
    HK_ASSIGN(const Fixture fixture, read_fixture(folder));
    HK_ASSIGN(const FixtureModel model, describe_fixture(registry, fixture, log));
    if (runtime == nullptr) {
        HK_ASSIGN(const Computed computed, compute_reference(fixture, model));
        HK_TRY(compare(fixture, computed, report));
        return generate_reference(fixture, model, report);
    }
    HK_ASSIGN(const Computed computed, compute_on_device(*runtime, fixture, model));
    HK_TRY(compare(fixture, computed, report));
    if (fixture.generation.empty()) return {};
    HK_ASSIGN(const auto store, program::ParameterStore::create(*runtime, program::parameter_table(model.graph)));
    HK_TRY(upload(*store, model.parameters));
    HK_ASSIGN(const std::unique_ptr<generate::Decoder> decoder,
              generate::make_program_decoder(*runtime, *store, *model.composition));
    return compare_generation(fixture, *decoder, report);
}

int run_verify(const Globals& globals, const VerifyArguments& a) {
    const plugin::Registry registry = scan_plugins(globals);
    std::unique_ptr<program::Runtime> runtime;
    if (!a.reference) {
        Result<std::unique_ptr<program::Runtime>> made = create_runtime(globals);
        if (!made.ok()) return fail(made.status());
        runtime = made.take();
    }
    const Bars bars;
    std::size_t passed = 0;
    nlohmann::json reports = nlohmann::json::array();
    for (const std::string& name : a.folders) {
        const std::filesystem::path folder(name);
        FixtureReport report;
        report.fixture = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
        const auto begin = std::chrono::steady_clock::now();
        report.problem = verify_folder(registry, runtime.get(), folder, globals.log(), report);
        report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        passed += report.pass(bars) ? 1 : 0;
        if (a.json)
            reports.push_back(report.json(bars));
        else
            std::printf("%s\n", report.line(bars).c_str());
        std::fflush(stdout);
    }
    if (a.json)
        std::printf("%s\n", reports.dump(1).c_str());
    else
        std::printf("%zu of %zu pass\n", passed, a.folders.size());
    return passed == a.folders.size() ? kDone : kFailed;
}

} // namespace

void add_verify(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        app.add_subcommand("verify", "Compare this device with the reference implementation on fixture folders.");
    const auto arguments = std::make_shared<VerifyArguments>();
    parser->add_option("folders", arguments->folders, "fixture folders (config.json, model, inputs, expected)")
        ->required();
    parser->add_flag("--json", arguments->json, "a JSON array, one object a folder");
    parser->add_flag("--reference", arguments->reference, "the engine's float64 interpreter instead of the device");
    parser->footer("Example: hekla verify tests/fixtures/models/*");
    verbs.push_back({parser, [&globals, arguments] { return run_verify(globals, *arguments); }});
}

} // namespace hekla::app
