// Tasks from raw files to a score: a tiny BERT is pre-trained, fine-tuned with a new head, scored, and used for
// predictions.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
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

// A small decoder for completing prompts; [data] follows.
const char* const kCompletion = R"([model]
architecture = "gpt2"
n_embd = 16
n_layer = 1
n_head = 2
n_positions = 16
[objective]
id = "completion"
[head]
id = "lm"
[tokenizer]
kind = "char"
[output]
dir = "run"
)";

// Sentences whose label is determined by one of their words.
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

TEST_CASE("classification: trained, scored, used for prediction; a resumed run has the same bits") {
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
    std::istringstream predictions(place.read("said.jsonl"));
    std::size_t count = 0, right = 0;
    for (std::string line; std::getline(predictions, line); ++count) {
        const json row = json::parse(line);
        CHECK(row["place"] == "valid.tsv: line " + std::to_string(count + 1));
        right += row["said"]["label_name"] == row["label"] ? 1 : 0;
    }
    CHECK(count == 21);
    CHECK(static_cast<double>(right) / 21.0 == doctest::Approx(scores["accuracy"].get<double>()));

    // Scores do not depend on the batch size, and 21 is not a multiple of any of these.
    for (const char* batch : {"1", "2", "5", "64"}) {
        const json other = json::parse(succeed(place.run({"eval", "task.toml", "--json",
                                                          std::string("train.per_device_eval_batch_size=") + batch}))
                                           .out);
        CHECK(other["accuracy"] == scores["accuracy"]);
        CHECK(other["loss"].get<double>() == doctest::Approx(scores["loss"].get<double>()).epsilon(1e-6));
    }

    // predict and eval give the same prediction for a row.
    const json asked = json::parse(
        succeed(place.run({"predict", "run", "--file", "valid.tsv", "--column", "text=1", "-o", "asked.jsonl"}))
                .out.empty()
            ? place.read("asked.jsonl").substr(0, place.read("asked.jsonl").find('\n'))
            : std::string("{}"));
    const json first = json::parse(place.read("said.jsonl").substr(0, place.read("said.jsonl").find('\n')));
    CHECK(asked["label_name"] == first["said"]["label_name"]);
    CHECK(asked["probabilities"][0].get<double>() ==
          doctest::Approx(first["said"]["probabilities"][0].get<double>()).epsilon(1e-5));

    // The last override determines the length of a run.
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
    // The masks are the same in every evaluation, so it is reproducible bit for bit.
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
    // The same head keeps its weights; another number of classes initializes it again.
    place.write("again.toml", std::string("[model]\nfrom = \"fine\"\n") + kTask);
    CHECK(!has(succeed(place.run({"train", "again.toml", "output.dir=again", "train.max_steps=0"})).err,
               "starts random"));
    place.write("three.tsv", rows(0, 30) + "film so so\tneutral\n");
    const Ran three = succeed(place.run({"train", "again.toml", "output.dir=three", "train.max_steps=0",
                                         "data.train=three.tsv", "data.valid=three.tsv"}));
    CHECK(has(three.err, "starts random: classifier.bias, classifier.weight"));
}

TEST_CASE("a new head replaces an output table that the model does not share with its embedding") {
    const Place place;
    place.write("train.tsv", rows(0, 30));
    place.write("valid.tsv", rows(30, 45));
    place.write("task.toml", "[model]\nfrom = \"" + std::string(HEKLA_SOURCE_DIR) +
                                 "/tests/fixtures/models/llama-clm\"\n[tokenizer]\nkind = \"char\"\n" + kTask);
    const Ran ran = succeed(place.run({"train", "task.toml", "train.max_steps=1"}));
    CHECK_MESSAGE(has(ran.err, "left out (head 'lm'): lm_head.weight"), ran.err);
}

TEST_CASE("a general head replaces the family's own if an option is set that only the general head has") {
    const Place place;
    write_task(place);
    succeed(place.run({"train", "task.toml", "train.max_steps=1"}));
    const Ran mean = succeed(place.run(
        {"train", "task.toml", "model.from=run", "head.pooling=mean", "output.dir=mean", "train.max_steps=1"}));
    CHECK_MESSAGE(has(mean.err, "classifier.weight"), mean.err); // of the old head: dropped
    CHECK(has(mean.err, "head 'classifier' starts random: head.classifier.bias, head.classifier.weight"));
    const json config = json::parse(place.read("mean/config.json"));
    CHECK(config["hekla"]["head_config"]["pooling"] == "mean");
    CHECK(!config.contains("architectures")); // the reference has no such class
    const std::string printed = succeed(place.run({"predict", "mean", "--text", "a good film"})).out;
    CHECK_MESSAGE(has(printed, "positive"), printed);
    // The same head continues training.
    const Ran again = succeed(place.run(
        {"train", "task.toml", "model.from=mean", "head.pooling=mean", "output.dir=again", "train.max_steps=0"}));
    CHECK_MESSAGE(!has(again.err, "starts random"), again.err);
}

