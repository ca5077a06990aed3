// Step scalars of a training: set by schedules and the host, and equal in a resumed run.
#include "base/file.hpp"
#include "program/harness.hpp"
#include "program/runtime.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/step/step_scalars.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"
#include "train/update/schedule.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace {

const char* const kText = "the quick brown fox jumps over the lazy dog and runs away\n";

struct Place {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});

    Result<Recipe> recipe(const std::vector<std::string>& overrides, const std::string& run = "run") const {
        const std::string text = folder.path() / "text.txt";
        std::string content;
        for (int i = 0; i < 20; ++i) content += kText;
        REQUIRE(write_file_atomically(text, content).ok());
        return parse_recipe("[model]\narchitecture = \"gated\"\n[data]\nvalid_fraction = 0.0\ntrain = \"" + text +
                                "\"\n[train]\nmax_steps = 6\ncontext_length = 8\nsave_steps = 3\neval_steps = 0\n"
                                "learning_rate = 0.05\n[output]\ndir = \"" +
                                (folder.path() / run).string() + "\"\n",
                            "r.toml", overrides);
    }
    // Returns the lines of train_log.jsonl.
    std::vector<nlohmann::json> log(const std::string& run = "run") const {
        Result<std::string> text = read_file(folder.path() / run / "train_log.jsonl");
        REQUIRE_MESSAGE(text.ok(), text.message());
        std::vector<nlohmann::json> lines;
        std::istringstream stream(text.value());
        for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
        return lines;
    }
};

Result<TrainerResult> trained(const Place& place, program::Runtime& runtime, const Recipe& recipe,
                              const TrainerEvents& events = {}) {
    HK_ASSIGN(const auto run, TrainingRun::create(recipe, place.registry, runtime, {}, events, Purpose::train));
    return TrainingLoop(*run).run();
}

std::vector<double> losses(const std::vector<nlohmann::json>& log) {
    std::vector<double> all;
    for (const nlohmann::json& line : log)
        if (line.contains("loss")) all.push_back(line["loss"].get<double>());
    return all;
}

} // namespace

TEST_CASE("a schedule sets the scalar of every step, logs it, and a resumed run has the same bits") {
    const Place place;
    Bench bench;
    const std::vector<std::string> schedule{
        "schedules.gate={kind = \"steps\", values = [[1, 0.0], [2, 1.0], [5, 0.5]]}",
        "schedules.layer.0.mix={kind = \"cosine\", value = 0.25, warmup_steps = 1}"};
    auto recipe = place.recipe(schedule);
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    // The first step has gate 0 and, half-way through its warm-up, mix 0.125: without the mix all logits would be 0.
    const auto done = trained(place, *bench, recipe.value());
    REQUIRE_MESSAGE(done.ok(), done.message());
    const std::vector<nlohmann::json> log = place.log();
    REQUIRE(log.size() == 6);
    for (std::size_t i = 0; i < log.size(); ++i) {
        const auto step = static_cast<int64_t>(i);
        const nlohmann::json& scalars = log[i].at("scalars");
        CHECK(scalars.at("gate").get<double>() == (i < 1 ? 0.0 : i < 4 ? 1.0 : 0.5));
        const double mix = scheduled_value(recipe->schedules.at("layer.0.mix"), step, 6);
        CHECK(scalars.at("layer.0.mix").get<double>() == static_cast<float>(mix));
    }
    CHECK(log[0]["scalars"]["layer.0.mix"].get<double>() == 0.125);

    // Stopped after three steps and resumed: the same losses and weights, to the bit.
    auto second = place.recipe(schedule, "second");
    int asked = 0;
    TrainerEvents stop_at_three;
    stop_at_three.step = [&](const train::StepRecord& report) { asked = static_cast<int>(report.step); };
    stop_at_three.stop = [&] { return asked >= 3; };
    REQUIRE(trained(place, *bench, second.value(), stop_at_three)->stopped);
    REQUIRE(trained(place, *bench, second.value()).ok());
    CHECK(losses(place.log("second")) == losses(log));
    const auto weights = [&](const char* run) {
        return read_file(place.folder.path() / run / "checkpoint-6" / "model.safetensors").value();
    };
    CHECK(weights("run") == weights("second"));
}

TEST_CASE("known values: a body scaled by 0 has a uniform prediction") {
    const Place place;
    Bench bench;
    auto recipe = place.recipe({"schedules.gate=0", "train.max_steps=3"});
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    REQUIRE(trained(place, *bench, recipe.value()).ok());
    const std::string text = kText;
    const double vocabulary = static_cast<double>(std::set<char>(text.begin(), text.end()).size());
    for (const double loss : losses(place.log())) CHECK(loss == doctest::Approx(std::log(vocabulary)).epsilon(1e-6));
    // Without a schedule the scalar has the graph's initial value, 1, and nothing is logged.
    auto plain = place.recipe({"train.max_steps=3"}, "plain");
    REQUIRE(trained(place, *bench, plain.value()).ok());
    for (const nlohmann::json& line : place.log("plain")) CHECK(!line.contains("scalars"));
    CHECK(losses(place.log("plain")) != losses(place.log()));
}

TEST_CASE("values set by the host replace the schedule, and a checkpoint stores them") {
    const Place place;
    Bench bench;
    auto recipe = place.recipe({"schedules.gate=0.5"});
    TrainerEvents events;
    int64_t step = 0;
    events.step = [&](const train::StepRecord& report) { step = report.step; };
    events.scalars = [&] { return step >= 2 ? StepScalars::Values{{"gate", 0.1}} : StepScalars::Values(); };
    events.stop = [&] { return step >= 4; };
    REQUIRE(trained(place, *bench, recipe.value(), events)->stopped);
    REQUIRE(trained(place, *bench, recipe.value()).ok()); // the host does not set the scalar any more
    const std::vector<nlohmann::json> log = place.log();
    REQUIRE(log.size() == 6);
    for (std::size_t i = 0; i < log.size(); ++i)
        CHECK(log[i].at("scalars").at("gate").get<double>() == (i < 2 ? 0.5 : static_cast<double>(0.1f)));
}

TEST_CASE("invalid names and values are rejected before the first step") {
    const Place place;
    Bench bench;
    const auto refused = [&](const std::string& schedule) {
        auto recipe = place.recipe({schedule}, "refused");
        REQUIRE_MESSAGE(recipe.ok(), recipe.message());
        const auto done = trained(place, *bench, recipe.value());
        REQUIRE(!done.ok());
        return done.message();
    };
    CHECK(refused("schedules.gates=1") ==
          "[schedules.gates]: the graph has no step scalar 'gates'; did you mean 'gate'?");
    CHECK(refused("schedules.zzzzzzzz=1") ==
          "[schedules.zzzzzzzz]: the graph has no step scalar 'zzzzzzzz' (it has gate, layer.0.mix)");
    CHECK(place.recipe({"schedules.gate=1e39"}).message() ==
          "r.toml: [schedules.gate] kind = \"constant\": a value is outside the range of float32");
    const std::vector<std::string> names{"gate"};
    CHECK(check_step_scalar(names, "gate", 0.5).ok());
    CHECK(!check_step_scalar(names, "gate", std::nan("")).ok());
    CHECK(!check_step_scalar(names, "gate", 1e39).ok());
}

TEST_CASE("stopping while data is read ends create()") {
    const Place place;
    Bench bench;
    auto recipe = place.recipe({});
    TrainerEvents events;
    events.stop = [] { return true; };
    CHECK(trained(place, *bench, recipe.value(), events).code() == Code::cancelled);
    CHECK(!std::filesystem::exists(place.folder.path() / "run"));
}
