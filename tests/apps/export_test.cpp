// hekla export, and running an exported file with the program alone: without plugins, the shader compiler and
// hekla-describe next to it.
#include "program.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

const char* const kExportRecipe = R"([model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 32
[data]
valid_fraction = 0.0
train = "text.txt"
[tokenizer]
kind = "bpe"
vocab_size = 300
[train]
max_steps = 4
context_length = 16
per_device_train_batch_size = 4
eval_steps = 0
save_steps = 0
[output]
dir = "run"
)";

void train(const Place& place) {
    std::string text;
    for (int i = 0; i < 200; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("recipe.toml", kExportRecipe);
    succeed(place.run({"train", "recipe.toml"}));
}

std::vector<std::string> generating(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"--no-cache", "generate", model, "--json", "--seed", "3"};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--max-new-tokens") == more.end()) // past the context, which slides
        words.insert(words.end(), {"--max-new-tokens", "40"});
    return words;
}

} // namespace

TEST_CASE("a model with adapter slots is exported and planned" * doctest::test_suite("long")) {
    const Place place;
    train(place);
    const std::vector<std::string> tune{
        "train",           "recipe.toml", "model.from=run",          "tokenizer.from=run",
        "adapter.id=lora", "adapter.r=3", "train.learning_rate=0.1", "train.max_steps=20"};
    succeed(place.run(joined(tune, {"output.dir=tuned", "adapter.target_modules=[\"c_attn\"]"})));
    succeed(place.run(joined(tune, {"output.dir=dora", "adapter.use_dora=true"})));
    const auto exported = [&](const std::vector<std::string>& more) {
        return place.run(joined({"export", "run", "slots.hekla"}, more));
    };
    const Ran made = succeed(exported({"--adapter-slots", "2", "--adapter-rank", "3", "--adapter-targets", "c_attn"}));
    // Two layers, each A [2, 3, 16] and B [2, 48, 3] in places of 256 elements, with the guard of an allocation.
    CHECK_MESSAGE(has(made.out, "  2 adapter slots of rank 3 at 2 linear layers: 22.0 KiB of device memory"), made.out);
    constexpr int64_t kSlots = 2 * (256 + 512) * 4 + 16384;
    const std::vector<std::string> rows{"--prompt",  "line ",   "--prompt",       "line ", "--greedy",
                                        "--adapter", "a=tuned", "--adapter-rows", "a,-"};
    const auto texts = [&](const std::string& model, const std::vector<std::string>& more) {
        return json::parse(succeed(place.run(generating(model, more))).out)["rows"];
    };
    const json own = texts("run", rows);
    CHECK(own[0] != own[1]);
    CHECK(texts("slots.hekla", rows) == own);
    CHECK(texts("slots.hekla", {"--prompt", "line ", "--greedy"})[0] == own[1]);
    const auto refused = [](const Ran& ran, const char* why) {
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, why), ran.err);
    };
    const auto refuses_to_generate = [&](const std::string& model, const std::vector<std::string>& more,
                                         const char* why) {
        refused(place.run(generating(model, joined({"--prompt", "line "}, more))), why);
    };
    refuses_to_generate("slots.hekla", {"--adapter", "a=dora", "--adapter-rows", "a"},
                        "adapter 'a': dora: it is a DoRA, which changes the lengths of weights");
    refuses_to_generate("slots.hekla", {"--adapter", "a=tuned"},
                        "slots.hekla: is an exported file, where adapters are in slots");
    refused(place.run({"export", "tuned", "other.hekla", "--adapter-slots", "2"}),
            "tuned: adapter slots: the model's folder is that of an adapter; give the folder of its body");
    CHECK(!fs::exists(place.path("other.hekla")));
    refused(place.run({"export", "run", "other.hekla", "--adapter-slots", "2", "--adapter-targets", "c_attm"}),
            "run: no linear layer of the model is among the adapter targets");
    CHECK(!fs::exists(place.path("other.hekla")));
    succeed(place.run({"export", "run", "plain.hekla"}));
    refuses_to_generate("plain.hekla", {"--adapter", "a=tuned", "--adapter-rows", "a"},
                        "plain.hekla: was exported without adapter slots");

    const auto weights = [&](const std::vector<std::string>& more) {
        const std::vector<std::string> all = joined(joined({"generate"}, more), {"--plan", "2x20", "--json"});
        return json::parse(succeed(place.run(all)).out)["weights"].get<int64_t>();
    };
    const std::vector<std::string> slots{"--adapter-slots", "2", "--adapter-rank", "3"};
    const int64_t body = weights({"run"});
    CHECK(weights({"slots.hekla"}) == body);
    CHECK(weights(joined({"run", "--adapter-targets", "c_attn"}, slots)) == body + kSlots);
    CHECK(weights(joined({"slots.hekla"}, slots)) == body + kSlots);
    CHECK(weights({"slots.hekla", "--adapter", "a=tuned", "--adapter-rows", "a,-"}) == body + kSlots);
    CHECK(weights({"run", "--adapter", "a=tuned"}) > body);
    CHECK(weights({"run", "--adapter", "a=tuned", "--plan-for", "desktop"}) > body);
    refused(place.run({"generate", "run", "--plan", "2"}), "--plan is '2'; expected ROWSxTOKENS");
    refused(place.run({"generate", "slots.hekla", "--plan", "2x20", "--adapter-slots", "3"}),
            "its adapter slots were exported with --adapter-slots 2, not 3");
}

