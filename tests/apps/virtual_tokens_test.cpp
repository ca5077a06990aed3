// Prefixes and prompts of an encoder-decoder: trained, scored, generated with, written for PEFT and read again. And
// AdapterHub's folders that are damaged or not supported.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace virtual_tokens_test {

namespace fs = std::filesystem;
using hekla::test::generated_texts;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const fs::path kFixtures = HEKLA_SOURCE_DIR "/tests/fixtures/adapters";

const std::string kBody = std::string(hekla::test::kTranslator) + R"([train]
max_steps = 60
context_length = 8
per_device_train_batch_size = 16
learning_rate = 1e-2
lr_scheduler_type = "constant"
eval_steps = 20
save_steps = 10
[output]
dir = "body"
)";

} // namespace

TEST_CASE("features of an encoder-decoder with virtual tokens in its encoder need the tokens of its decoder") {
    const Place place;
    place.write("rows.jsonl", "{\"input_ids\": [5, 6, 7]}\n");
    const auto embed = [&](const std::string& fixture, const std::vector<std::string>& rows) {
        const std::string folder = (kFixtures / fixture).string();
        return place.run(joined({"embed", folder, "--adapter", "a=" + folder + "/adapter"}, rows));
    };
    for (const char* fixture : {"prompt-t5", "prompt-bart"}) {
        const Ran texts = embed(fixture, {"--file", "rows.jsonl"});
        CHECK(texts.status == 1);
        CHECK_MESSAGE(has(texts.err, "give a file of fields with input_ids and decoder_input_ids"), texts.err);
        succeed(
            embed(fixture, {"--fields", (kFixtures / fixture / "inputs.safetensors").string(), "--port", "logits"}));
    }
    succeed(embed("prefix-t5", {"--file", "rows.jsonl"}));
}

TEST_CASE("an encoder-decoder trains prefixes and prompts, generates with them, and PEFT's form of them is the same" *
          doctest::test_suite("long")) {
    const Place place;
    place.write("pairs.tsv", hekla::test::translations(false));
    place.write("exchanged.tsv", hekla::test::translations(true));
    place.write("body.toml", kBody);
    succeed(place.run({"train", "body.toml"}));
    const std::tuple<std::string, std::string, std::vector<std::string>> kinds[] = {
        {"prompt", "prompt_tuning", {}},
        {"prefix", "prefix_tuning", {}},
        {"shared", "prefix_tuning", {"adapter.share_layers=2"}},
        {"projected", "prefix_tuning", {"adapter.prefix_projection=true"}},
    };
    for (const auto& [name, id, keys] : kinds) {
        CAPTURE(name);
        std::vector<std::string> train{"train",
                                       "body.toml",
                                       "model.from=body",
                                       "data.train=exchanged.tsv",
                                       "data.valid=exchanged.tsv",
                                       "adapter.id=" + id,
                                       "adapter.num_virtual_tokens=4",
                                       "output.dir=" + name};
        train.insert(train.end(), keys.begin(), keys.end());
        std::vector<std::string> half = train;
        half.emplace_back("train.max_steps=30");
        half.emplace_back("output.dir=half");
        succeed(place.run(train));
        std::vector<double> losses;
        std::istringstream log(place.read(name + "/train_log.jsonl"));
        for (std::string line; std::getline(log, line);)
            if (const json record = json::parse(line); record.contains("eval_loss"))
                losses.push_back(record["eval_loss"].get<double>());
        REQUIRE(losses.size() >= 2);
        CHECK(losses.back() < losses.front());
        // A run that is continued ends with the same bits.
        succeed(place.run(half));
        half[half.size() - 2] = "train.max_steps=60";
        succeed(place.run(half));
        const bool same = place.read("half/model.safetensors") == place.read(name + "/model.safetensors");
        CHECK(same);
        fs::remove_all(place.path("half"));

        const auto text = [&](const std::string& folder, const std::vector<std::string>& options) {
            return generated_texts(
                place,
                joined({folder, "--prompt", "two and three", "--prompt", "four", "--max-new-tokens", "5"}, options));
        };
        const std::string greedy = text(name, {"--greedy"});
        CHECK(greedy == text(name, {"--greedy", "--reference"}));
        CHECK(text(name, {"--beams", "3"}) == text(name, {"--beams", "3", "--reference"}));
        const std::string peft = name + "-peft", again = name + "-again";
        const Ran converted = place.run({"adapter", "convert", name, "-o", peft});
        if (name == "prefix" || name == "projected") {
            CHECK(converted.status == 1);
            CHECK(has(converted.err, "PEFT has no form of a prefix in which each of 2 layers of a decoder has its own "
                                     "keys and values: its layers share them, as with share_layers = 2"));
            CHECK_FALSE(place.exists(peft));
            continue;
        }
        succeed(converted);
        const json config = json::parse(place.read(peft + "/adapter_config.json"));
        CHECK(config["task_type"] == "SEQ_2_SEQ_LM");
        CHECK(config["num_transformer_submodules"] == (name == "prompt" ? 1 : 2));
        succeed(place.run({"adapter", "convert", peft, "-o", again, "--format", "hekla", "--body", "body"}));
        CHECK(greedy == text(again, {"--greedy"}));
    }
}

