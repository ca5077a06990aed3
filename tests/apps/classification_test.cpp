// Classification: trained, scored, asked; how its rows are drawn, and which weights are kept.
#include "tasks.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

TEST_CASE("classification: trained, scored, asked; a run that was stopped goes on with the same bits") {
    const Place place;
    write_task(place);
    const Ran untrained = place.run({"eval", "task.toml"});
    CHECK(untrained.status == 1);
    CHECK(has(untrained.err, "run: there is no checkpoint, and "));
    const Ran trained = succeed(place.run({"train", "task.toml"}));
    CHECK(has(trained.err, "labels: negative 20, positive 40"));
    CHECK(last_evaluation(place, "run")["eval_accuracy"].is_number());

    const json scores = json::parse(succeed(place.run({"eval", "task.toml", "--json", "-o", "said.jsonl"})).out);
    CHECK(scores["accuracy"] == last_evaluation(place, "run")["eval_accuracy"]);
    std::istringstream said(place.read("said.jsonl"));
    std::size_t count = 0, right = 0;
    for (std::string line; std::getline(said, line); ++count) {
        const json row = json::parse(line);
        CHECK(row["place"] == "valid.tsv: line " + std::to_string(count + 1));
        right += row["said"]["label_name"] == row["label"] ? 1 : 0;
    }
    CHECK(count == 21);
    CHECK(static_cast<double>(right) / 21.0 == doctest::Approx(scores["accuracy"].get<double>()));

    // No score depends on how many rows a batch has, and 21 is a multiple of none of these.
    for (const char* batch : {"1", "2", "5", "64"}) {
        const json other = json::parse(succeed(place.run({"eval", "task.toml", "--json",
                                                          std::string("train.per_device_eval_batch_size=") + batch}))
                                           .out);
        CHECK(other["accuracy"] == scores["accuracy"]);
        CHECK(other["loss"].get<double>() == doctest::Approx(scores["loss"].get<double>()).epsilon(1e-6));
    }

    // predict and eval agree on every row.
    const json asked = json::parse(
        succeed(place.run({"predict", "run", "--file", "valid.tsv", "--column", "text=1", "-o", "asked.jsonl"}))
                .out.empty()
            ? place.read("asked.jsonl").substr(0, place.read("asked.jsonl").find('\n'))
            : std::string("{}"));
    const json first = json::parse(place.read("said.jsonl").substr(0, place.read("said.jsonl").find('\n')));
    CHECK(asked["label_name"] == first["said"]["label_name"]);
    CHECK(asked["probabilities"][0].get<double>() ==
          doctest::Approx(first["said"]["probabilities"][0].get<double>()).epsilon(1e-5));

    // The last override decides the number of steps.
    succeed(place.run({"train", "task.toml", "output.dir=two", "train.num_train_epochs=50", "train.max_steps=2"}));
    CHECK(place.exists("two/checkpoint-2"));
    const Ran epochs = succeed(
        place.run({"train", "task.toml", "output.dir=epochs", "train.max_steps=2", "train.num_train_epochs=0.5"}));
    CHECK(has(epochs.out + epochs.err, "0.5 epochs of "));

    succeed(place.run({"train", "task.toml", "output.dir=parts", "train.max_steps=6", "train.num_train_epochs=0"}));
    fs::remove_all(place.path("parts/checkpoint-6"));
    fs::remove_all(place.path("parts/checkpoint-4"));
    succeed(place.run({"train", "task.toml", "output.dir=parts"}));
    CHECK(place.read("parts/checkpoint-6/model.safetensors") == place.read("run/checkpoint-6/model.safetensors"));
    CHECK(place.read("parts/checkpoint-6/optimizer.safetensors") ==
          place.read("run/checkpoint-6/optimizer.safetensors"));
}