TEST_CASE("frozen parts keep their values and have no moments; a frozen body runs only once") {
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
    CHECK(has(frozen.err, "running the frozen body once over 60 examples"));
    CHECK(tensors("head/checkpoint-6/optimizer.safetensors").size() == 2 * 4 + 1); // pooler and classifier, the state
    // Cached features give the same bits as computing them in every step, so the only difference from the start is the
    // first.
    const Ran diff = place.run({"diff", "head", "run", "--json"});
    CHECK(diff.status == 1);
    const Ran layers = succeed(
        place.run({"train", "task.toml", "output.dir=layers", "train.freeze=[\"embeddings\", \"layers:0-0\"]"}));
    CHECK(has(layers.err, "parameters are frozen"));
    const std::vector<std::string> moments = tensors("layers/checkpoint-6/optimizer.safetensors");
    CHECK(std::ranges::none_of(
        moments, [](const std::string& name) { return has(name, "layer.0.") || has(name, "embeddings"); }));
    CHECK(std::ranges::any_of(moments, [](const std::string& name) { return has(name, "layer.1."); }));
    // A resumed run with frozen parts has the same bits too.
    fs::remove_all(place.path("head/checkpoint-6"));
    const std::string before = place.read("head/model.safetensors");
    succeed(place.run({"train", "task.toml", "output.dir=head", "train.freeze=[\"body\"]"}));
    CHECK(place.read("head/model.safetensors") == before);
    const Ran nothing = place.run({"train", "task.toml", "output.dir=x", "train.freeze=[\"*.layers.9.*\"]"});
    CHECK(nothing.status == 1);
    CHECK(has(nothing.err, "no parameter matches '*.layers.9.*'"));
}