TEST_CASE("AdapterHub's prefixes, prompts and merged layers: what is damaged or not supported is one error") {
    const Place place;
    const auto copy = [&](const std::string& fixture) {
        fs::remove_all(place.path("it"));
        fs::copy(kFixtures / fixture, place.path("it"), fs::copy_options::recursive);
    };
    const auto refusal = [&] {
        const Ran ran = place.run({"adapter", "inspect", "it/adapter", "--body", "it"});
        CHECK(ran.status == 1);
        CHECK(ran.out.empty());
        CHECK(has(ran.err, "hekla: error: "));
        return ran.err;
    };
    const std::tuple<const char*, const char*, json, const char*> changes[] = {
        {"hub-lora-gpt2", "attn_matrices", json::parse("[]"), "'attn_matrices' is []; expected a list of"},
        {"hub-lora-gpt2", "attn_matrices", json::parse("[\"q\", \"o\"]"), "'attn_matrices' is [\"q\",\"o\"]"},
        {"hub-lora-gpt2", "attn_matrices", json::parse("[\"q\", \"k\", \"v\"]"), "expected a matrix of rank 9"},
        {"hub-lora-gpt2", "r", 1e12, "expected a whole number from 1 to 65536"},
        {"hub-lora-gpt2", "use_gating", true, "'use_gating' is true"},
        {"hub-prefix-gpt2", "prefix_length", 0, "'prefix_length' is 0; expected"},
        {"hub-prefix-gpt2", "prefix_length", 7, "is [640]; expected [7 tokens * layers * 64]"},
        {"hub-prefix-gpt2", "prefix_length", 10, "has no tensor adapter.prompt_embeddings.1"},
        {"hub-prefix-gpt2", "leave_out", json::parse("[-1]"), "'leave_out' is [-1]"},
        {"hub-prefix-gpt2", "leave_out", json::parse("[0]"), "prompt_embeddings.2"},
        {"hub-prefix-gpt2", "use_gating", true, "'use_gating' is true: this option of AdapterHub's prefix tuning"},
        {"hub-prefix-gpt2", "flat", false, "is not one of a prefix with flat = false"},
        {"hub-prefix-bert", "non_linearity", "relu", "'non_linearity' is \"relu\""},
        {"hub-prefix-bert", "flat", true, "is not one of a prefix with flat = true"},
        {"hub-prompt-bert", "combine", "prefix_after_bos", "'combine' is \"prefix_after_bos\""},
        {"hub-prompt-bert", "prompt_length", 5, "is [4, 32], expected [5, 32]"},
        {"hub-prompt-bert", "prompt_length", "4", "'prompt_length' is \"4\"; expected"},
    };
    for (const auto& [fixture, key, value, reason] : changes) {
        CAPTURE(fixture);
        CAPTURE(key);
        copy(fixture);
        json config = json::parse(place.read("it/adapter/adapter_config.json"));
        config["config"][key] = value;
        place.write("it/adapter/adapter_config.json", config.dump());
        const std::string error = refusal();
        CAPTURE(error);
        CHECK(has(error, reason));
    }
    copy("hub-prefix-gpt2");
    json config = json::parse(place.read("it/adapter/adapter_config.json"));
    config["hidden_size"] = nullptr;
    place.write("it/adapter/adapter_config.json", config.dump());
    CHECK(has(refusal(), "'hidden_size' is null; expected"));
    // An encoder-decoder's, by its tensor's name.
    copy("hub-prefix-gpt2");
    std::string weights = place.read("it/adapter/adapter.safetensors");
    const std::size_t at = weights.find("self_prefix");
    REQUIRE(at != std::string::npos);
    place.write("it/adapter/adapter.safetensors", weights.replace(at, 11, "cros_prefix"));
    CHECK(has(refusal(), "only prefixes of self-attention (self_prefix) are supported"));
    // A body that has no norm after its embeddings, and one that counts positions from its tokens.
    const auto with_body = [&](const std::string& fixture, const std::string& body) {
        const Ran ran = place.run({"adapter", "inspect", (kFixtures / fixture / "adapter").string(), "--body", body});
        CHECK(ran.status == 1);
        return ran.err;
    };
    const std::string models = HEKLA_SOURCE_DIR "/tests/fixtures/models/";
    CHECK(has(with_body("hub-prompt-bert", models + "gpt2-clm"), "acts nowhere"));
    CHECK(has(with_body("hub-prompt-bert", models + "roberta-mlm"), "counts positions from its tokens"));
    CHECK(has(with_body("hub-prefix-gpt2", models + "t5-span-corruption"), "not supported in encoder-decoders"));
    // PEFT has neither.
    for (const char* fixture : {"hub-prefix-gpt2", "hub-prompt-bert"}) {
        const Ran ran = place.run({"adapter", "convert", (kFixtures / fixture / "adapter").string(), "-o", "no"});
        CHECK(ran.status == 1);
        CHECK(has(ran.err, "PEFT has no p"));
        CHECK_FALSE(place.exists("no"));
    }
}

} // namespace virtual_tokens_test
