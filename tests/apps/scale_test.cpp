// hekla scale: a ladder that is stopped, resumed, fitted and predicts its target, and errors that train nothing.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace scale_test {
namespace {

const char* const kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 1
n_embd = 8
n_positions = 16
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 1
context_length = 16
per_device_train_batch_size = 4
learning_rate = 0.01
eval_steps = 1
eval_batches = 4
save_steps = 3
[output]
dir = "unused"
)";

const char* const kLadder = R"(recipe = "recipe.toml"
dir = "out"
tokens = [320, 640, 1280]
[[size]]
name = "d8"
overrides = []
[[size]]
name = "d16"
overrides = ["model.n_embd=16"]
[[target]]
name = "d24"
overrides = ["model.n_embd=24"]
tokens = [1600]
)";

void write_files(const Place& place) {
    std::string text;
    for (int i = 0; i < 200; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("recipe.toml", kRecipe);
    place.write("ladder.toml", kLadder);
}

// A surface of Chinchilla's form without noise.
std::string surface() {
    std::string csv = "size,tokens,loss\n";
    for (const double n : {1e6, 4e6, 1.6e7, 6.4e7})
        for (const double d : {1e8, 1e9, 1e10})
            csv += fmt::format("{},{},{}\n", n, d, 1.7 + 400.0 / std::pow(n, 0.35) + 1500.0 / std::pow(d, 0.37));
    return csv;
}

// A ladder that was trained with its target. Cases leave it as it was.
const Place& trained_ladder() {
    static const Place place;
    static const bool trained = [] {
        write_files(place);
        succeed(place.run({"scale", "run", "ladder.toml"}));
        succeed(place.run({"scale", "run", "ladder.toml", "--targets"}));
        return true;
    }();
    REQUIRE(trained);
    return place;
}

} // namespace

TEST_CASE("a ladder trains each size on each number of tokens, then its target after a prediction" *
          doctest::test_suite("long")) {
    const Place place;
    write_files(place);
    const Ran listed = succeed(place.run({"scale", "run", "ladder.toml", "--list"}));
    CHECK(has(listed.out, "d16-1280"));
    CHECK(has(listed.out, "target"));
    CHECK_FALSE(place.exists("out"));
    const Ran early = place.run({"scale", "run", "ladder.toml", "--targets"});
    CHECK(early.status == 1);
    CHECK(has(early.err, "'d8-320' is not trained yet"));

    const Ran ran = succeed(place.run({"scale", "run", "ladder.toml"}));
    CHECK(ran.out == place.read("out/points.csv"));
    CHECK(std::ranges::count(ran.out, '\n') == 7);
    CHECK(has(ran.out, "d8-320,"));
    CHECK_FALSE(place.exists("out/d24-1600"));
    // Nothing is trained again.
    const std::string before = place.read("out/d16-640/train_log.jsonl");
    const Ran again = succeed(place.run({"scale", "run", "ladder.toml"}));
    CHECK(again.out == ran.out);
    CHECK_MESSAGE(again.err.empty(), again.err); // and no setting has changed
    CHECK(place.read("out/d16-640/train_log.jsonl") == before);

    const Ran targets = succeed(place.run({"scale", "run", "ladder.toml", "--targets"}));
    CHECK(std::ranges::count(targets.out, '\n') == 8);
    CHECK(has(targets.out, "d24-1600,"));

    const json predicted = json::parse(place.read("out/predictions.json"));
    REQUIRE(predicted.size() == 1);
    CHECK(predicted[0]["name"] == "d24-1600");
    CHECK(predicted[0]["loss"].get<double>() > 0.0);
}

TEST_CASE("a run that fails ends its ladder, and points.csv has all others that are finished" *
          doctest::test_suite("long")) {
    const Place& place = trained_ladder();
    std::filesystem::rename(place.path("out/d8-640"), place.path("kept"));
    place.write("out/d8-640", "not a folder");
    const Ran ended = place.run({"scale", "run", "ladder.toml"});
    CHECK(ended.status == 1);
    CHECK(has(ended.err, "out/d8-640"));
    const std::string others = place.read("out/points.csv");
    CHECK(std::ranges::count(others, '\n') == 7);
    CHECK(has(others, "d16-1280,"));
    CHECK(has(others, "d24-1600,"));
    CHECK_FALSE(has(others, "d8-640,"));
    std::filesystem::remove(place.path("out/d8-640"));
    std::filesystem::rename(place.path("kept"), place.path("out/d8-640"));
    CHECK(std::ranges::count(succeed(place.run({"scale", "run", "ladder.toml"})).out, '\n') == 8);
}