TEST_CASE("an exported model generates and embeds like its folder, without the rest of Hekla") {
    const Place place;
    train(place);
    const Ran exported = succeed(place.run({"export", "run", "game.hekla"}));
    CHECK(has(exported.out, "to embed and generate with rows of up to 32 tokens"));
    CHECK(has(exported.out, "without predict, eval and train: "));

    const Ran shown = succeed(place.run({"inspect", "game.hekla"}));
    CHECK(has(shown.out, "gpt2, exported by Hekla 0.1.0 to embed and generate with rows of up to 32 tokens; complete"));
    CHECK(has(shown.out, "transformer.wte.weight"));

    fs::create_directories(place.path("alone"));
    const fs::path alone = place.path("alone") / "hekla";
    fs::copy_file(HEKLA_PROGRAM, alone);
    const Ran folder = place.run_copy(alone, generating("run"));
    CHECK(folder.status == 1); // no plugin exists
    CHECK(has(folder.err, "gpt2"));

    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"--prompt", "line 7"},
          {"--prompt", "line 7", "--prompt", "a text that is long enough, and longer", "--greedy"},
          {"--prompt", "of", "--beams", "3", "--max-new-tokens", "20"},
          {"--prompt", "line", "--dtype", "bf16"},
          {"--prompt", "line", "--max-new-tokens", "5", "--reference"},
          {}}) {
        const json by_folder = json::parse(succeed(place.run(generating("run", more))).out);
        const json by_file = json::parse(succeed(place.run_copy(alone, generating("game.hekla", more))).out);
        CHECK(by_folder["rows"] == by_file["rows"]);
        CHECK(by_folder["new_tokens"] == by_file["new_tokens"]);
    }
    for (const char* port : {"hidden", "layer.1.hidden", "logits"}) {
        std::vector<std::string> embed{"embed", "run", "line 7", "of a text", "--port", port};
        const Ran by_folder = succeed(place.run(embed));
        embed[1] = "game.hekla";
        CHECK(succeed(place.run_copy(alone, embed)).out == by_folder.out);
    }
}

TEST_CASE("unsupported uses of an exported model are errors") {
    const Place place;
    train(place);
    succeed(place.run({"export", "run", "game.hekla", "--length", "20"}));
    const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
        const Ran ran = place.run(words);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(has(ran.err, why));
    };
    refused({"predict", "game.hekla", "--text", "line"}, "use the folder that it was exported from");
    refused({"train", "recipe.toml", "model.from=game.hekla"}, "exported from");
    refused({"export", "game.hekla", "again.hekla"}, "is exported already");
    refused({"export", "run", "."}, "is a folder");
    refused({"export", "run", "long.hekla", "--length", "33"}, "32");
    CHECK(!place.exists("long.hekla"));
    refused({"embed", "game.hekla", place.read("text.txt").substr(0, 900)}, "--length N");
    place.write("broken.hekla", place.read("game.hekla").substr(0, 5000));
    refused({"generate", "broken.hekla"}, "broken.hekla");
}
