// Preferences through the program: direct preference optimization against the model that it begins with, and a reward
// model, resumed with the same bits; errors.
#include "tasks.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using hekla::test::has;
using hekla::test::last_evaluation;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace preference_test {
namespace {

const char* const kModel = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 32
resid_pdrop = 0.0
embd_pdrop = 0.0
attn_pdrop = 0.0
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 60
context_length = 32
per_device_train_batch_size = 8
learning_rate = 0.01
eval_steps = 0
save_steps = 60
[output]
dir = "first"
)";

const char* const kPreference = R"([model]
from = "first"
[teacher]
from = "first"
[objective]
id = "dpo"
[head]
id = "lm"
[data]
train = "pairs.jsonl"
valid = "pairs.jsonl"
[train]
max_steps = 8
context_length = 24
per_device_train_batch_size = 8
learning_rate = 0.003
logging_steps = 1
eval_steps = 8
save_steps = 4
[output]
dir = "dpo"
)";

void write_files(const Place& place) {
    const char* const names[] = {"sun", "moon", "cat", "dog", "tree"};
    std::string text, pairs;
    for (int i = 0; i < 400; ++i) {
        const std::string name = names[i % 5];
        text += name + " is " + (i % 2 == 0 ? "good" : "bad") + ".\n";
        pairs += json{{"prompt", name + " is "}, {"chosen", "good."}, {"rejected", "bad."}}.dump() + "\n";
    }
    pairs += R"({"prompt": "sun is ", "chosen": "good.", "rejected": "good."})"
             "\n"; // no preference
    place.write("text.txt", text);
    place.write("pairs.jsonl", pairs);
    place.write("model.toml", kModel);
    place.write("dpo.toml", kPreference);
}

// The logged steps of a run.
std::vector<json> logged_steps(const Place& place, const std::string& run) {
    std::istringstream lines(place.read(run + "/train_log.jsonl"));
    std::vector<json> all;
    for (std::string line; std::getline(lines, line);)
        if (json record = json::parse(line); record.contains("grad_norm")) all.push_back(std::move(record));
    return all;
}

} // namespace

TEST_CASE("dpo: dropout is off by default, also in a head and an adapter, so that the first loss is log 2") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "model.toml", "train.max_steps=2"}));
    const std::vector<std::string> dropout{"model.resid_pdrop=0.4", "model.embd_pdrop=0.4", "model.attn_pdrop=0.4"};
    const auto first_loss = [&](const std::string& dir, std::vector<std::string> changes) {
        std::vector<std::string> command{"train", "dpo.toml", "train.max_steps=1", "output.dir=" + dir};
        command.insert(command.end(), dropout.begin(), dropout.end());
        command.insert(command.end(), changes.begin(), changes.end());
        succeed(place.run(command));
        return hekla::test::training_steps(place, dir).at(0)["loss"].get<double>();
    };
    CHECK(first_loss("off", {}) == doctest::Approx(std::log(2.0)).epsilon(1e-6));
    CHECK(first_loss("on", {"train.disable_dropout=false"}) != doctest::Approx(std::log(2.0)).epsilon(1e-4));
    CHECK(has(place.read("off/recipe.toml"), "disable_dropout = true"));
    // An adapter's dropout is off too.
    const auto adapter = [&](const std::string& dir, const std::string& rate) {
        succeed(place.run({"train", "dpo.toml", "train.max_steps=3", "adapter.id=lora", "adapter.lora_dropout=" + rate,
                           "output.dir=" + dir}));
        return hekla::test::training_steps(place, dir).at(2)["loss"];
    };
    CHECK(adapter("lora", "0.5") == adapter("plain", "0.0"));
}