TEST_CASE("rows grouped by length, early ends, the best weights at the end") {
    const Place place;
    write_task(place);
    succeed(place.run({"train", "task.toml", "train.group_by_length=true"}));
    const json grouped =
        json::parse(succeed(place.run({"eval", "task.toml", "train.group_by_length=true", "--json"})).out);
    const json whole =
        json::parse(succeed(place.run({"eval", "task.toml", "train.group_by_length=false", "--json"})).out);
    CHECK(grouped["accuracy"] == whole["accuracy"]);
    CHECK(grouped["loss"].get<double>() == doctest::Approx(whole["loss"].get<double>()).epsilon(1e-5));
    fs::remove_all(place.path("run/checkpoint-6"));
    const std::string before = place.read("run/model.safetensors");
    succeed(place.run({"train", "task.toml", "train.group_by_length=true"}));
    CHECK(place.read("run/model.safetensors") == before);

    // A rate that spoils the model: the first evaluation is the best, and the run ends two later.
    const Ran early = succeed(place.run({"train", "task.toml", "output.dir=early", "train.learning_rate=0.5",
                                         "train.max_steps=60", "train.eval_steps=1", "train.save_steps=0",
                                         "train.early_stopping_patience=2", "train.load_best_model_at_end=true"}));
    CHECK(has(early.err, "stopping early"));
    const json best = last_evaluation(place, "early");
    CHECK(best["step"].get<int64_t>() < 60);
    std::istringstream lines(place.read("early/train_log.jsonl"));
    double least = 1e30;
    for (std::string line; std::getline(lines, line);)
        if (const json record = json::parse(line); record.contains("eval_loss"))
            least = std::min(least, record["eval_loss"].get<double>());
    const json kept = json::parse(succeed(place.run({"eval", "task.toml", "output.dir=early", "train.learning_rate=0.5",
                                                     "train.load_best_model_at_end=true", "--json"}))
                                      .out);
    CHECK(kept["loss"].get<double>() == doctest::Approx(least).epsilon(1e-6));
}

TEST_CASE("an average of the weights is evaluated and saved; a run with it goes on with the same bits") {
    const Place place;
    write_task(place);
    const std::vector<std::string> averaged{"train.ema_decay=0.9", "train.learning_rate=1e-2"};
    const auto train = [&](std::vector<std::string> changes) {
        std::vector<std::string> command{"train", "task.toml"};
        command.insert(command.end(), averaged.begin(), averaged.end());
        command.insert(command.end(), changes.begin(), changes.end());
        return place.run(command);
    };
    succeed(train({"output.dir=averaged"}));
    succeed(place.run({"train", "task.toml", "output.dir=plain", "train.learning_rate=1e-2"}));
    // The weights themselves are those of a run without; what is saved at the end is their average.
    CHECK(place.read("averaged/checkpoint-6/model.safetensors") == place.read("plain/checkpoint-6/model.safetensors"));
    CHECK(place.read("averaged/model.safetensors") != place.read("averaged/checkpoint-6/model.safetensors"));
    CHECK(place.read("averaged/model.safetensors") != place.read("plain/model.safetensors"));
    const json scores = json::parse(
        succeed(place.run({"eval", "task.toml", "output.dir=averaged", "train.ema_decay=0.9", "--json"})).out);
    CHECK(scores["loss"].get<double>() ==
          doctest::Approx(last_evaluation(place, "averaged")["eval_loss"].get<double>()).epsilon(1e-6));
    CHECK(scores["loss"] != last_evaluation(place, "plain")["eval_loss"]);

    succeed(train({"output.dir=parts"}));
    fs::remove_all(place.path("parts/checkpoint-6"));
    succeed(train({"output.dir=parts"}));
    CHECK(place.read("parts/model.safetensors") == place.read("averaged/model.safetensors"));
    const Ran other = place.run({"train", "task.toml", "output.dir=averaged", "train.max_steps=8"});
    CHECK(other.status == 1);
    CHECK(has(other.err, "train.ema_decay"));
    CHECK(has(place.run({"train", "task.toml", "output.dir=x", "train.ema_decay=1"}).err, "ema_decay"));
}

TEST_CASE("--seeds: a run a seed, with mean and deviation; an evaluation as a page") {
    const Place place;
    write_task(place);
    const Ran none = place.run({"train", "task.toml", "--seeds", "2", "train.eval_steps=0"});
    CHECK(none.status == 1);
    CHECK(has(none.err, "train.eval_steps = 0"));
    CHECK(has(succeed(place.run({"inspect", "task.toml"})).out, "parameters"));
    const json all = json::parse(succeed(place.run({"train", "task.toml", "--seeds", "3", "--json"})).out);
    CHECK(all["seeds"] == json{1337, 1338, 1339});
    const std::vector<double> losses = all["scores"]["loss"]["values"];
    REQUIRE(losses.size() == 3);
    const double mean = (losses[0] + losses[1] + losses[2]) / 3.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(
            losses[i] ==
            doctest::Approx(last_evaluation(place, "run/seed-" + std::to_string(1337 + i))["eval_loss"].get<double>()));
        squares += (losses[i] - mean) * (losses[i] - mean);
    }
    CHECK(all["scores"]["loss"]["mean"].get<double>() == doctest::Approx(mean));
    CHECK(all["scores"]["loss"]["deviation"].get<double>() == doctest::Approx(std::sqrt(squares / 2.0)));
    // Done already: the same numbers, at once.
    CHECK(json::parse(succeed(place.run({"train", "task.toml", "--seeds", "3", "--json"})).out) == all);
    const Ran table = succeed(place.run({"eval", "task.toml", "--seeds", "3", "--report", "page.html"}));
    CHECK(has(table.out, "seed 1339"));
    CHECK(has(table.out, "matthews"));
    const std::string page = place.read("page-seed-1338.html");
    for (const char* part : {"<svg", "f1_macro", "precision", "valid.tsv: line ", "run/seed-1338"})
        CHECK_MESSAGE(has(page, part), part);
    CHECK(!has(page, "http-equiv"));
    CHECK(!has(page, "src="));
    // What the data holds is text there, not markup.
    place.write("marks.tsv", "a <b>bold</b> film\tpositive\na film & no more\tnegative\n");
    succeed(
        place.run({"eval", "task.toml", "output.dir=run/seed-1337", "data.valid=marks.tsv", "--report", "marks.html"}));
    CHECK(has(place.read("marks.html"), "a &lt;b&gt;bold&lt;/b&gt; film"));
}

