// Learning from nothing, through the program: data, steps and evaluations without a label.
#include "tasks.hpp"

#include <doctest/doctest.h>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using hekla::test::training_steps;
using nlohmann::json;

namespace no_label_test {
namespace {

// Conversations whose answer is within 64 tokens, or after them.
std::string talks(int count, int every) {
    std::string text;
    for (int i = 0; i < count; ++i)
        text += json{{"messages",
                      {{{"role", "user"}, {"content", i % every == 0 ? "a" : std::string(80, 'b')}},
                       {{"role", "assistant"}, {"content", "yes"}}}}}
                    .dump() +
                "\n";
    return text;
}

const char* const kChat = R"([model]
architecture = "gpt2"
n_embd = 16
n_layer = 1
n_head = 2
n_positions = 96
[objective]
id = "chat"
[data]
train = "talks.jsonl"
valid_fraction = 0.0
chat_template = "chatml"
[tokenizer]
kind = "char"
add = ["<|im_start|>", "<|im_end|>"]
[train]
max_steps = 8
context_length = 64
per_device_train_batch_size = 1
learning_rate = 0.01
lr_scheduler_type = "constant"
eval_steps = 0
[output]
dir = "run"
)";

void write_files(const Place& place) {
    place.write("talks.jsonl", talks(12, 3));
    place.write("chat.toml", kChat);
}

} // namespace

TEST_CASE("no label: data without any is refused before the first step") {
    const Place place;
    write_files(place);
    place.write("long.jsonl", talks(12, 100).substr(talks(1, 100).size()));
    const Ran ran = place.run({"train", "chat.toml", "data.train=long.jsonl"});
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    CHECK(has(ran.err, "none of the 11 examples of data.train has a label for objective 'chat'"));
    CHECK(has(ran.err, "train.context_length = 64"));
    CHECK_FALSE(place.exists("run"));
}

TEST_CASE("no label: a step without one changes no weight, and is counted and shown") {
    const Place place;
    write_files(place);
    const Ran ran = succeed(place.run({"train", "chat.toml"}));
    const std::vector<json> steps = training_steps(place, "run");
    REQUIRE(steps.size() == 8);
    int without = 0, at = 0;
    for (const json& step : steps) {
        if (!step.value("no_label", false)) {
            CHECK(step["loss"].get<double>() > 0.0);
            continue;
        }
        ++without;
        CHECK(step["loss"].is_null());
        CHECK(step["skipped"] == true);
        if (at == 0 && step["step"].get<int>() > 1) at = step["step"].get<int>();
    }
    REQUIRE(without > 0);
    REQUIRE(without < 8);
    CHECK(has(ran.err, "has a label, so it changes no weight"));
    CHECK(has(ran.err, std::to_string(without) + " steps had no label"));
    REQUIRE(at > 1);
    const auto weights = [&](int count) {
        const std::string dir = "to" + std::to_string(count);
        succeed(place.run({"train", "chat.toml", "train.max_steps=" + std::to_string(count), "output.dir=" + dir}));
        return place.read(dir + "/model.safetensors");
    };
    CHECK(weights(at - 1) == weights(at));
}

TEST_CASE("no label: an evaluation without one is an error") {
    const Place place;
    write_files(place);
    place.write("long.jsonl", talks(12, 100).substr(talks(1, 100).size()));
    const Ran ran = place.run({"train", "chat.toml", "train.eval_steps=2", "data.valid=long.jsonl"});
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    CHECK(has(ran.err, "none of the 11 examples of the evaluation has a label"));
}

} // namespace no_label_test
