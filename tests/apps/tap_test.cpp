// hekla train --tap and hekla describe --taps: values that a plugin names.
#include "program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tap_test {

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const char* const kRecipe = R"([model]
architecture = "gan"
[objective]
id = "adversarial"
[head]
id = ""
[data]
valid_fraction = 0.0
train = "text.txt"
[train]
max_steps = 4
context_length = 4
eval_steps = 0
logging_steps = 2
[output]
dir = "run"
)";

Ran run_with_plugins(const Place& place, const Arguments& arguments) {
    return place.run(joined({"--plugin-path", HEKLA_TRAIN_PLUGINS}, arguments));
}

} // namespace

TEST_CASE("train --tap shows a value in lines of progress and in the log, and stores it") {
    const Place place;
    place.write("text.txt", "the text is not read, and its windows are rows of the batch\n");
    place.write("recipe.toml", kRecipe);
    const Ran trained = succeed(run_with_plugins(place, {"train", "--tap", "generator.*", "recipe.toml", "--tap-values",
                                                         "values", "--tap-every", "2", "train.max_steps=5"}));
    CHECK_MESSAGE(has(trained.err, "| tap generator.points "), trained.err);
    std::istringstream log(place.read("run/train_log.jsonl"));
    int steps = 0;
    for (std::string line; std::getline(log, line); ++steps) {
        const json tap = json::parse(line).at("taps").at("generator.points");
        CHECK(tap["elements"] == 16); // 8 rows of 2
        CHECK(tap["min"].get<double>() <= tap["mean"].get<double>());
        CHECK(tap["mean"].get<double>() <= tap["max"].get<double>());
    }
    CHECK(steps == 5);
    for (int step = 1; step <= 6; ++step)
        CHECK(place.exists("values/step-" + std::to_string(step) + ".safetensors") == (step == 2 || step == 4));

    const Ran wrong = run_with_plugins(place, {"train", "recipe.toml", "output.dir=other", "--tap", "generator.point"});
    CHECK(wrong.status == 1);
    CHECK_MESSAGE(has(wrong.err, "tap.names: no tap 'generator.point', did you mean 'generator.points'?; the graph has "
                                 "the taps generator.points"),
                  wrong.err);
    CHECK(run_with_plugins(place, {"train", "recipe.toml", "--tap-values", "values"}).status == 2);
}

TEST_CASE("describe lists taps, and keeps them as outputs") {
    const Place place;
    const Arguments gan{"describe", "gan", "--objective", "adversarial", "--batch", "3", "--set", "vocab_size=2"};
    CHECK(succeed(run_with_plugins(place, joined(gan, {"--taps"}))).out == "generator.points float32 [3, 2]\n");
    CHECK(!has(succeed(run_with_plugins(place, joined(gan, {"--backward"}))).out, "tap"));
    CHECK(has(succeed(run_with_plugins(place, joined(gan, {"--backward", "--tap", "*"}))).out, "tap.generator.points"));
    const Ran none = run_with_plugins(place, joined(gan, {"--tap", "hidden"}));
    CHECK(none.status == 1);
    CHECK_MESSAGE(has(none.err, "no tap 'hidden'; the graph has the taps generator.points"), none.err);
    const Ran without = place.run({"describe", "gpt2", "--set", "vocab_size=7", "--taps"});
    CHECK(without.status == 1);
    CHECK_MESSAGE(has(without.err, "the graph has no taps"), without.err);
}

} // namespace tap_test
