// An adapter on a trained model: which parameters are trained, what is saved, and how the folder can be used.
#include "tasks.hpp"

#include "model/weights.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

using hekla::test::generated_texts;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using hekla::test::training_steps;
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

// A folder with a small trained body, on which adapters are trained.
struct Body {
    Body() {
        place.write("text.txt", "is there a line of 7 or 9? there is none.\nline 42 of a text that is long enough.\n");
        place.write("body.toml", kBody);
        succeed(
            place.run({"train", "body.toml", "train.max_steps=40", "train.context_length=12", "train.eval_steps=0"}));
        std::istringstream encoded(succeed(place.run({"tokenize", "encode", "body", "--text", "is"})).out);
        encoded >> first >> second;
    }
    json invocation() const { return json{first, second}; }

    struct Kind {
        std::string name, id;
        std::vector<std::string> keys;
    };
    std::vector<Kind> kinds() const {
        return {
            {"lora",
             "lora",
             {"adapter.use_dora=true", "adapter.bias=\"lora_only\"", "adapter.rank_pattern={\"h.0.attn.c_attn\"=2}"}},
            {"alora",
             "lora",
             {"adapter.alora_invocation_tokens=" + invocation().dump(), "adapter.target_modules=\"all-linear\""}},
            {"ia3", "ia3", {}},
            {"ln_tuning", "ln_tuning", {}},
            {"prompt_tuning", "prompt_tuning", {"adapter.num_virtual_tokens=3"}},
            {"text",
             "prompt_tuning",
             {"adapter.num_virtual_tokens=3", "adapter.prompt_tuning_init=\"TEXT\"",
              "adapter.prompt_tuning_init_text=\"is\""}},
            {"prefix_tuning", "prefix_tuning", {"adapter.num_virtual_tokens=3"}},
            {"projected",
             "prefix_tuning",
             {"adapter.num_virtual_tokens=3", "adapter.prefix_projection=true", "adapter.encoder_hidden_size=5"}},
            {"bottleneck", "bottleneck", {"adapter.preset=\"double_seq_bn\"", "adapter.reduction_factor=4"}},
        };
    }
    Ran run(const Kind& kind, const std::vector<std::string>& more) {
        std::vector<std::string> train{"train",
                                       "body.toml",
                                       "model.from=body",
                                       "adapter.id=" + kind.id,
                                       "output.dir=" + kind.name,
                                       "train.context_length=12",
                                       "train.eval_steps=0"};
        return place.run(joined(joined(train, kind.keys), more));
    }
    // Trains adapters of these kinds, in folders of their names.
    void train(const std::set<std::string>& names, int steps = 12) {
        for (const Kind& kind : kinds())
            if (names.contains(kind.name)) succeed(run(kind, {"train.max_steps=" + std::to_string(steps)}));
    }
    Place place;
    int first = -1, second = -1; // ids of the characters of "is"
};

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
    CHECK(config["hekla"]["base"]["folder"] == "../body");
    CHECK(config["hekla"]["base"]["absolute"] == std::filesystem::canonical(place.path("body")).string());
    CHECK(has(place.read("adapted/plugins.json"), "adapter 'lora'"));

    // The loss falls, and the saved adapter equals that of a run that was interrupted and resumed.
    const std::vector<json> steps = training_steps(place, "adapted");
    CHECK(steps.back()["loss"].get<double>() < 0.8 * steps.front()["loss"].get<double>());
    succeed(place.run({"train", "adapter.toml", "output.dir=parts", "train.max_steps=20"}));
    succeed(place.run({"train", "adapter.toml", "output.dir=parts"}));
    CHECK(place.read("parts/model.safetensors") == saved);

    // It is evaluated with its body, as the training has evaluated it.
    const Ran evaluated = succeed(place.run({"eval", "adapter.toml", "--json"}));
    std::ifstream again(place.path("adapted/train_log.jsonl"));
    double validated = 0.0;
    for (std::string one; std::getline(again, one);) validated = json::parse(one).value("eval_loss", validated);
    CHECK(validated > 0.0);
    CHECK(json::parse(evaluated.out)["loss"].get<double>() == doctest::Approx(validated).epsilon(1e-6));

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

    // Moved together they belong together still; moved alone, the adapter finds the body where it was.
    std::filesystem::create_directory(place.path("shipped"));
    for (const char* name : {"body", "adapted"})
        std::filesystem::rename(place.path(name), place.path("shipped") / name);
    CHECK(written("shipped/adapted") == by_adapter);
    CHECK(written("shipped/adapted/checkpoint-40") == by_adapter);
    for (const char* name : {"body", "adapted"})
        std::filesystem::rename(place.path("shipped") / name, place.path(name));
    std::filesystem::rename(place.path("adapted"), place.path("shipped/alone"));
    CHECK(written("shipped/alone") == by_adapter);
    std::filesystem::rename(place.path("shipped/alone"), place.path("adapted"));

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