TEST_CASE("the points of a ladder are fitted, drawn and predict" * doctest::test_suite("long")) {
    const Place& place = trained_ladder();
    const json fitted = json::parse(succeed(place.run({"scale", "fit", "out", "--json", "--resamples", "20"})).out);
    REQUIRE(fitted["points"].size() == 7);
    CHECK(fitted["held_out"][0]["name"] == "d24-1600");
    CHECK(fitted["fits"].size() == 4); // droppo has as many constants as there are models
    CHECK(fitted["points"][0]["tokens"] == 320.0);
    const json& small = fitted["points"][0];
    const json& large = fitted["points"][3];
    CHECK(large["parameters"] > small["parameters"]);
    CHECK(large["parameters_without_embeddings"] < large["parameters"]);
    CHECK(large["flops"].get<double>() / large["tokens"].get<double>() >
          small["flops"].get<double>() / small["tokens"].get<double>());
    CHECK(has(place.read("out/scaling.html"), "d24-1600"));
    CHECK(has(place.read("out/scaling.svg"), "</svg>"));
    CHECK(has(succeed(place.run({"scale", "predict", "out", "--flops", "1e9"})).out, "the best for as many"));
}

TEST_CASE("scores of a task over the models of a ladder" * doctest::test_suite("long")) {
    const Place& place = trained_ladder();
    place.write("rows.jsonl", R"({"begin": "line 5 of a ", "end": "text that", "choices": ["text that", "txet taht"]}
{"begin": "that is long ", "end": "enough.", "choices": ["hguone.", "enough."]}
)");
    place.write("task.toml", R"(task = "lines"
output_type = "multiple_choice"
dataset = "rows.jsonl"
doc_to_text = "{{begin}}"
doc_to_target = "{{end}}"
doc_to_choice = "{{choices}}"
target_delimiter = ""
)");
    const Ran scored = succeed(place.run({"scale", "table", "out", "--tasks", "task.toml", "-o", "scores"}));
    CHECK(has(scored.out, "lines: acc"));
    const json scores = json::parse(place.read("scores/scores.json"));
    REQUIRE(scores["models"].size() == 7);
    CHECK(scores["models"][6]["flops"] > scores["models"][0]["flops"]);
    CHECK(scores["scores"][0]["values"].size() == 7);
    CHECK(has(place.read("scores/scores.html"), "Scores over size"));
    const std::string picture = place.read("scores/lines-0-shot-acc-none.svg");
    CHECK(has(picture, "</svg>"));
    CHECK(has(picture, ">lines: acc<"));
    CHECK(has(picture, "1,600 tokens"));
    std::filesystem::rename(place.path("out/d8-320"), place.path("out/moved"));
    const Ran moved = place.run({"scale", "table", "out", "--tasks", "task.toml"});
    CHECK(moved.status == 1);
    CHECK(has(moved.err, "the folder of the model 'd8-320'"));
    std::filesystem::rename(place.path("out/moved"), place.path("out/d8-320"));
}

TEST_CASE("a ladder whose recipe has changed is refused" * doctest::test_suite("long")) {
    const Place& place = trained_ladder();
    const Ran changed = place.run({"scale", "run", "ladder.toml"}, "");
    CHECK(changed.status == 0);
    std::string other = kRecipe;
    other.replace(other.find("n_layer = 1"), 11, "n_layer = 2");
    place.write("recipe.toml", other);
    const Ran refused = place.run({"scale", "run", "ladder.toml"});
    CHECK(refused.status == 1);
    CHECK(has(refused.err, "out/d8-320"));
    place.write("recipe.toml", kRecipe);
}

