// Every decoder of the Llama family and the newer ones, in its small configuration, crossed with what a training and
// its folder can do.
#include "program.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace decoder_family_test {

using namespace hekla::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

json decoders() {
    json all = json::array();
    for (const char* plugin : {"llama", "gemma4", "qwen3_5", "lfm2"}) {
        const fs::path manifest = fs::path(HEKLA_SOURCE_DIR) / "plugins" / "architectures" / plugin / "manifest.json";
        const json offers = json::parse(content_of(manifest)).at("provides");
        for (const json& one : offers) all.push_back(one);
    }
    return all;
}

// HEKLA_DECODERS names some of them, for a shorter run.
bool wanted(const std::string& id) {
    const char* names = std::getenv("HEKLA_DECODERS");
    return names == nullptr || (" " + std::string(names) + " ").find(" " + id + " ") != std::string::npos;
}

std::string toml(const json& value) {
    std::string text;
    if (value.is_object()) {
        for (const auto& [key, member] : value.items())
            text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, toml(member));
        return "{" + text + "}";
    }
    if (value.is_array()) {
        for (const json& element : value) text += (text.empty() ? "" : ", ") + toml(element);
        return "[" + text + "]";
    }
    return value.dump();
}

std::string recipe_of(const json& decoder) {
    std::string recipe = fmt::format("[model]\narchitecture = {}\n", decoder.at("id").dump());
    for (const auto& [key, value] : decoder.at("check").at("config").items())
        recipe += fmt::format("{} = {}\n", key, toml(value));
    return recipe + R"([data]
train = "text.txt"
[tokenizer]
kind = "char"
[objective]
id = "clm"
[head]
id = "lm"
[train]
max_steps = 6
context_length = 24
per_device_train_batch_size = 4
eval_steps = 3
eval_batches = 2
save_steps = 3
learning_rate = 5e-3
[output]
dir = "run"
)";
}

std::vector<std::string> texts(const Place& place, const std::string& model, const Arguments& more) {
    const Ran ran =
        succeed(place.run(joined({"generate", model, "--greedy", "--max-new-tokens", "40", "--json"}, more)));
    const json report = json::parse(ran.out);
    std::vector<std::string> all;
    for (const json& row : report.at("rows")) all.push_back(row.at("text"));
    return all;
}

} // namespace

TEST_SUITE("long") {
    TEST_CASE("decoders of the family: resume, ranks, isolation, 16 bits, cache, batch, export, convert, LoRA") {
        for (const json& decoder : decoders()) {
            const std::string id = decoder.at("id");
            CAPTURE(id);
            if (!wanted(id)) continue;
            const Place place;
            std::string text;
            for (int i = 0; i < 400; ++i) text += fmt::format("line {} of the text, and some more words\n", i * i % 97);
            place.write("text.txt", text);
            place.write("recipe.toml", recipe_of(decoder));
            const auto train = [&](const Arguments& more) {
                succeed(place.run(joined({"train", "recipe.toml"}, more)));
            };
            train({});
            const std::string weights = place.read("run/model.safetensors");

            train({"output.dir=resumed"});
            fs::remove_all(place.path("resumed/checkpoint-6"));
            train({"output.dir=resumed"});
            CHECK(place.read("resumed/model.safetensors") == weights);
            train({"output.dir=apart", "plugins.isolate=true"});
            CHECK(place.read("apart/model.safetensors") == weights);
            const Arguments parts{"distributed.parts=2", "train.gradient_accumulation_steps=2"};
            train(joined(parts, {"output.dir=alone"}));
            train(joined(parts, {"output.dir=divided", "--ranks", "2"}));
            CHECK(place.read("divided/model.safetensors") == place.read("alone/model.safetensors"));
            train({"output.dir=half", "train.bf16=true"});

            const Arguments first{"--prompt", "line 1 of the "}, second{"--prompt", "and some"};
            const Arguments both = joined(first, second);
            const std::vector<std::string> written = texts(place, "run", both);
            REQUIRE(written.size() == 2);
            CHECK(texts(place, "run", joined(both, {"--reference"})) == written);
            CHECK(texts(place, "run", first)[0] == written[0]);
            CHECK(texts(place, "run", second)[0] == written[1]);
            CHECK(texts(place, "run", joined(both, {"--isolate-plugins"})) == written);
            succeed(place.run({"export", "run", "run.hekla"}));
            CHECK(texts(place, "run.hekla", both) == written);
            succeed(place.run({"convert", "run", "converted"}));
            CHECK(texts(place, "converted", both) == written);

            // Phi-3's queries, keys and values are one matrix, which PEFT has no default for.
            const Arguments lora{
                "model.from=run",     "tokenizer.kind=from",
                "tokenizer.from=run", "adapter.id=lora",
                "adapter.r=4",        "train.learning_rate=2e-2",
                "output.dir=lora",    id == "phi3" ? R"(adapter.target_modules=["qkv_proj"])" : "adapter.lora_alpha=8"};
            train(lora);
            const std::string adapter = place.read("lora/model.safetensors");
            REQUIRE(!adapter.empty());
            fs::remove_all(place.path("lora/checkpoint-6"));
            train(lora);
            CHECK(place.read("lora/model.safetensors") == adapter);
            succeed(place.run({"adapter", "merge", "lora", "--output", "merged"}));
            CHECK(texts(place, "merged", both) == texts(place, "lora", both));
        }
    }
}

} // namespace decoder_family_test