TEST_CASE("rows grouped by length, early stopping, the best weights at the end") {
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

    // A learning rate that ruins the model: the first evaluation is the best, and the run stops two evaluations later.
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

TEST_CASE("tasks: bad data is one clear error, or skipped and counted") {
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
          {"unknown.tsv: line 6", "'splendid' is not one of negative, positive", "data.on_bad"});
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

TEST_CASE("sequence to sequence: scored by its generated text; generate writes the same, without the input") {
    const Place place;
    std::string pairs;
    const char* const numbers[] = {"one", "two", "three", "four", "five"};
    const char* const others[] = {"un", "deux", "trois", "quatre", "cinq"};
    for (int i = 0; i < 100; ++i)
        pairs += std::string(numbers[i % 5]) + " and " + numbers[i / 5 % 5] + "\t" + others[i % 5] + " et " +
                 others[i / 5 % 5] + "\n";
    place.write("pairs.tsv", pairs);
    place.write("translate.toml", R"([model]
architecture = "t5"
d_model = 32
d_kv = 16
d_ff = 64
num_layers = 1
num_heads = 2
dropout_rate = 0.0
[objective]
id = "seq2seq"
[head]
id = "lm"
[data]
train = "pairs.tsv"
valid = "pairs.tsv"
format = "tsv"
columns = ["source", "target"]
[tokenizer]
kind = "words"
vocab_size = 40
[train]
max_steps = 120
context_length = 8
per_device_train_batch_size = 16
learning_rate = 1e-2
eval_steps = 60
save_steps = 0
[generate]
examples_while_training = 10
num_beams = 2
[output]
dir = "run"
)");
    const Ran trained = succeed(place.run({"train", "translate.toml"}));
    CHECK(has(trained.err, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"));
    const json last = last_evaluation(place, "run");
    for (const char* name : {"eval_bleu", "eval_chrf", "eval_exact_match"}) CHECK(last[name].is_number());
    std::istringstream kept(place.read("run/texts.jsonl"));
    std::size_t lines = 0;
    for (std::string line; std::getline(kept, line); ++lines) CHECK(json::parse(line)["step"] == 120);
    CHECK(lines == 10);

    const json scores = json::parse(
        succeed(place.run({"eval", "translate.toml", "--json", "-o", "said.jsonl", "--report", "said.html"})).out);
    CHECK(scores["exact_match"].get<double>() > 0.5); // the task can be learned
    const std::string report = place.read("said.html");
    std::size_t maps = 0;
    for (std::size_t at = report.find("class=\"alignment\""); at != std::string::npos;
         at = report.find("class=\"alignment\"", at + 1))
        ++maps;
    CHECK(maps == 6);
    std::istringstream predictions(place.read("said.jsonl"));
    std::vector<json> rows;
    double same = 0.0;
    for (std::string line; std::getline(predictions, line);) {
        rows.push_back(json::parse(line));
        same += rows.back()["said"]["text"] == rows.back()["target"] ? 1.0 : 0.0;
    }
    REQUIRE(rows.size() == 100);
    CHECK(same / 100.0 == doctest::Approx(scores["exact_match"].get<double>()));
    // The text of a row does not depend on the other rows of the batch.
    const json other =
        json::parse(succeed(place.run({"eval", "translate.toml", "--json", "train.per_device_eval_batch_size=7"})).out);
    CHECK(other["bleu"].get<double>() == doctest::Approx(scores["bleu"].get<double>()));
    CHECK(other["chrf"].get<double>() == doctest::Approx(scores["chrf"].get<double>()));
    const json some = json::parse(succeed(place.run({"eval", "translate.toml", "--json", "generate.examples=0"})).out);
    CHECK(!some.contains("bleu"));

    const Ran written = succeed(place.run({"generate", "run", "--beams", "2", "--max-new-tokens", "8", "--prompt",
                                           rows[0]["source"].get<std::string>()}));
    CHECK(written.out == rows[0]["said"]["text"].get<std::string>() + "\n");

    // Attention maps cover the generated text, or a given target text.
    std::istringstream greedy(succeed(place.run({"generate", "run", "--greedy", "--prompt", "two and three"})).out);
    json words = json::array();
    for (std::string word; greedy >> word;) words.push_back(word);
    words.push_back("(end)");
    succeed(place.run({"inspect", "run", "--attention", "two and three", "-o", "page.html"}));
    CHECK_MESSAGE(has(place.read("page.html"), "\"queries\":" + words.dump()), words.dump());
    succeed(place.run({"inspect", "run", "--attention", "two and three", "--target", "un et un", "-o", "page.html"}));
    CHECK(has(place.read("page.html"), R"x("queries":["un","et","un","(end)"])x"));

    const auto fails = [&](std::vector<std::string> changes, const char* part) {
        std::vector<std::string> command{"train", "translate.toml", "output.dir=x"};
        command.insert(command.end(), changes.begin(), changes.end());
        const Ran ran = place.run(command);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, part), part);
    };
    fails({"generate.num_beam=2"}, "num_beam");
    fails({"generate.num_beams=0"}, "num_beams is 0");
    CHECK(place.run({"generate", "run"}).status == 1); // no input for the encoder
}

TEST_CASE("completions of prompts are scored by the generated text") {
    const Place place;
    std::string rows;
    for (int i = 0; i < 40; ++i)
        rows += R"({"prompt": ")" + std::string(i % 2 == 0 ? "ab" : "ba") + R"(=", "completion": ")" +
                (i % 2 == 0 ? "x" : "y") + "\"}\n";
    place.write("rows.jsonl", rows);
    place.write("complete.toml", std::string(kCompletion) + R"([data]
train = "rows.jsonl"
valid = "rows.jsonl"
[train]
max_steps = 30
context_length = 8
per_device_train_batch_size = 8
learning_rate = 1e-2
eval_steps = 30
[generate]
max_new_tokens = 3
)");
    succeed(place.run({"train", "complete.toml"}));
    const json scores = json::parse(succeed(place.run({"eval", "complete.toml", "--json"})).out);
    CHECK(scores["exact_match"].is_number());
    CHECK(scores["chrf"].is_number());
    const std::string both = "objective.bidirectional_prompt=true";
    succeed(
        place.run({"train", "complete.toml", both, "output.dir=both", "train.max_steps=150", "train.eval_steps=0"}));
    const json read_whole =
        json::parse(succeed(place.run({"eval", "complete.toml", both, "output.dir=both", "--json"})).out);
    CHECK(read_whole["exact_match"].get<double>() == 1.0);
    for (const char* reference : {"", "--reference"}) {
        std::vector<std::string> command{"generate", "both", "--prompt", "ba=", "--greedy", "--max-new-tokens", "2"};
        if (*reference != 0) command.emplace_back(reference);
        CHECK(has(succeed(place.run(command)).out, "ba=y"));
    }
}

