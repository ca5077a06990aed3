// Rows that hold several conversations or preferences: the same gradients as a row for each, resumed runs, refusals.
#include "program.hpp"

#include "model/weights.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace packing_program_test {
namespace {

const char* const kRecipe = R"([model]
architecture = "mistral"
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 48
sliding_window = 20
max_position_embeddings = 128
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
max_steps = 1
context_length = 96
optim = "sgd"
momentum = 0.0
learning_rate = 4.0
lr_scheduler_type = "constant"
weight_decay = 0.0
max_grad_norm = 0.0
eval_steps = 0
save_steps = 100
)";

constexpr int kTalks = 24;

json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

void write_files(const Place& place) {
    const char* const words[] = {"sun", "the moon at night", "cat", "a tree, and one more"};
    std::string talks, preferences;
    for (int i = 0; i < kTalks; ++i) {
        const std::string word = words[i % 4], number = std::to_string(i * 37 % 101);
        const auto asked = message("user", word), answered = message("assistant", word + " " + number);
        talks +=
            json{{"messages", i % 5 == 0 ? json{asked, answered, message("user", "bye"), message("assistant", "bye")}
                                         : json{asked, answered}}}
                .dump() +
            "\n";
        preferences += json{{"prompt", word}, {"chosen", word + number}, {"rejected", number}}.dump() + "\n";
    }
    place.write("talks.jsonl", talks);
    place.write("preferences.jsonl", preferences);
    place.write("recipe.toml", kRecipe);
}

Arguments train(const std::string& dir, const Arguments& more) {
    return joined({"train", "recipe.toml", "output.dir=" + dir}, more);
}

// Rows that the examples fill, from the line that tells their number.
std::string rows_of(const std::string& said) {
    const std::size_t end = said.find(" rows of 96 tokens hold the examples");
    REQUIRE(end != std::string::npos);
    const std::size_t begin = said.rfind(' ', end - 1) + 1;
    return said.substr(begin, end - begin);
}

json first_step(const Place& place, const std::string& dir) {
    const std::string log = place.read(dir + "/train_log.jsonl");
    return json::parse(log.substr(0, log.find('\n')));
}

model::Weights weights_of(const Place& place, const std::string& dir) {
    auto weights = model::Weights::open(place.path(dir) / "model.safetensors");
    REQUIRE_MESSAGE(weights.ok(), weights.message());
    return weights.take();
}

std::vector<float> values_of(const model::Weights& weights, const std::string& name) {
    const model::TensorView* const tensor = weights.find(name);
    REQUIRE(tensor != nullptr);
    std::vector<float> values(tensor->bytes.size() / 4);
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
}

// Trains one step of plain gradient descent on all examples, with a row for each and with several in a row, and
// compares loss and gradients.
void compare(const Arguments& more, double of_loss, double of_gradients, const std::string& recipe = kRecipe) {
    const Place place;
    write_files(place);
    place.write("recipe.toml", recipe);
    succeed(place.run(train("begin", joined(more, {"train.learning_rate=0.0"}))));
    succeed(place.run(train("alone", joined(more, {"train.per_device_train_batch_size=" + std::to_string(kTalks)}))));
    const Arguments packed = joined(more, {"data.packing=rows"});
    const std::string rows = rows_of(succeed(place.run(train("probe", joined(packed, {"--plan"})))).err);
    CHECK(std::stoi(rows) * 3 < kTalks * 2);
    succeed(place.run(train("packed", joined(packed, {"train.per_device_train_batch_size=" + rows}))));
    const json expected = first_step(place, "alone"), found = first_step(place, "packed");
    const double loss = expected["loss"].get<double>();
    MESSAGE("loss: " << std::abs(found["loss"].get<double>() / loss - 1.0));
    CHECK(std::abs(found["loss"].get<double>() / loss - 1.0) < of_loss);
    CHECK(found["label_tokens"] == expected["label_tokens"]);
    CHECK(found["epoch"] == 1.0);
    const model::Weights before = weights_of(place, "begin"), alone = weights_of(place, "alone"),
                         together = weights_of(place, "packed");
    double worst = 0.0;
    for (const model::TensorView& tensor : before.tensors()) {
        const std::string name = tensor.name;
        const std::vector<float> a = values_of(before, name), b = values_of(alone, name), c = values_of(together, name);
        double norm = 0.0, difference = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            norm += std::pow(static_cast<double>(b[i]) - static_cast<double>(a[i]), 2.0);
            difference += std::pow(static_cast<double>(b[i]) - static_cast<double>(c[i]), 2.0);
        }
        CHECK_MESSAGE(norm > 0.0, name);
        worst = std::max(worst, std::sqrt(difference / norm));
    }
    MESSAGE("gradients: " << worst);
    CHECK(worst < of_gradients);
}

} // namespace

