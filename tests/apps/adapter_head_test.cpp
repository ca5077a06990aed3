// hekla predict and generate --adapter: an adapter that was trained with a head of its own, or with other parameters of
// the model, is what the run is that trained it.
#include "tasks.hpp"

#include <doctest/doctest.h>

namespace adapter_head_test {

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;

namespace {

std::string predicted(const Place& place, const Arguments& model) {
    return succeed(place.run(joined(joined({"predict"}, model),
                                    {"--text", "film x good 3", "--text", "film bad 9", "--text", "film xx good 41"})))
        .out;
}

std::string generated(const Place& place, const Arguments& model) {
    return succeed(place.run(joined(joined({"generate"}, model),
                                    {"--prompt", "line ", "--greedy", "--max-new-tokens", "12", "--json"})))
        .out.substr(0, 120); // the texts, without the speed
}

std::string refused(const Place& place, const Arguments& arguments) {
    const Ran ran = place.run(arguments);
    CHECK(ran.status == 1);
    return ran.err;
}

} // namespace

TEST_CASE("predict --adapter: the head, the labels and the objective that were trained with the adapter are used") {
    const Place place;
    hekla::test::write_task(place);
    std::string text;
    for (const std::string file : {"train.tsv", "valid.tsv"}) {
        std::istringstream lines(place.read(file));
        for (std::string line; std::getline(lines, line);) text += line.substr(0, line.find('\t')) + "\n";
    }
    place.write("words.txt", text + text + text);
    place.write("text.toml", std::string(hekla::test::kModel) + R"([objective]
id = "mlm"
[head]
id = "mlm"
[data]
valid_fraction = 0.0
train = "words.txt"
[train]
max_steps = 5
context_length = 24
per_device_train_batch_size = 8
eval_steps = 0
[output]
dir = "text"
)");
    succeed(place.run({"train", "task.toml", "train.max_steps=3"}));
    succeed(place.run({"train", "text.toml"}));
    const Arguments task{"train", "task.toml", "adapter.id=lora", "train.max_steps=40", "train.learning_rate=1e-2"};
    // Another head on the same task's body, the body's head trained further, and a head where the body has another.
    succeed(place.run(joined(task, {"model.from=run", "head.pooling=mean", "output.dir=tuned"})));
    succeed(
        place.run(joined(task, {"model.from=run", "adapter.modules_to_save=[\"classifier\"]", "output.dir=saved"})));
    succeed(place.run(joined(task, {"model.from=text", "output.dir=new"})));

    const std::string body = predicted(place, {"run"});
    for (const auto& [adapter, of] : {std::pair("tuned", "run"), {"saved", "run"}, {"new", "text"}}) {
        CAPTURE(adapter);
        const std::string use = std::string("a=") + adapter;
        const std::string own = predicted(place, {adapter});
        CHECK(own != body);
        CHECK(predicted(place, {of, "--adapter", use}) == own);
        CHECK(predicted(place, {of, "--adapter", use, "--reference"}) != body);
        const std::string half = predicted(place, {of, "--adapter", use + ":0.5"});
        CHECK(half != own);
        CHECK(half != body); // the head has no scale
    }
    // PEFT's folder has the tensors of a head, which the model must have.
    succeed(place.run({"adapter", "convert", "saved", "-o", "saved_peft"}));
    succeed(place.run({"adapter", "convert", "new", "-o", "new_peft"}));
    CHECK(predicted(place, {"run", "--adapter", "a=saved_peft"}) == predicted(place, {"saved"}));
    const Arguments one{"--text", "film good 1"};
    std::string why = refused(place, joined({"predict", "text", "--adapter", "a=new_peft"}, one));
    CHECK_MESSAGE(has(why, "which was trained with the adapter, but the head of text does not have it"), why);
    why = refused(place, joined({"predict", "run", "--adapter", "a=saved", "--adapter", "b=tuned"}, one));
    CHECK_MESSAGE(has(why, "adapter 'a': saved: contains 'classifier."), why);
    CHECK_MESSAGE(has(why, "cannot have a head each: use it alone"), why);
    // Features do not depend on it.
    CHECK(
        has(succeed(place.run({"embed", "text", "film good", "--adapter", "a=new"})).err, "are not used: bert.pooler"));
}

TEST_CASE("generate --adapter: a head and other parameters of the model that were trained with the adapter are used") {
    const Place place;
    std::string text, other;
    for (int i = 0; i < 60; ++i) {
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long.\n";
        other += "line line of line 0123456789 xtahs.\n";
    }
    place.write("text.txt", text);
    place.write("other.txt", other);
    place.write("text.toml", R"([model]
architecture = "llama"
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 2
max_position_embeddings = 32
tie_word_embeddings = false
[data]
valid_fraction = 0.0
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 80
learning_rate = 2e-2
context_length = 16
per_device_train_batch_size = 4
eval_steps = 0
[output]
dir = "body"
)");
    succeed(place.run({"train", "text.toml"}));
    const Arguments more{"train", "text.toml", "model.from=body", "tokenizer.from=body", "data.train=other.txt"};
    succeed(place.run(
        joined(more, {"adapter.id=lora", "adapter.r=2", "adapter.modules_to_save=[\"lm_head\"]", "output.dir=head"})));
    succeed(place.run(joined(more, {"adapter.id=ln_tuning", "output.dir=norms"})));
    succeed(place.run(joined(more, {"adapter.id=lora", "adapter.r=2", "output.dir=plain"})));
    const std::string body = generated(place, {"body"});
    for (const char* adapter : {"head", "norms", "plain"}) {
        CAPTURE(adapter);
        const std::string own = generated(place, {adapter});
        CHECK(own != body);
        CHECK(generated(place, {"body", "--adapter", std::string("a=") + adapter}) == own);
    }
    succeed(place.run({"adapter", "convert", "head", "-o", "head_peft"}));
    CHECK(generated(place, {"body", "--adapter", "a=head_peft"}) == generated(place, {"head"}));
    const Arguments both{"generate", "body", "--adapter", "a=head", "--adapter", "b=plain", "--prompt", "line "};
    for (const Arguments& rows : {Arguments{}, {"--prompt", "line ", "--adapter-rows", "a,b"}}) {
        const std::string why = refused(place, joined(both, rows));
        CHECK_MESSAGE(has(why, "adapter 'a': head: contains 'lm_head.weight' of the head"), why);
    }
    // A head that writes nothing.
    hekla::test::write_task(place);
    succeed(place.run({"train", "task.toml", "train.max_steps=2"}));
    succeed(place.run({"train", "task.toml", "model.from=run", "adapter.id=lora", "output.dir=task",
                       "train.max_steps=2", "head.pooling=mean"}));
    const std::string why = refused(place, {"generate", "body", "--prompt", "line ", "--adapter", "a=task"});
    CHECK_MESSAGE(has(why, "adapter 'a': task: was trained with a head of its own, 'classifier'"), why);
}

} // namespace adapter_head_test
