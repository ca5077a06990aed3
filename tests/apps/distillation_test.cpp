// Distillation: a student trained on what a teacher computes.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

TEST_CASE("distillation: the teacher stays as it is, leaves no trace in the student's folder, and must be the same") {
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
    // The folder has no teacher: the published class's objective is described, and the log names both.
    const Ran described = succeed(place.run({"inspect", "student", "--graph", "text", "--length", "16"}));
    CHECK(has(described.out, "distilbert.embeddings.word_embeddings.weight"));
    CHECK(has(described.err, "the objective it was trained with, distill, reads more than the folder contains"));
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
    // The student is a body like any other.
    write_task(place);
    place.write("fine.toml", std::string("[model]\nfrom = \"student\"\n") + kTask);
    succeed(place.run({"train", "fine.toml", "output.dir=fine", "train.max_steps=0"}));
}