TEST_CASE("a prefix for texts; correct answers grouped by a column of the data") {
    const Place place;
    // The completion of an odd row is random and cannot be predicted.
    std::string rows;
    for (int i = 0; i < 60; ++i)
        rows += json{{"prompt", i % 2 == 0 ? "ab=" : "ba="},
                     {"completion", i % 2 == 0 ? "x" : std::string(1, "yz"[i * 7919 / 3 % 2])},
                     {"kind", i % 2}}
                    .dump() +
                "\n";
    place.write("rows.jsonl", rows);
    place.write("complete.toml", std::string(kCompletion) + R"([data]
train = "rows.jsonl"
valid = "rows.jsonl"
prefix = {prompt = "do "}
group = "kind"
[train]
max_steps = 60
context_length = 12
per_device_train_batch_size = 8
learning_rate = 1e-2
eval_steps = 60
[generate]
max_new_tokens = 1
)");
    succeed(place.run({"train", "complete.toml"}));
    const Ran told =
        succeed(place.run({"eval", "complete.toml", "--json", "-o", "said.jsonl", "--report", "page.html"}));
    const json scores = json::parse(told.out);
    std::size_t right[2] = {0, 0}, all[2] = {0, 0};
    std::istringstream lines(place.read("said.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const json row = json::parse(line);
        CHECK(row["prompt"].get<std::string>().starts_with("do "));
        const int kind = std::stoi(row["group"].get<std::string>());
        ++all[kind];
        right[kind] += row["said"]["text"] == row["completion"] ? 1 : 0;
    }
    CHECK(all[0] == 30);
    CHECK(right[0] == 30);
    CHECK(right[1] < 30);
    for (const int kind : {0, 1})
        CHECK(scores["right where kind = " + std::to_string(kind)].get<double>() ==
              doctest::Approx(static_cast<double>(right[kind]) / static_cast<double>(all[kind])));
    CHECK(has(place.read("page.html"), "<h2>By kind</h2>"));
    CHECK(has(place.read("page.html"), "Correct, by kind"));
    // The caller passes the text alone, or with its prefix.
    CHECK(json::parse(place.read("run/config.json"))["hekla"]["prefix"] == json{{"prompt", "do "}});
    const auto written = [&](const std::string& prompt) {
        const std::string out =
            succeed(place.run({"generate", "run", "--prompt", prompt, "--greedy", "--max-new-tokens", "1"})).out;
        REQUIRE(out.starts_with(prompt));
        return out.substr(prompt.size());
    };
    CHECK(written("ab=") == "x\n");
    CHECK(written("do ab=") == "x\n");
    const Ran nothing = place.run({"eval", "complete.toml", "data.group=sort"});
    CHECK(nothing.status == 1);
    CHECK(has(nothing.err, "no example has this column"));
    const Ran wrong = place.run({"train", "complete.toml", "data.prefix={label = \"a \"}", "output.dir=x"});
    CHECK(wrong.status == 1);
    CHECK(has(wrong.err, "the objective 'completion' reads no text column 'label'"));
    const Ran large = place.run({"train", "complete.toml", "data.max_bytes=20", "output.dir=x"});
    CHECK(large.status == 1);
    CHECK(has(large.err, "rows.jsonl: line 1"));
}

TEST_CASE("distillation: the teacher is unchanged, is not saved with the student, and must be the same on resume") {
    const Place place;
    std::string text;
    for (int i = 0; i < 200; ++i) text += "film number " + std::to_string(i * 7919 % 1000) + " is good or bad.\n";
    place.write("text.txt", text);
    const std::string rest = R"([head]
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
dir = "student"
)";
    place.write("teacher.toml", std::string(kModel) + "[objective]\nid = \"mlm\"\n" + rest);
    succeed(place.run({"train", "teacher.toml", "output.dir=teacher"}));
    place.write("distill.toml", R"([model]
architecture = "distilbert"
dim = 16
n_layers = 1
n_heads = 2
hidden_dim = 32
max_position_embeddings = 32
[teacher]
from = "teacher"
[objective]
id = "distill"
)" + rest);
    CHECK(has(succeed(place.run({"inspect", "distill.toml"})).out, "parameters"));
    const Ran trained = succeed(place.run({"train", "distill.toml"}));
    CHECK(has(trained.err, "teacher teacher: "));
    const auto names = [&](const std::string& file) { return succeed(place.run({"inspect", file, "--json"})).out; };
    CHECK(!has(names("student/model.safetensors"), "teacher"));
    CHECK(!has(names("student/checkpoint-4/optimizer.safetensors"), "teacher"));
    CHECK(has(names("student/model.safetensors"), "distilbert.transformer.layer.0.attention.q_lin.weight"));
    CHECK(json::parse(succeed(place.run({"eval", "distill.toml", "--json"})).out)["masked_accuracy"].is_number());

    succeed(place.run({"train", "distill.toml", "output.dir=parts"}));
    fs::remove_all(place.path("parts/checkpoint-4"));
    succeed(place.run({"train", "distill.toml", "output.dir=parts"}));
    CHECK(place.read("parts/checkpoint-4/model.safetensors") == place.read("student/checkpoint-4/model.safetensors"));

    succeed(place.run({"train", "teacher.toml", "output.dir=second", "train.seed=2"}));
    fs::remove_all(place.path("parts/checkpoint-4"));
    const Ran another = place.run({"train", "distill.toml", "output.dir=parts", "teacher.from=second"});
    CHECK(another.status == 1);
    CHECK(has(another.err, "another teacher"));
    place.write("other.txt", "entirely other words, 0123456789 and letters jkqvwxyz!\n" + text);
    const Ran tokens =
        place.run({"train", "distill.toml", "output.dir=tokens", "tokenizer.kind=char", "data.train=other.txt"});
    CHECK(tokens.status == 1);
    CHECK(has(tokens.err, "another tokenizer"));
    CHECK(has(place.run({"train", "distill.toml", "output.dir=none", "teacher.from=nowhere"}).err, "nowhere"));
    // The student is an ordinary body.
    write_task(place);
    place.write("fine.toml", std::string("[model]\nfrom = \"student\"\n") + kTask);
    succeed(place.run({"train", "fine.toml", "output.dir=fine", "train.max_steps=0"}));
}