TEST_CASE("dpo: the first loss is log 2, preferences are learned, and a resumed run has the same weights") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "model.toml"}));
    const std::string body = place.read("first/model.safetensors");
    const Ran ran = succeed(place.run({"train", "dpo.toml"}));
    CHECK(has(ran.err, "computing the frozen layers")); // the reference is computed once for each example
    const std::vector<json> steps = logged_steps(place, "dpo");
    REQUIRE(steps.size() == 8);
    CHECK(std::abs(steps[0]["loss"].get<double>() - std::log(2.0)) < 1e-6);
    CHECK(steps[0]["metrics"]["rewards/margins"].get<double>() == 0.0);
    const json evaluation = last_evaluation(place, "dpo");
    CHECK(evaluation["eval_loss"].get<double>() < 0.6);
    CHECK(evaluation["eval_rewards/accuracies"].get<double>() == 1.0);
    CHECK(place.read("first/model.safetensors") == body);

    const std::string trained = place.read("dpo/model.safetensors");
    std::filesystem::remove_all(place.path("dpo/checkpoint-8"));
    CHECK(has(succeed(place.run({"train", "dpo.toml"})).err, "checkpoint-4"));
    CHECK(logged_steps(place, "dpo").size() == 8);
    CHECK(place.read("dpo/model.safetensors") == trained);
    for (const char* type : {"hinge", "ipo", "robust"})
        succeed(place.run({"train", "dpo.toml", std::string("objective.loss_type=") + type, "train.max_steps=2",
                           std::string("output.dir=") + type}));
    succeed(
        place.run({"train", "dpo.toml", "objective.id=orpo", "teacher.from=", "train.max_steps=2", "output.dir=orpo"}));
    // exp(loss) is a perplexity only of a mean over tokens.
    CHECK_FALSE(has(succeed(place.run({"eval", "dpo.toml"})).out, "perplexity"));
    CHECK(has(succeed(place.run({"eval", "model.toml", "train.eval_steps=10"})).out, "perplexity"));
}

TEST_CASE("kto: good completions become likelier than bad ones; dpo with a reference in the data loads none") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "model.toml"}));
    std::string judged, given;
    for (int i = 0; i < 80; ++i) {
        judged +=
            json{{"prompt", "cat is "}, {"completion", i % 2 == 0 ? "good." : "bad."}, {"label", i % 2 == 0}}.dump() +
            "\n";
        given += json{{"prompt", "cat is "},
                      {"chosen", "good."},
                      {"rejected", "bad."},
                      {"ref_chosen_logps", -2.5},
                      {"ref_rejected_logps", -3.0}}
                     .dump() +
                 "\n";
    }
    place.write("judged.jsonl", judged);
    succeed(place.run({"train", "dpo.toml", "objective.id=kto", "data.train=judged.jsonl", "data.valid=judged.jsonl",
                       "output.dir=kto", "train.max_steps=12", "train.eval_steps=12"}));
    const std::vector<json> steps = logged_steps(place, "kto");
    CHECK(std::abs(steps[0]["loss"].get<double>() - 0.5) < 1e-6);
    const json evaluation = last_evaluation(place, "kto");
    CHECK(evaluation["eval_loss"].get<double>() < 0.5);
    CHECK(evaluation["eval_rewards/chosen"].get<double>() > evaluation["eval_rewards/rejected"].get<double>());

    place.write("given.jsonl", given);
    const std::vector<std::string> columns{"train",
                                           "dpo.toml",
                                           "objective.reference_in_data=true",
                                           "data.train=given.jsonl",
                                           "data.valid=given.jsonl",
                                           "train.max_steps=2",
                                           "output.dir=given"};
    std::vector<std::string> alone = columns;
    alone.emplace_back("teacher.from=");
    CHECK_FALSE(has(succeed(place.run(alone)).err, "frozen"));
    const Ran both = place.run(columns);
    CHECK(both.status == 1);
    CHECK(has(both.err, "remove one of the two"));
    alone[3] = "data.train=pairs.jsonl";
    alone.back() = "output.dir=none";
    alone.emplace_back("teacher.from=");
    const Ran missing = place.run(alone);
    CHECK(missing.status == 1);
    CHECK(has(missing.err, "pairs.jsonl: line 1: there is no \"ref_chosen_logps\""));
    // The objective does not know the line of an example; the error does.
    place.write("judged.jsonl", R"({"prompt": "a", "completion": "b", "label": true}
{"prompt": "a", "completion": "d", "label": 2}
)");
    CHECK(has(place
                  .run({"train", "dpo.toml", "objective.id=kto", "data.train=judged.jsonl", "data.valid=judged.jsonl",
                        "output.dir=none"})
                  .err,
              "judged.jsonl: line 2: objective 'kto': collate: label is neither of two: expected true or false"));
}

