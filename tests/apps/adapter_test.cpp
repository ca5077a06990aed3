// An adapter on a trained model: which parameters are trained, what is saved, and how the folder can be used.
#include "program.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const char* const kBody = R"([model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 16
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 80
learning_rate = 1e-2
context_length = 16
per_device_train_batch_size = 4
eval_steps = 40
eval_batches = 2
[output]
dir = "body"
)";

const char* const kAdapter = R"([model]
from = "body"
[adapter]
id = "lora"
r = 4
target_modules = ["c_attn", "c_proj", "c_fc"]
[data]
train = "other.txt"
[train]
max_steps = 40
learning_rate = 1e-2
lr_scheduler_type = "constant"
context_length = 16
per_device_train_batch_size = 4
eval_steps = 20
eval_batches = 2
save_steps = 20
[output]
dir = "adapted"
)";

// Returns the names in a safetensors file.
std::vector<std::string> names_in(const std::string& file) {
    uint64_t size = 0;
    REQUIRE(file.size() > sizeof size);
    std::memcpy(&size, file.data(), sizeof size);
    std::vector<std::string> names;
    const json header = json::parse(file.substr(sizeof size, size));
    for (const auto& [name, tensor] : header.items())
        if (name != "__metadata__") names.push_back(name);
    return names;
}

} // namespace

TEST_CASE("an adapter trains with a frozen body, is saved alone and opened with the body") {
    const Place place;
    const std::string line = "is there a line of 7 or 9? there is none.\n";
    std::string text = line, other; // the same letters
    for (int i = 0; i < 60; ++i) {
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
        other += line;
    }
    place.write("text.txt", text);
    place.write("other.txt", other);
    place.write("body.toml", kBody);
    place.write("adapter.toml", kAdapter);
    succeed(place.run({"train", "body.toml"}));
    const std::string body = place.read("body/model.safetensors");

    const Ran trained = succeed(place.run({"train", "adapter.toml"}));
    CHECK(has(trained.out + trained.err, "28 of 44 parameters are frozen"));
    CHECK(place.read("body/model.safetensors") == body);
    const std::string saved = place.read("adapted/model.safetensors");
    const std::vector<std::string> names = names_in(saved);
    CHECK(names.size() == 16); // two for each of four matrices in two blocks
    for (const std::string& name : names) CHECK(name.starts_with("adapter.transformer.h."));
    CHECK(saved.size() < body.size());
    const json config = json::parse(place.read("adapted/config.json"));
    CHECK(config["hekla"]["adapter"] == "lora");
    CHECK(config["hekla"]["base"]["folder"] == std::filesystem::canonical(place.path("body")).string());
    CHECK(has(place.read("adapted/plugins.json"), "adapter 'lora'"));

    // The loss falls, and the saved adapter equals that of a run that was interrupted and resumed.
    std::ifstream log(place.path("adapted/train_log.jsonl"));
    double first = 0.0, last = 0.0;
    for (std::string one; std::getline(log, one);) {
        const json entry = json::parse(one);
        if (!entry.contains("learning_rate")) continue;
        if (first == 0.0) first = entry["loss"].get<double>();
        last = entry["loss"].get<double>();
    }
    CHECK(last < 0.8 * first);
    succeed(place.run({"train", "adapter.toml", "output.dir=parts", "train.max_steps=20"}));
    succeed(place.run({"train", "adapter.toml", "output.dir=parts"}));
    CHECK(place.read("parts/model.safetensors") == saved);

    // The opened model uses both: it matches the training's own graph and differs from the body.
    const std::vector<std::string> greedy{"--prompt", "is there", "--max-new-tokens", "8", "--greedy"};
    const auto written = [&](const std::string& folder) {
        std::vector<std::string> arguments{"generate", folder};
        arguments.insert(arguments.end(), greedy.begin(), greedy.end());
        return succeed(place.run(arguments)).out;
    };
    const std::string by_adapter = written("adapted");
    CHECK(by_adapter != written("body"));
    CHECK(by_adapter == written("adapted/checkpoint-40")); // which refers to the body too

    // A missing or different body is an error.
    std::filesystem::rename(place.path("body"), place.path("moved"));
    const Ran gone = place.run({"generate", "adapted", "--prompt", "i"});
    CHECK(gone.status == 1);
    CHECK(has(gone.err, "the body that this adapter is of is not there"));
    succeed(place.run({"train", "body.toml", "train.seed=2"}));
    const Ran changed = place.run({"generate", "adapted", "--prompt", "i"});
    CHECK(changed.status == 1);
    CHECK(has(changed.err, "holds other weights"));
    const Ran goes_on = place.run({"train", "adapter.toml", "train.max_steps=44"});
    CHECK(goes_on.status == 1);
    CHECK(has(goes_on.err, "its adapter was trained with another body than model.from = body is now"));
}

TEST_CASE("recipes with an unsupported use of an adapter are rejected") {
    const Place place;
    place.write("text.txt", "a text that is long enough for a row or two of it.\n");
    place.write("body.toml", kBody);
    place.write("adapter.toml", kAdapter);
    const auto refused = [&](const std::vector<std::string>& arguments) {
        std::vector<std::string> all{"train"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        const Ran ran = place.run(all);
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused({"body.toml", "adapter.id=lora"}),
              "[adapter] needs a trained model: set model.from to its folder"));
    CHECK(has(refused({"body.toml", "adapter.r=4"}), "[adapter] needs `id`"));
    CHECK(has(refused({"adapter.toml", "model.layers=[0]"}), "[adapter] cannot change the network of model.from"));
    succeed(place.run({"train", "body.toml", "train.max_steps=1", "train.eval_steps=0"}));
    CHECK(has(refused({"adapter.toml", "data.train=text.txt", "adapter.target_modules=[\"nothing\"]"}),
              "adapter 'lora' acts at none of the modules of body, which are transformer."));
    CHECK(has(refused({"adapter.toml", "data.train=text.txt", "adapter.id=\"lorra\""}), "did you mean 'lora'?"));
}