TEST_CASE("a DistilBERT is initialized with the weights of a BERT, under its own names") {
    const Place place;
    place.write("text.txt", rows(0, 60));
    const std::string rest = R"([objective]
id = "mlm"
[head]
id = "mlm"
[data]
train = "text.txt"
[train]
max_steps = 2
context_length = 24
per_device_train_batch_size = 4
[output]
dir = "bert"
)";
    place.write("bert.toml", kModel + rest);
    succeed(place.run({"train", "bert.toml"}));
    place.write("student.toml", "[model]\narchitecture = \"distilbert\"\nfrom = \"bert\"\nlayers = [1]\n" + rest);
    const Ran begun = succeed(place.run({"train", "student.toml", "output.dir=student", "train.max_steps=0"}));
    CHECK_MESSAGE(has(begun.err, "a distilbert begins with the weights of a bert"), begun.err);
    CHECK(!has(begun.err, "starts random"));
    const json config = json::parse(place.read("student/config.json"));
    CHECK(config["model_type"] == "distilbert");
    CHECK(config["n_layers"] == 1);
    CHECK(config["dim"] == 16);
    const auto bytes = [&](const std::string& folder, const std::string& name) {
        const std::string file = place.read(folder + "/model.safetensors");
        uint64_t header = 0;
        std::memcpy(&header, file.data(), sizeof header);
        const json at = json::parse(file.substr(8, header))[name]["data_offsets"];
        return file.substr(8 + header + at[0].get<uint64_t>(), at[1].get<uint64_t>() - at[0].get<uint64_t>());
    };
    for (const auto& [ours, theirs] : std::initializer_list<std::pair<const char*, const char*>>{
             {"distilbert.embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight"},
             {"distilbert.transformer.layer.0.attention.out_lin.bias",
              "bert.encoder.layer.1.attention.output.dense.bias"},
             {"distilbert.transformer.layer.0.ffn.lin2.weight", "bert.encoder.layer.1.output.dense.weight"},
             {"distilbert.transformer.layer.0.sa_layer_norm.bias",
              "bert.encoder.layer.1.attention.output.LayerNorm.bias"},
             {"distilbert.transformer.layer.0.output_layer_norm.bias", "bert.encoder.layer.1.output.LayerNorm.bias"},
             {"vocab_transform.weight", "cls.predictions.transform.dense.weight"},
             {"vocab_projector.bias", "cls.predictions.bias"}}) {
        CAPTURE(ours);
        CHECK(bytes("student", ours) == bytes("bert", theirs));
    }
}