TEST_CASE("reward: a number for each text, learned from pairs and rankings; what is refused") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "model.toml", "train.max_steps=5"}));
    const std::vector<std::string> reward{"train",
                                          "dpo.toml",
                                          "objective.id=reward",
                                          "teacher.from=",
                                          "head.id=classifier",
                                          "model.num_labels=1",
                                          "output.dir=reward",
                                          "train.learning_rate=0.02",
                                          "train.max_steps=20",
                                          "train.eval_steps=20"};
    succeed(place.run(reward));
    CHECK(last_evaluation(place, "reward")["eval_accuracy"].get<double>() == 1.0);
    const auto value = [&](const std::string& text) {
        return json::parse(succeed(place.run({"predict", "reward", "--text", text})).out)["value"].get<double>();
    };
    CHECK(value("cat is good.") > value("cat is bad."));

    std::string rankings;
    for (int i = 0; i < 40; ++i)
        rankings += json{{"prompt", "cat is "}, {"ranking", {"good.", "so.", "bad."}}}.dump() + "\n";
    place.write("rankings.jsonl", rankings);
    std::vector<std::string> ranked = reward;
    for (const char* more :
         {"objective.ranked=3", "data.train=rankings.jsonl", "data.valid=rankings.jsonl", "output.dir=ranked"})
        ranked.emplace_back(more);
    succeed(place.run(ranked));
    CHECK(last_evaluation(place, "ranked")["eval_accuracy"].get<double>() == 1.0);

    const auto refused = [&](std::vector<std::string> more, const std::string& message) {
        more.insert(more.begin(), {"train", "dpo.toml", "output.dir=none"});
        const Ran ran = place.run(more);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, message), ran.err);
        CHECK_FALSE(place.exists("none"));
    };
    refused({"teacher.from="}, "[teacher] from");
    refused({"objective.id=reward", "teacher.from=", "head.id=classifier"}, "model.num_labels = 1");
    refused({"objective.loss_type=kto"}, "loss_type is not sigmoid, hinge, ipo or robust");
    // Rows that have no preference are counted; only those are an error.
    const std::string equal = R"({"prompt": "sun is ", "chosen": "good.", "rejected": "good."})"
                              "\n";
    const std::string pairs = place.read("pairs.jsonl");
    place.write("pairs.jsonl", equal + pairs);
    CHECK(has(succeed(place.run({"train", "dpo.toml", "output.dir=counted", "train.max_steps=1"})).err,
              "2 rows without a preference"));
    place.write("pairs.jsonl", equal);
    refused({}, "no row has a preference (the first: pairs.jsonl: line 1: chosen and rejected are equal)");
    place.write("rankings.jsonl", R"({"prompt": "cat is ", "ranking": ["so.", "so."]})"
                                  "\n");
    refused({"objective.id=reward", "teacher.from=", "head.id=classifier", "model.num_labels=1", "objective.ranked=2",
             "data.train=rankings.jsonl", "data.valid=rankings.jsonl"},
            "a ranking with equal answers");
    place.write("rankings.jsonl", R"({"prompt": "cat is ", "ranking": ["good.", "so.", "bad."]})"
                                  "\n");
    const Ran longer = place.run({"train", "dpo.toml", "output.dir=longer", "objective.id=reward",
                                  "teacher.from=", "head.id=classifier", "model.num_labels=1", "objective.ranked=2",
                                  "data.train=rankings.jsonl", "data.valid=rankings.jsonl"});
    CHECK(longer.status == 1);
    CHECK_MESSAGE(has(longer.err, "rankings.jsonl: line 1: objective 'reward': collate: the ranking has 3 answers, and "
                                  "objective.ranked is 2"),
                  longer.err);
    place.write("pairs.jsonl", R"({"prompt": "sun is ", "chosen": "good."})"
                               "\n");
    refused({}, "rejected");
}

} // namespace preference_test