TEST_CASE("a fit recovers a surface, and predicts sizes, tokens and operations") {
    const Place place;
    place.write("points.csv", surface());
    const Ran fitted = succeed(place.run({"scale", "fit", "points.csv", "--column", "parameters=size", "--until-flops",
                                          "1e18", "-o", "fit", "--resamples", "50", "--json"}));
    const json all = json::parse(fitted.out);
    const json& constants = all["fits"][0]["constants"];
    CHECK(constants["E"]["value"].get<double>() == doctest::Approx(1.7).epsilon(1e-3));
    CHECK(constants["alpha"]["value"].get<double>() == doctest::Approx(0.35).epsilon(1e-3));
    CHECK(constants["beta"]["value"].get<double>() == doctest::Approx(0.37).epsilon(1e-3));
    REQUIRE(all["held_out"].size() == 1);
    CHECK(std::abs(all["held_out"][0]["error"].get<double>()) < 1e-4);
    CHECK(std::abs(all["held_out"][0]["error_of_line"].get<double>()) > 1e-3);
    CHECK_FALSE(has(place.read("fit/scaling.html"), "does not hold"));
    // Losses that rise with size and data have no such law: its E is above some of them.
    std::string rising = "size,tokens,loss\n";
    for (const double n : {1e6, 4e6, 1e7})
        for (const double d : {1e8, 1e9})
            rising +=
                fmt::format("{},{},{}\n", n, d, 1.0 / (1.7 + 400.0 / std::pow(n, 0.35) + 1500.0 / std::pow(d, 0.37)));
    place.write("rising.csv", rising);
    const Ran wrong =
        succeed(place.run({"scale", "fit", "rising.csv", "--column", "parameters=size", "--resamples", "5"}));
    CHECK(has(wrong.out, "E is above the loss of "));
    CHECK(has(place.read("scaling.html"), "so this law does not hold for them"));
    const auto predict = [&](const std::vector<std::string>& given) {
        std::vector<std::string> arguments{"scale", "predict", "fit/fit.json", "--json"};
        arguments.insert(arguments.end(), given.begin(), given.end());
        return json::parse(succeed(place.run(arguments)).out);
    };
    const json by_tokens = predict({"--parameters", "1e9", "--tokens", "2e10"});
    CHECK(by_tokens["flops"].get<double>() == doctest::Approx(1.2e20));
    const json by_flops = predict({"--parameters", "1e9", "--flops", "1.2e20"});
    CHECK(by_flops["tokens"].get<double>() == doctest::Approx(2e10));
    CHECK(by_flops["loss"].get<double>() == doctest::Approx(by_tokens["loss"].get<double>()));
    const json best = predict({"--flops", "1.2e20"});
    CHECK(best["loss"].get<double>() <= by_flops["loss"].get<double>());
    CHECK(predict({"--flops", "1.2e20", "--law", "kaplan"})["law"] == "kaplan");
    CHECK(place.run({"scale", "predict", "fit", "--tokens", "10"}).status == 2);
    const Ran unknown = place.run({"scale", "predict", "fit", "--flops", "1e9", "--without-embeddings"});
    CHECK(unknown.status == 1);
    CHECK(has(unknown.err, "without embeddings"));
    place.write("fit/fit.json", R"({"fits": [{"law": "chinchilla"}]})");
    const Ran damaged = place.run({"scale", "predict", "fit", "--flops", "1e9"});
    CHECK(damaged.status == 1);
    CHECK(has(damaged.err, "fit.json: is not a fit"));
}

TEST_CASE("errors of a ladder name file, line and key, and leave no folder") {
    const Place place;
    write_files(place);
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string text = kLadder;
        text.replace(text.find(from), from.size(), to);
        place.write("bad.toml", text);
        const Ran ran = place.run({"scale", "run", "bad.toml"});
        CHECK(ran.status == 1);
        CHECK(std::ranges::count(ran.err, '\n') == 1);
        CHECK_FALSE(place.exists("out"));
        return ran.err;
    };
    CHECK(has(refused("tokens = [320, 640, 1280]", "token = [320]"),
              "bad.toml:3: a ladder has no key 'token'; did you mean 'tokens'?"));
    CHECK(has(refused("tokens = [320, 640, 1280]", "tokens = [320, 320]"), "bad.toml:3: tokens: 320 is there twice"));
    CHECK(has(refused("tokens = [320, 640, 1280]", "tokens = [0]"),
              "bad.toml:3: tokens: 0 is too small, expected 1 or more"));
    CHECK(has(refused("tokens = [320, 640, 1280]", ""), "'d8' has no tokens"));
    CHECK(has(refused("tokens = [1600]", ""), "'d24' has no tokens"));
    CHECK(has(refused("dir = \"out\"", ""), "'dir' is missing"));
    CHECK(has(refused("name = \"d16\"", "name = \"d8\""), "'d8' on 320 tokens is there twice"));
    CHECK(has(refused("name = \"d16\"", "name = \"../d\""), "'../d': a name is part of a folder's"));
    CHECK(has(refused("model.n_embd=16", "data.train=a.txt"),
              "bad.toml:9: size.overrides: 'data.train': all runs of a ladder share [data]"));
    CHECK(has(refused("model.n_embd=16", "train.max_steps=3"), "'train.max_steps' follows from the tokens"));
    CHECK(has(refused("model.n_embd=16", "train.learning_rat=3"), "'d16-320': "));
    CHECK(has(refused("tokens = [320, 640, 1280]", "tokens = [32]"), "less than one step's 64"));
    CHECK(has(refused("tokens = [320, 640, 1280]", "tokens = [1_000_000]"), "set repeat_data = true"));
    CHECK(has(refused("recipe.toml", "none.toml"), "none.toml"));
    CHECK(place.run({"scale"}).status == 2);
    place.write("points.csv", "parameters,tokens,loss\n1,2,3\n");
    const Ran few = place.run({"scale", "fit", "points.csv"});
    CHECK(few.status == 1);
    CHECK(has(few.err, "points.csv: a scaling law needs at least 6"));
}

} // namespace scale_test
