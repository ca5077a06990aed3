// Tasks from raw files to a score: a tiny BERT pre-trained, fine-tuned with a new head, scored, asked.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

const char* const kModel = R"([model]
architecture = "bert"
hidden_size = 16
num_hidden_layers = 2
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 32
)";

const char* const kTask = R"([objective]
id = "classification"
[head]
id = "classifier"
[data]
train = "train.tsv"
valid = "valid.tsv"
format = "tsv"
columns = ["text", "label"]
[train]
max_steps = 6
context_length = 24
per_device_train_batch_size = 8
learning_rate = 1e-3
eval_steps = 3
save_steps = 2
warmup_steps = 1
[output]
dir = "run"
)";

// Sentences whose label stands in one word of them.
std::string rows(int begin, int end) {
    std::string text;
    for (int i = begin; i < end; ++i) {
        const bool good = i * 7919 % 3 != 0;
        text += "film " + std::string(static_cast<std::size_t>(i % 4), 'x') + (good ? " good " : " bad ") +
                std::to_string(i * 31 % 100) + "\t" + (good ? "positive" : "negative") + "\n";
    }
    return text;
}

void write_task(const Place& place) {
    place.write("train.tsv", rows(0, 60));
    place.write("valid.tsv", rows(100, 121));
    place.write("task.toml", std::string(kModel) + kTask);
}

json last_evaluation(const Place& place, const std::string& run) {
    std::istringstream lines(place.read(run + "/train_log.jsonl"));
    json last;
    for (std::string line; std::getline(lines, line);)
        if (json record = json::parse(line); record.contains("eval_loss")) last = std::move(record);
    return last;
}

} // namespace

TEST_CASE("classification: trained, scored, asked; a run that was stopped goes on with the same bits") {
    const Place place;
    write_task(place);
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

    // What predict says of a row is what eval said of it.
    const json asked = json::parse(
        succeed(place.run({"predict", "run", "--file", "valid.tsv", "--column", "text=1", "-o", "asked.jsonl"}))
                .out.empty()
            ? place.read("asked.jsonl").substr(0, place.read("asked.jsonl").find('\n'))
            : std::string("{}"));
    const json first = json::parse(place.read("said.jsonl").substr(0, place.read("said.jsonl").find('\n')));
    CHECK(asked["label_name"] == first["said"]["label_name"]);
    CHECK(asked["probabilities"][0].get<double>() ==
          doctest::Approx(first["said"]["probabilities"][0].get<double>()).epsilon(1e-5));

    succeed(place.run({"train", "task.toml", "output.dir=parts", "train.max_steps=6", "train.num_train_epochs=0"}));
    fs::remove_all(place.path("parts/checkpoint-6"));
    fs::remove_all(place.path("parts/checkpoint-4"));
    succeed(place.run({"train", "task.toml", "output.dir=parts"}));
    CHECK(place.read("parts/checkpoint-6/model.safetensors") == place.read("run/checkpoint-6/model.safetensors"));
    CHECK(place.read("parts/checkpoint-6/optimizer.safetensors") ==
          place.read("run/checkpoint-6/optimizer.safetensors"));
}

TEST_CASE("a masked language model pre-trains, and its body gets a new head") {
    const Place place;
    write_task(place);
    std::string text;
    for (int i = 0; i < 200; ++i) text += "film number " + std::to_string(i * 7919 % 1000) + " is good or bad.\n";
    place.write("text.txt", text);
    place.write("mlm.toml", std::string(kModel) + R"([objective]
id = "mlm"
[head]
id = "mlm"
[data]
train = "text.txt"
[train]
max_steps = 4
context_length = 24
per_device_train_batch_size = 4
eval_steps = 2
save_steps = 2
[output]
dir = "body"
)");
    succeed(place.run({"train", "mlm.toml"}));
    CHECK(last_evaluation(place, "body")["eval_masked_accuracy"].is_number());
    // The same masks in every evaluation: it can be repeated to the last bit.
    const std::string scores = succeed(place.run({"eval", "mlm.toml", "--json"})).out;
    CHECK(succeed(place.run({"eval", "mlm.toml", "--json"})).out == scores);

    succeed(place.run({"train", "mlm.toml", "output.dir=parts"}));
    fs::remove_all(place.path("parts/checkpoint-4"));
    succeed(place.run({"train", "mlm.toml", "output.dir=parts"}));
    CHECK(place.read("parts/checkpoint-4/model.safetensors") == place.read("body/checkpoint-4/model.safetensors"));

    place.write("fine.toml", std::string("[model]\nfrom = \"body\"\n") + kTask);
    const Ran fine = succeed(place.run({"train", "fine.toml", "output.dir=fine", "train.max_steps=0"}));
    CHECK(has(fine.err, "left out (head 'mlm'): cls.predictions.bias"));
    CHECK(has(fine.err, "head 'classifier' starts random: bert.pooler.dense.bias"));
    const auto tensors = [&](const std::string& folder) {
        return json::parse(succeed(place.run({"inspect", folder + "/model.safetensors", "--json"})).out)["tensors"]
            .size();
    };
    CHECK(tensors("fine") == tensors("body") - 5 + 4);
    // The same head again stays as it is; another number of classes starts it anew.
    place.write("again.toml", std::string("[model]\nfrom = \"fine\"\n") + kTask);
    CHECK(!has(succeed(place.run({"train", "again.toml", "output.dir=again", "train.max_steps=0"})).err,
               "starts random"));
    place.write("three.tsv", rows(0, 30) + "film so so\tneutral\n");
    const Ran three = succeed(place.run({"train", "again.toml", "output.dir=three", "train.max_steps=0",
                                         "data.train=three.tsv", "data.valid=three.tsv"}));
    CHECK(has(three.err, "starts random: classifier.bias, classifier.weight"));
}