TEST_CASE("classes drawn equally often, micro-batches that fit, tokens that are added to a loaded model" *
          doctest::test_suite("long")) {
    const Place place;
    write_task(place);
    succeed(place.run({"train", "task.toml", "data.class_balanced=true", "output.dir=balanced"}));
    fs::remove_all(place.path("balanced/checkpoint-6"));
    const std::string before = place.read("balanced/model.safetensors");
    succeed(place.run({"train", "task.toml", "data.class_balanced=true", "output.dir=balanced"}));
    CHECK(place.read("balanced/model.safetensors") == before);
    CHECK(has(
        place.run({"train", "task.toml", "data.class_balanced=true", "train.group_by_length=true", "output.dir=x"}).err,
        "each determines the order"));

    // 40 of the 60 rows are positive: 60 / (2 * 20) for the others, 60 / (2 * 40) for these.
    succeed(place.run({"train", "task.toml", "objective.class_weights=balanced", "output.dir=by_name"}));
    succeed(place.run({"train", "task.toml", "objective.class_weights=[1.5, 0.75]", "output.dir=by_number"}));
    CHECK(place.read("by_name/model.safetensors") == place.read("by_number/model.safetensors"));
    CHECK(has(place.run({"train", "task.toml", "objective.class_weights=equal", "output.dir=x"}).err,
              "expected \"balanced\", or a number a class"));

    // Four micro-batches of two are one of eight: the same step, up to the rounding of sums.
    const Ran fitted = succeed(place.run({"train", "task.toml", "--fit", "train.per_device_train_batch_size=2",
                                          "train.gradient_accumulation_steps=4", "output.dir=fitted"}));
    CHECK(has(fitted.err, "fits: micro-batches of 8, 1 per step"));
    succeed(place.run({"train", "task.toml", "output.dir=whole"}));
    CHECK(place.read("fitted/model.safetensors") == place.read("whole/model.safetensors"));

    place.write("more.toml", std::string("[model]\nfrom = \"whole\"\n") + kTask);
    const std::vector<std::string> grow{"train",
                                        "more.toml",
                                        "output.dir=grown",
                                        "train.max_steps=0",
                                        "tokenizer.add=[\"<new>\"]",
                                        "tokenizer.add_roles={mask = \"<blank>\"}"};
    const Ran grown = succeed(place.run(grow));
    CHECK(has(grown.err, "the vocabulary grows from"));
    const json config = json::parse(place.read("grown/config.json")),
               old = json::parse(place.read("whole/config.json"));
    CHECK(config["vocab_size"] == old["vocab_size"].get<int>() + 2);
    const json ids =
        json::parse(succeed(place.run({"tokenize", "encode", "grown", "--text", "a<new>b", "--json"})).out);
    CHECK(has(ids.dump(), "<new>"));
    // What was known is as it was: the same texts get the same scores.
    const auto said = [&](const std::string& folder) {
        return json::parse(succeed(place.run({"predict", folder, "--text", "film x good 7"})).out)["probabilities"][0]
            .get<double>();
    };
    CHECK(said("grown") == doctest::Approx(said("whole")).epsilon(1e-6));
    succeed(place.run({"train", "more.toml", "output.dir=further", "train.max_steps=2", "tokenizer.add=[\"<new>\"]"}));
    CHECK(has(place.run({"train", "more.toml", "output.dir=x", "tokenizer.add_roles={middle = \"<m>\"}"}).err,
              "there is no role 'middle'"));
}