TEST_CASE("a body of selected layers: the others are dropped, the selected ones are in the requested order") {
    const Place place;
    write_task(place);
    succeed(place.run({"train", "task.toml", "output.dir=whole"}));
    place.write("cut.toml", std::string("[model]\nfrom = \"whole\"\n") + kTask);
    const auto cut = [&](const std::string& from, const std::string& layers, const std::string& to) {
        return place.run({"train", "cut.toml", "model.from=" + from, "model.layers=" + layers, "output.dir=" + to,
                          "train.max_steps=0"});
    };
    succeed(cut("whole", "[1, 0]", "turned"));
    succeed(cut("turned", "[1, 0]", "back"));
    CHECK(place.read("turned/model.safetensors") != place.read("whole/model.safetensors"));
    CHECK(place.read("back/model.safetensors") == place.read("whole/model.safetensors"));
    succeed(cut("whole", "[1]", "one"));
    CHECK(json::parse(place.read("one/config.json"))["num_hidden_layers"] == 1);
    CHECK(place.read("one/model.safetensors").size() < place.read("whole/model.safetensors").size());
    succeed(cut("whole", "[0, 1, 1]", "three"));
    CHECK(json::parse(place.read("three/config.json"))["num_hidden_layers"] == 3);
    const Ran none = cut("whole", "[0, 2]", "none");
    CHECK(none.status == 1);
    CHECK(has(none.err, "there is no layer 2"));
    CHECK(
        has(place.run({"train", "task.toml", "model.layers=[0]", "output.dir=x"}).err, "set model.from to its folder"));
}

TEST_CASE("word vectors: training, nearest neighbors, and the word2vec file") {
    const Place place;
    std::string text;
    for (int i = 0; i < 300; ++i)
        text += std::string(i % 2 == 0 ? "cats and dogs run home . " : "red or blue paint dries slowly . ");
    place.write("text.txt", text);
    place.write("vectors.toml", R"([model]
architecture = "word_vectors"
vector_size = 8
[objective]
id = "skip_gram"
subsample = 0.0
[head]
id = ""
[data]
train = "text.txt"
[tokenizer]
kind = "words"
vocab_size = 30
[train]
max_steps = 60
context_length = 32
per_device_train_batch_size = 8
learning_rate = 0.03
weight_decay = 0.0
max_grad_norm = 0.0
eval_steps = 30
save_steps = 30
[output]
dir = "run"
)");
    succeed(place.run({"train", "vectors.toml"}));
    // By chance it would be one in six.
    CHECK(last_evaluation(place, "run")["eval_neighbor_accuracy"].get<double>() > 0.2);
    const json near =
        json::parse(succeed(place.run({"embed", "run", "--nearest", "cats", "--neighbors", "3", "--json"})).out);
    CHECK(near["word"] == "cats");
    REQUIRE(near["nearest"].size() == 3);
    CHECK(near["nearest"][0]["cosine"].get<double>() >= near["nearest"][2]["cosine"].get<double>());
    CHECK(has(place.run({"embed", "run", "--nearest", "zebra"}).err, "'zebra' is not in the vocabulary"));
    CHECK(place.run({"embed", "run", "cats", "--nearest", "cats"}).status == 2);
    succeed(place.run({"embed", "run", "-o", "vectors.vec"}));
    std::istringstream file(place.read("vectors.vec"));
    std::size_t rows = 0, width = 0;
    file >> rows >> width;
    CHECK(width == 8);
    for (std::size_t row = 0; row < rows; ++row) {
        std::string word;
        double number = 0.0;
        file >> word;
        for (std::size_t i = 0; i < width; ++i) file >> number;
    }
    CHECK(!file.fail());
    // The feature of a text is the mean of its words'.
    const auto vector_of = [&](const std::string& text) {
        return json::parse(succeed(place.run({"embed", "run", text})).out)["embedding"].get<std::vector<double>>();
    };
    CHECK(vector_of("cats dogs").size() == 8);

    // Pearson's correlation between cosines and human scores, by its definition.
    const std::vector<std::pair<std::string, std::string>> texts{
        {"cats run home", "dogs run home"}, {"red paint dries", "cats and dogs"}, {"blue paint", "red paint"}};
    const std::vector<double> human_scores{4.5, 1.0, 4.0};
    std::string table = "a\tb\tlikeness\n";
    std::vector<double> cosines;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        table += texts[i].first + "\t" + texts[i].second + "\t" + std::to_string(human_scores[i]) + "\n";
        const std::vector<double> a = vector_of(texts[i].first), b = vector_of(texts[i].second);
        double ab = 0.0, aa = 0.0, bb = 0.0;
        for (std::size_t k = 0; k < a.size(); ++k) ab += a[k] * b[k], aa += a[k] * a[k], bb += b[k] * b[k];
        cosines.push_back(ab / std::sqrt(aa * bb));
    }
    double mean_c = 0.0, mean_s = 0.0, cs = 0.0, cc = 0.0, ss = 0.0;
    for (std::size_t i = 0; i < 3; ++i) mean_c += cosines[i] / 3.0, mean_s += human_scores[i] / 3.0;
    for (std::size_t i = 0; i < 3; ++i) {
        const double c = cosines[i] - mean_c, s = human_scores[i] - mean_s;
        cs += c * s, cc += c * c, ss += s * s;
    }
    place.write("pairs.tsv", table);
    const std::vector<std::string> pairs{"embed",    "run",      "--pairs",  "pairs.tsv",      "--column", "text_a=a",
                                         "--column", "text_b=b", "--column", "score=likeness", "--json"};
    const json likeness = json::parse(succeed(place.run(pairs)).out);
    CHECK(likeness["pairs"] == 3);
    CHECK(likeness["pearson"].get<double>() == doctest::Approx(cs / std::sqrt(cc * ss)).epsilon(1e-4));
    place.write("pairs.tsv", table + "cats\tdogs\tmuch\n");
    const Ran much = place.run(pairs);
    CHECK(much.status == 1);
    CHECK(has(much.err, "pairs.tsv: line 5: the score 'much' is not a number"));

    std::string glove = place.read("vectors.toml");
    glove.replace(glove.find("id = \"skip_gram\"\nsubsample = 0.0"), 32, "id = \"glove\"\nwindow = 4\nmost = 50");
    place.write("vectors.toml", glove);
    succeed(place.run({"train", "vectors.toml", "output.dir=glove", "model.vectors=sum"}));
    fs::remove_all(place.path("glove/checkpoint-60"));
    const std::string before = place.read("glove/model.safetensors");
    succeed(place.run({"train", "vectors.toml", "output.dir=glove", "model.vectors=sum"}));
    CHECK(place.read("glove/model.safetensors") == before);
}

