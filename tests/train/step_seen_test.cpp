// Objectives that see the step: in the batch, and in the graph by the scalars that a training sets itself.
#include "base/file.hpp"
#include "program/harness.hpp"
#include "program/runtime.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

namespace step_seen_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;
using nlohmann::json;

namespace {

struct Paced {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});

    Result<Recipe> recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
        const std::string text = folder.path() / "text.txt";
        std::string content;
        for (int i = 0; i < 20; ++i) content += "the quick brown fox jumps over the lazy dog and runs away\n";
        REQUIRE(write_file_atomically(text, content).ok());
        return parse_recipe(
            "[model]\narchitecture = \"gated\"\n[objective]\nid = \"paced\"\n[head]\nid = \"lm\"\n[data]\ntrain = \"" +
                text + "\"\nvalid = \"" + text +
                "\"\n[train]\nmax_steps = 8\ncontext_length = 6\nsave_steps = 4\neval_steps = 4\n"
                "eval_batches = 2\nlearning_rate = 0.05\n[output]\ndir = \"" +
                (folder.path() / run).string() + "\"\n",
            "r.toml", overrides);
    }
    Result<TrainerResult> train(program::Runtime& runtime, const Recipe& recipe,
                                const TrainerEvents& events = {}) const {
        HK_ASSIGN(const auto run, TrainingRun::create(recipe, registry, runtime, {}, events, Purpose::train));
        return TrainingLoop(*run).run();
    }
    std::vector<json> log(const std::string& run) const {
        const Result<std::string> text = read_file(folder.path() / run / "train_log.jsonl");
        REQUIRE_MESSAGE(text.ok(), text.message());
        std::vector<json> lines;
        std::istringstream stream(text.value());
        for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
        return lines;
    }
};

} // namespace

TEST_CASE("the step reaches the batch and the graph, in steps, evaluations and resumed runs, and in worker processes") {
    std::vector<std::string> overrides;
    SUBCASE("in this process") {}
    SUBCASE("in worker processes") { overrides.emplace_back("plugins.isolate=true"); }
    SUBCASE("micro-batches") { overrides.emplace_back("train.gradient_accumulation_steps=2"); }
    const Paced paced;
    Bench bench;
    const auto whole = paced.recipe("whole", overrides), parts = paced.recipe("parts", overrides);
    REQUIRE_MESSAGE(whole.ok(), whole.message());
    const auto done = paced.train(*bench, whole.value());
    REQUIRE_MESSAGE(done.ok(), done.message());
    double step = 0.0;
    int evaluations = 0;
    for (const json& line : paced.log("whole")) {
        const double last = step - 1.0;
        if (line.contains("eval_loss")) { // of the last step
            ++evaluations;
            CHECK(line["eval_step"].get<double>() == last);
            CHECK(line["eval_progress"].get<double>() == last / 8.0);
            CHECK(line["eval_labels"].get<double>() == std::min(last + 1.0, 6.0));
            continue;
        }
        CHECK(line["metrics"]["step"].get<double>() == step);
        CHECK(line["metrics"]["progress"].get<double>() == step / 8.0);
        CHECK(line["metrics"]["labels"].get<double>() == std::min(step + 1.0, 6.0));
        CHECK(!line.contains("scalars")); // no schedule set one
        ++step;
    }
    CHECK(step == 8.0);
    CHECK(evaluations == 2);
    int64_t taken = 0;
    TrainerEvents stop;
    stop.step = [&](const train::StepRecord& report) { taken = report.step; };
    stop.stop = [&] { return taken >= 3; };
    REQUIRE(paced.train(*bench, parts.value(), stop)->stopped);
    REQUIRE(paced.train(*bench, parts.value()).ok());
    const auto weights = [&](const char* run) {
        return read_file(paced.folder.path() / run / "checkpoint-8" / "model.safetensors").value();
    };
    CHECK(weights("whole") == weights("parts"));
}

TEST_CASE("a schedule takes the place of a scalar that the training sets itself") {
    const Paced paced;
    Bench bench;
    const auto recipe = paced.recipe("run", {"schedules.train.progress=0.5", "train.max_steps=2"});
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    const auto done = paced.train(*bench, recipe.value());
    REQUIRE_MESSAGE(done.ok(), done.message());
    for (const json& line : paced.log("run"))
        if (line.contains("metrics")) {
            CHECK(line["metrics"]["progress"].get<double>() == 0.5);
            CHECK(line["scalars"] == json{{"train.progress", 0.5}});
        }
}

} // namespace step_seen_test