TEST_CASE("a new head takes the place of an output table that the model does not share with its embedding") {
    const Place place;
    place.write("train.tsv", rows(0, 30));
    place.write("valid.tsv", rows(30, 45));
    place.write("task.toml", "[model]\nfrom = \"" + std::string(HEKLA_SOURCE_DIR) +
                                 "/tests/fixtures/models/llama-clm\"\n[tokenizer]\nkind = \"char\"\n" + kTask);
    const Ran ran = succeed(place.run({"train", "task.toml", "train.max_steps=1"}));
    CHECK_MESSAGE(has(ran.err, "left out (head 'lm'): lm_head.weight"), ran.err);
}

TEST_CASE("frozen parts keep their values and have no moments; a frozen body is run once") {
    const Place place;
    write_task(place);
    const auto tensors = [&](const std::string& file) {
        std::vector<std::string> names;
        const json shown = json::parse(succeed(place.run({"inspect", file, "--json"})).out);
        for (const json& tensor : shown["tensors"]) names.push_back(tensor["name"]);
        return names;
    };
    succeed(place.run({"train", "task.toml", "output.dir=start", "train.max_steps=0"}));
    const Ran frozen = succeed(place.run({"train", "task.toml", "output.dir=head", "train.freeze=[\"body\"]"}));
    CHECK(has(frozen.err, "the whole body"));
    CHECK(has(frozen.err, "run once over 60 examples"));
    CHECK(tensors("head/checkpoint-6/optimizer.safetensors").size() == 2 * 4 + 1); // pooler and classifier, the state
    // What is kept gives the same bits as what is computed in every step: only the first may differ from the start.
    const Ran diff = place.run({"diff", "head", "run", "--json"});
    CHECK(diff.status == 1);
    const Ran layers = succeed(
        place.run({"train", "task.toml", "output.dir=layers", "train.freeze=[\"embeddings\", \"layers:0-0\"]"}));
    CHECK(has(layers.err, "parameters are frozen"));
    const std::vector<std::string> moments = tensors("layers/checkpoint-6/optimizer.safetensors");
    CHECK(std::ranges::none_of(
        moments, [](const std::string& name) { return has(name, "layer.0.") || has(name, "embeddings"); }));
    CHECK(std::ranges::any_of(moments, [](const std::string& name) { return has(name, "layer.1."); }));
    // A frozen run goes on with the same bits too.
    fs::remove_all(place.path("head/checkpoint-6"));
    const std::string before = place.read("head/model.safetensors");
    succeed(place.run({"train", "task.toml", "output.dir=head", "train.freeze=[\"body\"]"}));
    CHECK(place.read("head/model.safetensors") == before);
    const Ran nothing = place.run({"train", "task.toml", "output.dir=x", "train.freeze=[\"*.layers.9.*\"]"});
    CHECK(nothing.status == 1);
    CHECK(has(nothing.err, "no parameter matches '*.layers.9.*'"));
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
    CHECK(has(early.err, "ends early"));
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

TEST_CASE("tasks: bad data is one clear error, or left out and counted") {
    const Place place;
    write_task(place);
    const auto fails = [&](std::vector<std::string> changes, std::initializer_list<const char*> parts) {
        std::vector<std::string> command{"train", "task.toml"};
        command.insert(command.end(), changes.begin(), changes.end());
        const Ran ran = place.run(command);
        CAPTURE(changes);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        for (const char* part : parts) CHECK_MESSAGE(has(ran.err, part), part);
        fs::remove_all(place.path("run"));
    };
    place.write("one.tsv", "a\tpositive\nb\tpositive\n");
    fails({"data.train=one.tsv"}, {"one.tsv", "every example has the label 'positive'"});
    place.write("unknown.tsv", rows(0, 5) + "a film\tsplendid\n");
    fails({"data.valid=unknown.tsv"},
          {"unknown.tsv: line 6", "'splendid' is none of negative, positive", "data.on_bad"});
    place.write("empty.tsv", rows(0, 5) + "\tpositive\n");
    fails({"data.train=empty.tsv"}, {"empty.tsv: line 6", "empty"});
    place.write("none.tsv", "");
    fails({"data.train=none.tsv"}, {"none.tsv"});
    fails({"data.columns=[\"sentence\", \"label\"]"}, {"sentence", "text"});
    fails({"objective.id=tagging", "head.id=tagger"}, {"words"});
    fails({"objective.id=regression"}, {"'regression' reads", "'score' is missing"});
    fails({"head.id=nothing"}, {"nothing"});
    fails({"train.metric_for_best_model=f7", "train.eval_steps=1"}, {"f7", "accuracy"});
    fails({"data.labels=[\"positive\", \"negative\", \"neutral\"]", "model.num_labels=2"},
          {"num_labels = 2", "3 classes"});
    place.write("mixed.tsv", rows(0, 30) + "\tpositive\na film\tsplendid\nanother\tpositive\n");
    const Ran skipped = succeed(place.run({"train", "task.toml", "data.train=mixed.tsv", "data.on_bad=skip",
                                           "data.labels=[\"negative\", \"positive\"]"}));
    CHECK(has(skipped.err, "left out: 1 empty (first: mixed.tsv: line 31"));
    CHECK(has(skipped.err, "left out: 1 with an unknown label (first: mixed.tsv: line 32"));
    CHECK(has(skipped.err, "train: 31 examples"));
}

TEST_CASE("tasks: tagging, regression, pairs and choices from their files") {
    const Place place;
    write_task(place);
    place.write("tagged.conllu", [] {
        std::string text;
        for (int i = 0; i < 12; ++i)
            text += "1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tfilm\tfilm\tNOUN\tNN\t_\t3\tnsubj\t_\t_"
                    "\n3\tends\tend\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n";
        return text;
    }());
    const std::vector<std::string> common{"train.max_steps=2", "train.eval_steps=2", "data.valid_fraction=0"};
    const auto train = [&](std::vector<std::string> changes) {
        std::vector<std::string> command{"train", "task.toml"};
        command.insert(command.end(), common.begin(), common.end());
        command.insert(command.end(), changes.begin(), changes.end());
        return succeed(place.run(command));
    };
    train({"output.dir=tags", "objective.id=tagging", "head.id=tagger", "data.train=tagged.conllu",
           "data.valid=tagged.conllu", "data.format=conllu", "data.columns={}"});
    const json tags = json::parse(succeed(place.run({"predict", "tags", "--text", "the film ends well"})).out);
    CHECK(tags["label_names"].size() == 4);

    std::string pairs = "id\tA\tB\trelated\n";
    for (int i = 0; i < 20; ++i)
        pairs +=
            std::to_string(i) + "\ta film " + std::to_string(i) + "\tanother film\t" + std::to_string(i % 5) + ".5\n";
    place.write("pairs.tsv", pairs);
    train({"output.dir=related", "objective.id=regression", "head.id=classifier", "data.train=pairs.tsv",
           "data.valid=pairs.tsv", "data.columns={text = \"A\", text_b = \"B\", score = \"related\"}"});
    const json value =
        json::parse(succeed(place.run({"predict", "related", "--text", "a film", "--second", "no film"})).out);
    CHECK(std::isfinite(value["value"].get<double>()));

    std::string choices;
    for (int i = 0; i < 16; ++i)
        choices += R"({"text": "once )" + std::to_string(i) + R"(", "choices": ["it ended", "it began"], "choice": )" +
                   std::to_string(i % 2) + "}\n";
    place.write("choices.jsonl", choices);
    train({"output.dir=choices", "objective.id=multiple_choice", "head.id=multiple_choice", "data.train=choices.jsonl",
           "data.valid=choices.jsonl", "data.format=jsonl", "data.columns={}"});
}
