// Buffers that a training step writes, in a run: checkpoints, resuming, evaluation, and what is refused.
#include "base/file.hpp"
#include "model/weights.hpp"
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

namespace buffer_update_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace {

struct Runs {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});

    Result<Recipe> recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
        const std::string text = folder.path() / "text.txt";
        std::string content;
        for (int i = 0; i < 20; ++i) content += "the quick brown fox jumps over the lazy dog and runs away\n";
        REQUIRE(write_file_atomically(text, content).ok());
        return parse_recipe("[model]\narchitecture = \"normed\"\n[data]\nvalid_fraction = 0.0\ntrain = \"" + text +
                                "\"\n[train]\nmax_steps = 6\ncontext_length = 8\nsave_steps = 3\neval_steps = 0\n"
                                "learning_rate = 0.05\ngradient_accumulation_steps = 2\n[output]\ndir = \"" +
                                (folder.path() / run).string() + "\"\n",
                            "r.toml", overrides);
    }
    // Trains, and saves the model as `model` if that is given.
    Result<TrainerResult> train(program::Runtime& runtime, const Recipe& recipe, const TrainerEvents& events = {},
                                const std::string& model = {}) const {
        HK_ASSIGN(const auto run, TrainingRun::create(recipe, registry, runtime, {}, events, Purpose::train));
        HK_ASSIGN(const TrainerResult result, TrainingLoop(*run).run());
        if (!model.empty()) HK_TRY(run->save_model(folder.path() / model));
        return result;
    }
    std::string weights(const std::string& run, int step) const {
        return read_file(folder.path() / run / fmt::format("checkpoint-{}", step) / "model.safetensors").value();
    }
    // Returns a tensor of a checkpoint, or of a model's folder.
    std::vector<float> tensor(const std::string& run, int step, const std::string& name) const {
        return tensor(run + fmt::format("/checkpoint-{}", step), name);
    }
    std::vector<float> tensor(const std::string& place, const std::string& name) const {
        const auto weights = model::Weights::open(folder.path() / place);
        REQUIRE_MESSAGE(weights.ok(), weights.message());
        const auto found = weights->get(name);
        REQUIRE_MESSAGE(found.ok(), found.message());
        std::vector<float> values(found.value()->bytes.size() / 4);
        std::memcpy(values.data(), found.value()->bytes.data(), values.size() * 4);
        return values;
    }
};

} // namespace

TEST_CASE("buffers that steps write are in checkpoints, and a resumed run has the same bits") {
    const Runs runs;
    Bench bench;
    const auto recipe = runs.recipe("run");
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    const auto done = runs.train(*bench, recipe.value(), {}, "model");
    REQUIRE_MESSAGE(done.ok(), done.message());
    for (const char* name : {"norm.running_mean", "norm.running_var", "teacher"})
        CHECK(runs.tensor("model", name) == runs.tensor("run", 6, name));
    for (const float x : runs.tensor("run", 3, "norm.running_var")) CHECK(x != 1.0f);
    CHECK(runs.tensor("run", 3, "norm.running_mean") != runs.tensor("run", 6, "norm.running_mean"));
    CHECK(runs.tensor("run", 3, "teacher") != runs.tensor("run", 6, "teacher"));

    const auto second = runs.recipe("second");
    int steps = 0;
    TrainerEvents stop_at_three;
    stop_at_three.step = [&](const train::StepRecord& report) { steps = static_cast<int>(report.step); };
    stop_at_three.stop = [&] { return steps >= 3; };
    REQUIRE(runs.train(*bench, second.value(), stop_at_three)->stopped);
    const auto resumed = runs.train(*bench, second.value());
    REQUIRE_MESSAGE(resumed.ok(), resumed.message());
    CHECK(runs.weights("run", 6) == runs.weights("second", 6));
}

TEST_CASE("the teacher in a run's checkpoints follows the recursion of the weights") {
    std::vector<std::string> overrides{"train.save_steps=1", "train.save_total_limit=7"};
    SUBCASE("updates by the kernel") {}
    SUBCASE("updates by graphs") { overrides.emplace_back("optimizer.name=lion"); }
    const Runs runs;
    Bench bench;
    const auto recipe = runs.recipe("run", overrides);
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    REQUIRE(runs.train(*bench, recipe.value()).ok());
    std::vector<float> teacher = runs.tensor("run", 1, "teacher");
    std::vector<double> expected(teacher.begin(), teacher.end());
    for (int step = 1; step < 6; ++step) {
        const std::vector<float> words = runs.tensor("run", step, "words.weight");
        for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = 0.9 * expected[i] + 0.1 * static_cast<double>(words[i]);
        teacher = runs.tensor("run", step + 1, "teacher");
        for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(static_cast<double>(teacher[i]) == doctest::Approx(expected[i]).epsilon(1e-6));
    }
}

TEST_CASE("a training whose steps are divided refuses buffers that it would have to write") {
    const Runs runs;
    Bench bench;
    const auto recipe = runs.recipe("run", {"distributed.parts=2"});
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    const auto refused = runs.train(*bench, recipe.value());
    CHECK(refused.code() == Code::unsupported);
    CHECK_MESSAGE(refused.message().find("the model writes the buffer 'norm.running_mean' and 2 more in every step") !=
                      std::string::npos,
                  refused.message());
}

} // namespace buffer_update_test