TEST_CASE("packing: rows of several conversations have the gradients of a row for each") {
    compare({}, 1e-6, 1e-5);
    // Sums in another order round to other values of 16 bits.
    compare({"train.bf16=true"}, 1e-3, 2e-2);
}

TEST_CASE("packing: preferences, windows in every second layer, recomputation") {
    compare({"objective.id=orpo", "data.train=preferences.jsonl", "data.chat_template=\"\"", "tokenizer.add=[]",
             "model.architecture=gemma2", "model.head_dim=8", "train.gradient_checkpointing=true"},
            1e-6, 1e-5);
}

TEST_CASE("packing: conversations in states that restart") {
    std::string recipe = kRecipe;
    recipe.replace(recipe.find("\"mistral\""), 9, "\"lfm2\"");
    recipe.erase(recipe.find("sliding_window"), recipe.find("max_position") - recipe.find("sliding_window"));
    recipe.insert(recipe.find("max_position"), "layer_types = [\"conv\", \"full_attention\"]\n");
    compare({}, 1e-6, 1e-5, recipe);
}

TEST_CASE("packing: a resumed run, accumulated steps, an adapter, epochs and the plan") {
    const Place place;
    write_files(place);
    const Arguments packed{"data.packing=rows",
                           "train.per_device_train_batch_size=1",
                           "train.gradient_accumulation_steps=2",
                           "train.optim=adamw",
                           "train.learning_rate=0.01",
                           "data.valid=talks.jsonl",
                           "train.eval_steps=2",
                           "train.save_steps=2"};
    succeed(place.run(train("whole", joined(packed, {"train.max_steps=5"}))));
    succeed(place.run(train("parts", joined(packed, {"train.max_steps=2"}))));
    succeed(place.run(train("parts", joined(packed, {"train.max_steps=5"}))));
    CHECK(place.read("parts/model.safetensors") == place.read("whole/model.safetensors"));
    CHECK(has(place.read("whole/train_log.jsonl"), "eval_token_accuracy"));
    // An evaluation has a row for each example.
    const std::string eval = succeed(place.run({"eval", "whole"})).out;
    CHECK(has(eval, "perplexity"));
    const Ran epochs = succeed(place.run(train("epochs", joined(packed, {"train.num_train_epochs=2", "--plan"}))));
    CHECK(has(epochs.err, "2 epochs of " + rows_of(epochs.err) + " rows: " + rows_of(epochs.err) + " steps"));
    CHECK(has(epochs.out, "tokens of a step are predicted"));
    place.write("lora.toml", R"([model]
from = "whole"
[adapter]
id = "lora"
r = 2
target_modules = ["q_proj", "v_proj"]
[objective]
id = "chat"
[data]
train = "talks.jsonl"
packing = "rows"
chat_template = "chatml"
[train]
max_steps = 2
context_length = 96
per_device_train_batch_size = 2
[output]
dir = "adapted"
)");
    succeed(place.run({"train", "lora.toml"}));
    CHECK(place.exists("adapted/checkpoint-2"));
}

TEST_CASE("packing: what it cannot be used with is refused by name") {
    const Place place;
    write_files(place);
    const auto refused = [&](const Arguments& more) {
        const Ran ended = place.run(train("refused", joined({"data.packing=rows"}, more)));
        CHECK(ended.status == 1);
        CHECK(has(ended.err, "data.packing"));
        return ended.err;
    };
    CHECK(has(refused({"train.group_by_length=true"}), "train.group_by_length"));
    CHECK(has(refused({"objective.id=clm"}), "objective 'clm' needs a row for each example"));
    const std::string foreign = place.run(train("refused", {"train.packing=true"})).err;
    CHECK(has(foreign, "data.packing"));
    CHECK(has(place.run(train("refused", {"data.packing=true"})).err, "data.packing"));
}

} // namespace packing_program_test