TEST_CASE("a body in 16 bits: half the memory, the losses of the same rounded weights in 32") {
    const Place place;
    std::string text;
    for (int i = 0; i < 60; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("other.txt", text);
    place.write("body.toml", kBody);
    place.write("adapter.toml", kAdapter);
    succeed(place.run({"train", "body.toml", "train.max_steps=20"}));
    for (const auto& [dtype, short_name] : {std::pair{"bfloat16", "bf16"}, {"float16", "f16"}}) {
        const std::string rounded = std::string("rounded-") + short_name, run = std::string("run-") + short_name;
        succeed(place.run({"convert", "body", rounded, "--dtype", short_name}));
        const std::string same = "model.from=" + rounded, in = std::string("train.frozen_dtype=") + dtype;
        succeed(place.run({"train", "adapter.toml", same, "output.dir=" + run + "-32", "train.max_steps=20"}));
        succeed(place.run({"train", "adapter.toml", same, in, "output.dir=" + run, "train.max_steps=20"}));
        const std::vector<json> wide = training_steps(place, run + "-32"), narrow = training_steps(place, run);
        REQUIRE(wide.size() == 20);
        REQUIRE(narrow.size() == 20);
        for (std::size_t i = 0; i < wide.size(); ++i)
            CHECK(narrow[i]["loss"].get<double>() == doctest::Approx(wide[i]["loss"].get<double>()).epsilon(1e-4));
        const auto weights = [&](const std::vector<std::string>& settings) {
            std::vector<std::string> all{"train", "adapter.toml", "--plan", "--json"};
            all.insert(all.end(), settings.begin(), settings.end());
            const json plan = json::parse(succeed(place.run(all)).out);
            return plan["weights"].get<double>();
        };
        CHECK(weights({in}) < 0.75 * weights({}) + 48e3); // chunks are padded
    }
    const Ran nothing = place.run({"train", "body.toml", "output.dir=none", "train.frozen_dtype=bfloat16"});
    CHECK(nothing.status == 1);
    CHECK_MESSAGE(has(nothing.err, "no parameter is frozen"), nothing.err);
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
    place.write("letters.txt", "other letters: xyz, which are other tokens of the same tokenizer's kind.\n");
    CHECK(has(refused({"adapter.toml", "data.train=letters.txt", "tokenizer.kind=char"}),
              "the tokenizer of [tokenizer] is not that of model.from = body"));
}

TEST_CASE("every kind of adapter trains, generates as the reference does, and is written for PEFT and read again" *
          doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    for (const auto& [name, id, keys] : on.kinds()) {
        CAPTURE(name);
        on.train({name});
        const auto text = [&](const std::string& folder, const std::vector<std::string>& options) {
            return generated_texts(
                place, joined({folder, "--prompt", "is", "--prompt", "line 4", "--max-new-tokens", "7"}, options));
        };
        const std::string greedy = text(name, {"--greedy"});
        CHECK(greedy == text(name, {"--greedy", "--reference"}));
        CHECK(greedy == text(name, {"--temperature", "0"}));
        CHECK(text(name, {"--beams", "3"}) == text(name, {"--beams", "3", "--reference"}));
        if (name == "bottleneck") continue; // PEFT has none
        succeed(place.run({"adapter", "convert", name, "-o", name + "-peft"}));
        succeed(place.run(
            {"adapter", "convert", name + "-peft", "-o", name + "-again", "--format", "hekla", "--body", "body"}));
        CHECK(greedy == text(name + "-again", {"--greedy"}));
        succeed(place.run({"adapter", "convert", name + "-again", "-o", name + "-peft-2"}));
        CHECK(place.read(name + "-peft/adapter_model.safetensors") ==
              place.read(name + "-peft-2/adapter_model.safetensors"));
        const Ran merged = place.run({"adapter", "merge", name, "-o", name + "-merged"});
        const bool tokens = id == "prompt_tuning" || id == "prefix_tuning", invoked = name == "alora";
        CHECK(merged.status == (tokens || invoked ? 1 : 0));
        if (tokens)
            CHECK(has(merged.err, "virtual tokens are not a change of weights"));
        else if (invoked)
            CHECK(has(merged.err, "depends on the place in the row"));
        else
            CHECK(greedy == text(name + "-merged", {"--greedy"}));
        CHECK(has(succeed(place.run({"adapter", "inspect", name})).out, "parameters, "));
    }
}

TEST_CASE("PEFT's folder of a projected prefix has what the projection makes" * doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    on.train({"projected"}, 0);
    succeed(place.run({"adapter", "convert", "projected", "-o", "projected-peft"}));
    const json peft = json::parse(place.read("projected-peft/adapter_config.json"));
    CHECK(peft["prefix_projection"] == true);
    CHECK(peft["encoder_hidden_size"] == 5);
    const auto prefix = hekla::model::Weights::open(place.path("projected-peft/adapter_model.safetensors"));
    REQUIRE_MESSAGE(prefix.ok(), prefix.message());
    REQUIRE(prefix->tensors().size() == 1);
    CHECK(prefix->tensors()[0].dims == std::vector<int64_t>{3, 2 * 2 * 16});
}

TEST_CASE("before the first step the virtual tokens are the text's characters, again and again" *
          doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    const std::vector<std::string> text_keys{"adapter.num_virtual_tokens=3", "adapter.prompt_tuning_init=\"TEXT\"",
                                             "adapter.prompt_tuning_init_text=\"is\""};
    succeed(on.run({"start", "prompt_tuning", text_keys}, {"train.max_steps=0"}));
    const auto start = hekla::model::Weights::open(place.path("start/model.safetensors"));
    const auto body = hekla::model::Weights::open(place.path("body/model.safetensors"));
    REQUIRE_MESSAGE(start.ok(), start.message());
    REQUIRE_MESSAGE(body.ok(), body.message());
    const auto bytes_of = [](const hekla::model::TensorView& tensor, std::size_t row) {
        const std::size_t size = tensor.bytes.size() / static_cast<std::size_t>(tensor.dims[0]);
        return std::string(reinterpret_cast<const char*>(tensor.bytes.data()) + row * size, size);
    };
    const json own = json::parse(place.read("start/config.json"))["hekla"]["adapter_config"];
    const auto ids = own["prompt_tuning_init_ids"].get<std::vector<std::size_t>>();
    REQUIRE(ids.size() == 2);
    const hekla::model::TensorView* prompt = start->find("adapter.prompt_embeddings");
    const hekla::model::TensorView* table = body->find("transformer.wte.weight");
    REQUIRE(prompt != nullptr);
    REQUIRE(table != nullptr);
    for (std::size_t row = 0; row < 3; ++row) CHECK(bytes_of(*prompt, row) == bytes_of(*table, ids[row % 2]));
    succeed(place.run({"adapter", "convert", "start", "-o", "text-peft"}));
    const json words = json::parse(place.read("text-peft/adapter_config.json"));
    CHECK(words["prompt_tuning_init"] == "TEXT");
    CHECK(words["prompt_tuning_init_text"] == "is");
    CHECK(words["tokenizer_name_or_path"] == words["base_model_name_or_path"]);
    CHECK(has(on.run({"no",
                      "prompt_tuning",
                      {"adapter.prompt_tuning_init=\"TEXT\"", "adapter.prompt_tuning_init_text=\"\u00e9\""}},
                     {})
                  .err,
              "adapter: prompt_tuning_init_text: "));
    CHECK_FALSE(place.exists("no"));
}

TEST_CASE("what a kind of adapter cannot do is one error, and writes nothing" * doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    on.train({"bottleneck", "prompt_tuning", "ln_tuning", "alora", "lora", "ia3"}, 0);
    CHECK(has(place.run({"adapter", "merge", "bottleneck", "-o", "no"}).err, "cannot be merged"));
    CHECK(has(place.run({"adapter", "convert", "bottleneck", "-o", "no"}).err, "has no form in PEFT"));
    CHECK(has(place.run({"export", "prompt_tuning", "no.hekla"}).err, "virtual tokens"));
    CHECK(place.run({"export", "prompt_tuning", "no.hekla"}).status == 1);
    CHECK(has(place.run({"generate", "body", "--adapter", "a=ln_tuning:0.5", "--prompt", "is"}).err,
              "the scale is 0.5, but the adapter replaces"));
    CHECK(has(place.run({"export", "alora", "no.hekla"}).err, "alora_invocation_tokens"));
    CHECK(has(place.run({"adapter", "combine", "alora", "alora", "-o", "no"}).err, "alora_invocation_tokens is given"));
    CHECK(has(place.run({"adapter", "convert", "lora", "-o", "no.gguf", "--format", "gguf"}).err,
              "GGUF has no form of DoRA"));
    CHECK(has(place.run({"adapter", "convert", "ia3", "-o", "no.gguf", "--format", "gguf"}).err,
              "GGUF has no form of the adapter 'ia3'; expected 'lora'"));
    for (const char* file : {"no", "no.hekla", "no.gguf"}) CHECK_FALSE(place.exists(file));
}

TEST_CASE("LoRA as llama.cpp reads it: a rank-stabilized B has what alpha / rank lacks" * doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    succeed(on.run({"plain", "lora", {"adapter.use_rslora=true", "adapter.r=4"}}, {"train.max_steps=2"}));
    succeed(place.run({"adapter", "convert", "plain", "-o", "plain.gguf", "--format", "gguf"}));
    const std::string gguf = place.read("plain.gguf");
    CHECK(gguf.starts_with("GGUF"));
    for (const char* text : {"adapter.lora.alpha", "blk.0.attn_qkv.weight.lora_a", "blk.1.attn_qkv.weight.lora_b"})
        CHECK(has(gguf, text));
    CHECK(place.run({"adapter", "convert", "plain", "-o", "plain.gguf", "--format", "gguf"}).status == 1); // it exists
}

TEST_CASE("aLoRA as llama.cpp reads it, and rows of a batch, each with its own adapter" * doctest::test_suite("long")) {
    Body on;
    Place& place = on.place;
    on.train({"alora"});
    succeed(on.run({"plain", "lora", {"adapter.use_rslora=true", "adapter.r=4"}}, {"train.max_steps=2"}));
    CHECK(has(place.run({"generate", "body", "--plan", "2x16", "--adapter-slots", "2", "--adapter", "a=alora"}).err,
              "alora: it acts from its alora_invocation_tokens on (aLoRA)"));
    // The key is an array (9) of two uint32 (4).
    succeed(place.run({"adapter", "convert", "alora", "-o", "alora.gguf", "--format", "gguf"}));
    std::string key("adapter.alora.invocation_tokens\x09\0\0\0\x04\0\0\0\x02\0\0\0\0\0\0\0", 31 + 16);
    for (const int id : {on.first, on.second}) key += std::string{static_cast<char>(id), '\0', '\0', '\0'};
    CHECK(has(place.read("alora.gguf"), key));
    succeed(place.run({"adapter", "convert", "alora", "-o", "alora-peft"}));
    const json invoked = json::parse(place.read("alora-peft/adapter_config.json"));
    CHECK(invoked["alora_invocation_tokens"] == on.invocation());
    CHECK(invoked["task_type"] == "CAUSAL_LM"); // without it PEFT looks for no invocation
    const auto rows = [&](const std::vector<std::string>& options) {
        return succeed(place.run(joined({"generate", "body", "--greedy", "--max-new-tokens", "7", "--adapter",
                                         "a=alora", "--adapter", "b=plain"},
                                        options)))
            .out;
    };
    std::string expected;
    for (const auto& [prompt, adapter] : {std::pair{"is", "a"}, {"line 4", "b"}, {"no", "-"}})
        expected += rows({"--prompt", prompt, "--adapter-rows", adapter});
    std::string mixed = rows({"--prompt", "is", "--prompt", "line 4", "--prompt", "no", "--adapter-rows", "a,b,-"});
    for (const std::string title : {"--- 1\n", "--- 2\n", "--- 3\n"}) mixed.erase(mixed.find(title), title.size());
    CHECK(mixed == expected);
}

TEST_CASE("a damaged or unsupported folder of an adapter is one error that names file and key") {
    const Place place;
    const std::filesystem::path fixtures = HEKLA_SOURCE_DIR "/tests/fixtures/adapters";
    const auto copy = [&](const std::string& fixture) {
        std::filesystem::remove_all(place.path("it"));
        std::filesystem::copy(fixtures / fixture, place.path("it"), std::filesystem::copy_options::recursive);
    };
    const auto inspect = [&] {
        const Ran ran = place.run({"adapter", "inspect", "it/adapter", "--body", "it"});
        CHECK(ran.status == 1);
        CHECK(ran.out.empty());
        CHECK(has(ran.err, "hekla: error: "));
        return ran.err;
    };
    const std::tuple<const char*, json, const char*> changes[] = {
        {"r", 0, "r is 0, expected from 1"},
        {"r", -4, "r is -4, expected from 1"},
        {"r", int64_t{1} << 40, "expected from 1 to 65536"},
        {"r", "8", "'r' is missing or not a number"},
        {"r", 2, "the adapter is of another size or body"},
        {"r", nullptr, "'r' is missing or not a number"},
        {"lora_alpha", "NaN", "'lora_alpha' is missing or not a number"},
        {"lora_dropout", 1.5, "lora_dropout is not from 0 to below 1"},
        {"peft_type", "ADALORA", "peft_type is \"ADALORA\"; supported are"},
        {"use_qalora", true, "'use_qalora' is true: this option of PEFT is not supported"},
        {"layer_replication", json::parse("[[0, 1]]"), "'layer_replication'"},
        {"init_lora_weights", "pissa", "init_lora_weights is \"pissa\""},
        {"target_modules", json::parse("[\"c_proj\"]"), "belongs to no module that the adapter acts at"},
        {"target_modules", json::parse("[\"c_attn\", \"c_fc\"]"), "which the adapter's configuration means"},
        {"target_modules", "(a+)+$x(", "is not a regular expression"},
        {"target_modules", nullptr, "it has no target_modules"},
        {"rank_pattern", json::parse("{\"c_attn\": 0}"), "rank_pattern: 0 for"},
        {"bias", "some", "bias is 'some'; expected"},
        {"bias", "all", "which the adapter trains by its configuration"},
        {"alora_invocation_tokens", json::array(), "alora_invocation_tokens is []; expected a list"},
        {"alora_invocation_tokens", json{1, 128}, "has the id 128; expected ids from 0 to 127, the body's vocabulary"},
        {"peft_type", "IA3", "'alora_invocation_tokens' is [6,56]: this option of PEFT is not supported"},
    };
    for (const auto& [key, value, reason] : changes) {
        CAPTURE(key);
        CAPTURE(value.dump());
        copy(value == "IA3" ? "alora-gpt2" : "lora-gpt2");
        json config = json::parse(place.read("it/adapter/adapter_config.json"));
        config[key] = value;
        place.write("it/adapter/adapter_config.json", config.dump());
        const std::string error = inspect();
        CAPTURE(error);
        CHECK(has(error, reason));
    }
    const auto with_config = [&](const std::string& text) {
        copy("lora-gpt2");
        place.write("it/adapter/adapter_config.json", text);
        return inspect();
    };
    CHECK(has(with_config(""), "adapter_config.json"));
    CHECK(has(with_config("{\"peft_type\": \"LORA\", \"r\": 4, \"r\": 8}"), "adapter_config.json"));
    CHECK(has(with_config(std::string(100'000, '[')), "adapter_config.json"));
    CHECK(has(with_config("{}"), "is neither PEFT's, with the key \"peft_type\", nor AdapterHub's"));
    CHECK(has(with_config("{\"config\": {\"architecture\": \"reft\"}, \"model_type\": \"gpt2\"}"),
              "architecture is \"reft\""));
    CHECK(has(with_config("{\"config\": {\"phm_layer\": true}}"), "'phm_layer' is true"));
    copy("lora-gpt2");
    const std::string weights = place.read("it/adapter/adapter_model.safetensors");
    place.write("it/adapter/adapter_model.safetensors", weights.substr(0, weights.size() / 2));
    CHECK(has(inspect(), "adapter_model.safetensors"));
    std::string nan = weights;
    nan.replace(nan.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
    place.write("it/adapter/adapter_model.safetensors", nan);
    CHECK(has(inspect(), "adapter_model.safetensors"));
    std::filesystem::remove(place.path("it/adapter/adapter_model.safetensors"));
    CHECK(has(inspect(), "adapter_model"));
    // Another body.
    copy("lora-gpt2");
    const std::string llama = (fixtures / "lora-llama").string();
    CHECK(has(place.run({"adapter", "inspect", "it/adapter", "--body", llama}).err, "belongs to no module"));
    CHECK(has(place.run({"adapter", "inspect", "it/adapter", "--body", "nowhere"}).err, "nowhere"));
    CHECK(has(place.run({"adapter", "merge", "it", "-o", "no"}).err, "is not an adapter"));
    // Prompts.
    copy("prefix-gpt2");
    json config = json::parse(place.read("it/adapter/adapter_config.json"));
    for (const auto& [key, value, reason] :
         {std::tuple{"num_layers", json(3), "num_layers is 3"},
          {"num_virtual_tokens", json(0), "num_virtual_tokens is 0"},
          {"num_virtual_tokens", json(4), "the adapter is of another size or body"},
          {"num_transformer_submodules", json(2), "share_layers is of encoder-decoders"}}) {
        CAPTURE(key);
        json changed = config;
        changed[key] = value;
        place.write("it/adapter/adapter_config.json", changed.dump());
        const std::string error = inspect();
        CAPTURE(error);
        CHECK(has(error, reason));
    }
}
