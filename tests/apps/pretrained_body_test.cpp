// A pre-trained body under a new head: which weights it starts from, which it keeps, and which layers.
#include "tasks.hpp"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

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
    // The same head keeps its weights; with another number of classes it starts from random ones.
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

TEST_CASE("a general head stands in for the family's own where something is asked for that it alone knows") {
    const Place place;
    write_task(place);
    succeed(place.run({"train", "task.toml", "train.max_steps=1"}));
    const Ran mean = succeed(place.run(
        {"train", "task.toml", "model.from=run", "head.pooling=mean", "output.dir=mean", "train.max_steps=1"}));
    CHECK_MESSAGE(has(mean.err, "classifier.weight"), mean.err); // of the old head: left out
    CHECK(has(mean.err, "head 'classifier' starts random: head.classifier.bias, head.classifier.weight"));
    const json config = json::parse(place.read("mean/config.json"));
    CHECK(config["hekla"]["head_config"]["pooling"] == "mean");
    CHECK(!config.contains("architectures")); // the reference has no such class
    const std::string said = succeed(place.run({"predict", "mean", "--text", "a good film"})).out;
    CHECK_MESSAGE(has(said, "positive"), said);
    // The same head continues from its weights.
    const Ran again = succeed(place.run(
        {"train", "task.toml", "model.from=mean", "head.pooling=mean", "output.dir=again", "train.max_steps=0"}));
    CHECK_MESSAGE(!has(again.err, "starts random"), again.err);
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
    CHECK(has(frozen.err, "once for 60 examples"));
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
    // A run with a frozen body resumes with the same bits, too.
    fs::remove_all(place.path("head/checkpoint-6"));
    const std::string before = place.read("head/model.safetensors");
    succeed(place.run({"train", "task.toml", "output.dir=head", "train.freeze=[\"body\"]"}));
    CHECK(place.read("head/model.safetensors") == before);
    const Ran nothing = place.run({"train", "task.toml", "output.dir=x", "train.freeze=[\"*.layers.9.*\"]"});
    CHECK(nothing.status == 1);
    CHECK(has(nothing.err, "no parameter matches '*.layers.9.*'"));
}

TEST_CASE("frozen layers below the first trained one are run once, where they have no dropout") {
    const Place place;
    write_task(place);
    const std::vector<std::string> no_dropout{"model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0"};
    const auto train = [&](std::vector<std::string> settings) {
        settings.insert(settings.begin(), {"train", "task.toml"});
        return succeed(place.run(settings));
    };
    const auto with = [&](std::vector<std::string> settings) {
        settings.insert(settings.end(), no_dropout.begin(), no_dropout.end());
        return settings;
    };
    train(with({"output.dir=whole"}));
    const std::string lower = "train.freeze=[\"embeddings\", \"layers:0-0\"]";
    const Ran frozen = train(with({"output.dir=frozen", lower}));
    CHECK_MESSAGE(has(frozen.err, "% of a forward pass, once for 60 examples"), frozen.err);
    // The same weights and batch give the same loss, computed from what was kept.
    CHECK(training_steps(place, "frozen").at(0)["loss"].get<double>() ==
          doctest::Approx(training_steps(place, "whole").at(0)["loss"].get<double>()).epsilon(1e-6));
    CHECK(last_evaluation(place, "frozen")["eval_loss"].get<double>() ==
          doctest::Approx(last_evaluation(place, "whole")["eval_loss"].get<double>()).epsilon(0.05));
    const std::string before = place.read("frozen/model.safetensors");
    fs::remove_all(place.path("frozen/checkpoint-6"));
    train(with({"output.dir=frozen", lower}));
    CHECK(place.read("frozen/model.safetensors") == before);
    // With dropout each step has other values, also of frozen layers.
    CHECK(!has(train({"output.dir=dropout", lower}).err, "once for 60 examples"));
    // The layers below those with adapters.
    const Ran adapted = train({"output.dir=adapted", "model.from=frozen", "adapter.id=lora",
                               "adapter.target_modules=[\"query\", \"value\"]", "adapter.layers_to_transform=[1]"});
    CHECK_MESSAGE(has(adapted.err, "once for 60 examples"), adapted.err);
}

TEST_CASE("a DistilBERT begins with the weights of a BERT, under its own names") {
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

TEST_CASE("a body of chosen layers: the others go, the chosen ones stand in the order asked for") {
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