TEST_CASE("an average of the weights is evaluated and saved; a resumed run with it has the same bits") {
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
    // The trained weights are those of a run without averaging; the final model has the average.
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

TEST_CASE("--seeds: one run per seed, with mean and deviation; an evaluation as a page") {
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
    // All runs are finished already, so the same numbers are printed immediately.
    CHECK(json::parse(succeed(place.run({"train", "task.toml", "--seeds", "3", "--json"})).out) == all);
    const Ran table = succeed(place.run({"eval", "task.toml", "--seeds", "3", "--report", "page.html"}));
    CHECK(has(table.out, "seed 1339"));
    CHECK(has(table.out, "matthews"));
    const std::string page = place.read("page-seed-1338.html");
    for (const char* part : {"<svg", "f1_macro", "precision", "valid.tsv: line ", "run/seed-1338"})
        CHECK_MESSAGE(has(page, part), part);
    CHECK(!has(page, "http-equiv"));
    CHECK(!has(page, "src="));
    // Data is escaped, not markup.
    place.write("marks.tsv", "a <b>bold</b> film\tpositive\na film & no more\tnegative\n");
    succeed(
        place.run({"eval", "task.toml", "output.dir=run/seed-1337", "data.valid=marks.tsv", "--report", "marks.html"}));
    CHECK(has(place.read("marks.html"), "a &lt;b&gt;bold&lt;/b&gt; film"));
}

TEST_CASE("class balance, micro-batches that fit, tokens added to a loaded model") {
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

    // 40 of the 60 rows are positive: weight 60 / (2 * 20) for the others, 60 / (2 * 40) for these.
    succeed(place.run({"train", "task.toml", "objective.class_weights=balanced", "output.dir=by_name"}));
    succeed(place.run({"train", "task.toml", "objective.class_weights=[1.5, 0.75]", "output.dir=by_number"}));
    CHECK(place.read("by_name/model.safetensors") == place.read("by_number/model.safetensors"));
    CHECK(has(place.run({"train", "task.toml", "objective.class_weights=equal", "output.dir=x"}).err,
              "expected \"balanced\", or a number a class"));

    // Four micro-batches of two equal one of eight, up to the rounding of sums.
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
    // Existing tokens are unchanged: the same texts get the same scores.
    const auto probability = [&](const std::string& folder) {
        return json::parse(succeed(place.run({"predict", folder, "--text", "film x good 7"})).out)["probabilities"][0]
            .get<double>();
    };
    CHECK(probability("grown") == doctest::Approx(probability("whole")).epsilon(1e-6));
    succeed(place.run({"train", "more.toml", "output.dir=further", "train.max_steps=2", "tokenizer.add=[\"<new>\"]"}));
    CHECK(has(place.run({"train", "more.toml", "output.dir=x", "tokenizer.add_roles={middle = \"<m>\"}"}).err,
              "there is no role 'middle'"));
}

TEST_CASE("extractive answers: trained, scored, predicted; missing columns are rejected") {
    const Place place;
    const char* const names[] = {"Anna", "Bert", "Clara", "Dora"};
    std::string rows;
    for (int i = 0; i < 48; ++i) {
        const std::string context =
            std::string("the old house of ") + names[i % 4] + " stands " + (i % 3 == 0 ? "far" : "near") + " here .";
        rows +=
            json{{"question", "whose house ?"}, {"context", context}, {"answer", names[i % 4]}, {"start", 17}}.dump() +
            "\n";
    }
    place.write("rows.jsonl", rows);
    place.write("qa.toml", std::string(kModel) + R"([objective]
id = "extractive_qa"
[head]
id = "span"
dropout = 0.0
[data]
train = "rows.jsonl"
valid = "rows.jsonl"
[tokenizer]
kind = "wordpiece"
vocab_size = 60
[train]
max_steps = 40
context_length = 32
per_device_train_batch_size = 16
learning_rate = 5e-3
eval_steps = 20
save_steps = 0
[output]
dir = "run"
)");
    succeed(place.run({"train", "qa.toml"}));
    const json scores = json::parse(succeed(place.run({"eval", "qa.toml", "--json", "-o", "said.jsonl"})).out);
    CHECK(scores["span_f1"].get<double>() >= scores["exact_match"].get<double>());
    CHECK(scores["start_accuracy"].get<double>() > 0.5); // the start position was learned
    const json first = json::parse(place.read("said.jsonl").substr(0, place.read("said.jsonl").find('\n')));
    CHECK(first["answer"] == "Anna");
    CHECK(first["said"]["span"].size() == 2);
    const json asked = json::parse(succeed(place.run({"predict", "run", "--text", "whose house ?", "--second",
                                                      "the old house of Anna stands far here ."}))
                                       .out);
    CHECK(asked["text"] == first["said"]["text"]);
    // SQuAD's format: lists of answers, of which training uses the first.
    std::istringstream lines(rows);
    std::string lists;
    for (std::string line; std::getline(lines, line);) {
        const json row = json::parse(line);
        lists += json{{"question", row["question"]},
                      {"context", row["context"]},
                      {"answers", {{"text", {row["answer"], "the old house"}}, {"answer_start", {17, 0}}}}}
                     .dump() +
                 "\n";
    }
    place.write("lists.jsonl", lists);
    succeed(place.run({"train", "qa.toml", "data.train=lists.jsonl", "data.valid=lists.jsonl", "output.dir=lists",
                       "data.columns={question = \"question\", context = \"context\", answer = \"answers.text\", "
                       "start = \"answers.answer_start\"}"}));
    CHECK(place.read("lists/model.safetensors") == place.read("run/model.safetensors"));
    place.write("absent.jsonl",
                rows + json{{"question", "whose ?"}, {"context", "a house"}, {"answer", "Emil"}}.dump());
    const Ran absent = place.run({"train", "qa.toml", "data.train=absent.jsonl", "output.dir=x"});
    CHECK(absent.status == 1);
    CHECK(has(absent.err, "absent.jsonl: line 49"));
    CHECK(has(absent.err, "'Emil' does not occur in the text"));
    place.write("shifted.jsonl",
                rows + json{{"question", "whose ?"}, {"context", "a house"}, {"answer", "house"}, {"start", 1}}.dump());
    CHECK(has(place.run({"train", "qa.toml", "data.train=shifted.jsonl", "output.dir=x"}).err,
              "'house' is not at character 1"));
}
