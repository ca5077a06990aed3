// hekla batches: the initial model and the first batches of a training as files, to inspect or to train elsewhere.
#include "command.hpp"
#include "output.hpp"

#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/training_run.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

struct BatchesArguments {
    std::string recipe;
    std::vector<std::string> overrides;
    std::string output;
    int64_t steps = 0;
};

// Every field of a step: "0.input_ids" of its first micro-batch.
Status write_step(const fs::path& file, const std::vector<data::Batch>& micro) {
    std::vector<model::TensorSource> sources;
    for (const data::Batch& batch : micro)
        for (const data::Field& field : batch.fields) {
            model::TensorSource source;
            source.name = fmt::format("{}.{}", batch.micro_step, field.name);
            source.dtype = field.kind == data::FieldKind::int32 ? model::DType::i32 : model::DType::f32;
            source.dims = field.shape;
            source.stream = [&bytes = field.bytes](const model::Sink& sink) {
                return sink(std::as_bytes(std::span(bytes)));
            };
            sources.push_back(std::move(source));
        }
    return model::write_safetensors_file(file, sources).status();
}

Result<int> batches(const Globals& globals, const BatchesArguments& a) {
    const fs::path folder = a.output;
    std::error_code problem;
    if (fs::exists(folder / "model", problem))
        return failed_precondition(fmt::format("{}: exists already: choose another -o", folder.string()));
    HK_ASSIGN(train::Recipe recipe, train::read_recipe(a.recipe, a.overrides));
    if (fs::exists(recipe.output.dir, problem))
        return failed_precondition(fmt::format("{}: a run exists there, and this writes the start of a new one: give "
                                               "another output.dir",
                                               recipe.output.dir));
    const plugin::Registry registry = scan_plugins(globals);
    DeviceOnDemand device(globals);
    train::TrainerEvents events;
    events.message = [&](const std::string& line) { globals.log().info(line); };
    HK_ASSIGN(const auto trainer, train::TrainingRun::create(recipe, registry, device.source(), globals.log(), events));
    fs::create_directories(folder / "model", problem);
    if (problem) return io_error(fmt::format("{}: the folder cannot be made: {}", a.output, problem.message()));
    HK_TRY(trainer->save_model(folder / "model"));
    int64_t written = 0;
    HK_TRY(trainer->draw(a.steps, [&](const std::vector<data::Batch>& micro) {
        return write_step(folder / fmt::format("step-{}.safetensors", ++written), micro);
    }));
    fmt::print("{}: model/, and step-1.safetensors to step-{}.safetensors\n", a.output, written);
    return kDone;
}

} // namespace

void add_batches(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "batches", "Write the initial model of a training and the batches of its first steps as safetensors.");
    const auto a = std::make_shared<BatchesArguments>();
    parser->add_option("recipe", a->recipe, "recipe file (TOML), or the folder of a run")->required();
    parser->add_option("overrides", a->overrides, "recipe keys to override: train.seed=2");
    parser->add_option("--steps", a->steps, "number of steps, from the first")
        ->required()
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    parser->add_option("-o,--output", a->output, "folder to create")->required();
    parser->footer("Example: hekla batches recipe.toml --steps 200 -o out/batches\n"
                   "There is one file per step; \"0.input_ids\" is the field input_ids of its first micro-batch.");
    verbs.push_back({parser, [&globals, a] { return finish(batches(globals, *a)); }});
}

} // namespace hekla::app
