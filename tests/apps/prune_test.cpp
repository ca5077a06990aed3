// hekla prune: rounds with exact shares, controls, seeds, reports, and errors that leave no files.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace prune_test {
namespace {

namespace fs = std::filesystem;

const char* const kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
[data]
train = "text.txt"
[train]
max_steps = 6
context_length = 16
per_device_train_batch_size = 4
gradient_accumulation_steps = 2
weight_decay = 0.3
max_grad_norm = 0.1
learning_rate = 0.01
eval_steps = 3
eval_batches = 2
save_steps = 2
[prune]
rounds = 2
[output]
dir = "out"
)";

void write_files(const Place& place) {
    std::string text;
    for (int i = 0; i < 60; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("recipe.toml", kRecipe);
}

// The tensors of a safetensors file as bytes.
std::map<std::string, std::string> tensors(const Place& place, const std::string& name) {
    const std::string file = place.read(name);
    uint64_t header = 0;
    REQUIRE(file.size() > sizeof header);
    std::memcpy(&header, file.data(), sizeof header);
    const json table = json::parse(file.substr(sizeof header, header));
    std::map<std::string, std::string> all;
    for (const auto& [tensor, value] : table.items()) {
        if (tensor == "__metadata__") continue;
        const auto begin = value["data_offsets"][0].get<std::size_t>(),
                   end = value["data_offsets"][1].get<std::size_t>();
        all[tensor] = file.substr(sizeof header + header + begin, end - begin);
    }
    return all;
}

// Checks that every weight is exactly +0 where the mask of the folder is 0; returns how many weights are kept.
int64_t check_folder(const Place& place, const std::string& folder) {
    CAPTURE(folder);
    const auto masks = tensors(place, folder + "/mask.safetensors"),
               weights = tensors(place, folder + "/model.safetensors");
    int64_t kept = 0, wrong = 0;
    for (const auto& [name, mask] : masks) {
        const std::string& bytes = weights.at(name);
        REQUIRE(bytes.size() == 4 * mask.size());
        CHECK(!has(name, "wte"));
        CHECK(!has(name, "bias"));
        for (std::size_t i = 0; i < mask.size(); ++i) {
            kept += mask[i];
            if (mask[i] == 0 && bytes.compare(4 * i, 4, std::string(4, '\0')) != 0) ++wrong;
        }
    }
    CHECK(wrong == 0);
    return kept;
}

constexpr int64_t kWeights = 16 * 48 + 16 * 16 + 16 * 64 + 64 * 16;

} // namespace

TEST_CASE("prune: rounds with exact shares, a table, JSON, a picture and a page; a finished round is not repeated") {
    const Place place;
    write_files(place);
    const Ran first = succeed(place.run({"prune", "recipe.toml", "--controls"}));
    CHECK(has(first.out, "round  run                weights left   share      loss      best  at step\n"));
    CHECK(has(first.out, "    0  dense                     3,072  100.0%"));
    CHECK(has(first.out, "    2  ticket                    1,966   64.0%"));
    CHECK(has(first.out, "    2  random weights            1,966   64.0%"));
    CHECK(has(first.err, "round 1 of 2: 80.0% of the weights, out/round-01"));
    int64_t left = kWeights;
    for (const std::string& round : {std::string("out/round-01"), std::string("out/round-02")}) {
        left -= std::llround(0.2 * static_cast<double>(left));
        for (const char* kind : {"", "-random-mask", "-random-init"}) CHECK(check_folder(place, round + kind) == left);
        CHECK(place.read(round + "/mask.safetensors") == place.read(round + "-random-init/mask.safetensors"));
        CHECK(place.read(round + "/mask.safetensors") != place.read(round + "-random-mask/mask.safetensors"));
    }
    CHECK(!place.exists("out/round-00/mask.safetensors"));
    for (const char* file : {"tickets.svg", "tickets.html", "tickets.json", "recipe.toml"})
        CHECK(place.exists(std::string("out/") + file));
    const std::string page = place.read("out/tickets.html");
    CHECK(has(page, "<svg"));
    CHECK(has(page, "random mask"));
    CHECK(!has(page, "http://localhost"));

    // Nothing is trained again, and one more round continues.
    const Ran again = succeed(place.run({"prune", "recipe.toml", "--controls", "--json"}));
    CHECK(!has(again.err, "compiling"));
    const json results = json::parse(again.out);
    REQUIRE(results["rounds"].size() == 7);
    CHECK(results["rounds"][0]["share"] == 1.0);
    CHECK(results["rounds"][1]["kept"] == kWeights - std::llround(0.2 * kWeights));
    CHECK(results["rounds"][1]["runs"][0]["steps"] == 6);
    CHECK(json::parse(place.read("out/tickets.json")) == results);
    const Ran more = succeed(place.run({"prune", "recipe.toml", "--rounds", "3"}));
    CHECK(has(more.err, "round 3 of 3: 51.2%"));
    CHECK(!has(more.err, "round 2 of 3"));
    CHECK(check_folder(place, "out/round-03") == left - std::llround(0.2 * static_cast<double>(left)));

    // A ticket is an ordinary run: it is evaluated, trained further and opened like any other.
    succeed(place.run({"train", "out/round-02/recipe.toml", "train.max_steps=8"}));
    CHECK(check_folder(place, "out/round-02") == left);
    succeed(place.run({"eval", "out/round-02/recipe.toml"}));
    succeed(place.run({"generate", "out/round-02", "--prompt", "line", "--max-new-tokens", "3"}));

    // Other settings of the same folder are refused.
    const Ran other = place.run({"prune", "recipe.toml", "prune.amount=0.3"});
    CHECK(other.status == 1);
    CHECK(has(other.err, "was made with prune.amount = 0.2, this recipe has 0.3"));
    const Ran longer = place.run({"prune", "recipe.toml", "train.max_steps=9"});
    CHECK(longer.status == 1);
    CHECK(has(longer.err, "out: has rounds of 6 steps (0 epochs), this recipe has 9 (0)"));
    place.write("out/round-01/ticket.json", "{}");
    const Ran damaged = place.run({"prune", "recipe.toml"});
    CHECK(damaged.status == 1);
    CHECK(has(damaged.err, "round-01/ticket.json: is not the result of a round"));
}

TEST_CASE("prune: rewinding to a step, fine-tuning, random values, layers and seeds" * doctest::test_suite("long")) {
    const Place place;
    write_files(place);
    succeed(place.run({"prune", "recipe.toml", "--rounds", "1", "prune.rewind_step=3", "output.dir=late",
                       "train.save_total_limit=1"}));
    CHECK(place.exists("late/round-00/checkpoint-3"));
    CHECK(has(place.read("late/round-01/train_log.jsonl").substr(0, 10), "{\"step\":4,"));
    check_folder(place, "late/round-01");
    for (const char* start : {"none", "random"}) {
        succeed(place.run({"prune", "recipe.toml", "--rounds", "1", std::string("prune.reinitialize=") + start,
                           std::string("output.dir=") + start}));
        check_folder(place, std::string(start) + "/round-01");
    }
    succeed(place.run({"prune", "recipe.toml", "--rounds", "1", "prune.scope=layer", "prune.mask=random",
                       "prune.exclude=[\"embeddings\", \"*c_fc*\"]", "output.dir=layer"}));
    for (const auto& [name, mask] : tensors(place, "layer/round-01/mask.safetensors")) {
        CHECK(!has(name, "c_fc"));
        CHECK(std::ranges::count(mask, '\0') == std::llround(0.2 * static_cast<double>(mask.size())));
    }
    const Ran seeds =
        succeed(place.run({"prune", "recipe.toml", "--rounds", "1", "--seeds", "2", "--json", "output.dir=seeds"}));
    const json results = json::parse(seeds.out);
    REQUIRE(results["rounds"].size() == 2);
    CHECK(results["rounds"][1]["runs"].size() == 2);
    CHECK(results["rounds"][1]["runs"][1]["seed"] == 1338);
    CHECK(place.exists("seeds/seed-1338/round-01/model.safetensors"));
    // A mask of one experiment begins another.
    const Ran further = succeed(place.run(
        {"prune", "recipe.toml", "--rounds", "1", "prune.from_mask=late/round-01/mask.safetensors", "output.dir=on"}));
    CHECK(has(further.out, "    0  given mask                2,458   80.0%"));
    CHECK(check_folder(place, "on/round-00") == 2458);
    CHECK(check_folder(place, "on/round-01") == 2458 - 492);
}

TEST_CASE("prune: bad input is one clear error, and no file is left") {
    const Place place;
    write_files(place);
    const auto fails = [&](const std::vector<std::string>& change, const char* part) {
        std::vector<std::string> words{"prune", "recipe.toml"};
        words.insert(words.end(), change.begin(), change.end());
        const Ran ran = place.run(words);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(has(ran.err, part));
        CHECK(std::ranges::count(ran.err.substr(ran.err.find("hekla: error:")), '\n') == 1);
        CHECK(!place.exists("out"));
    };
    fails({"prune.amount=1"}, "prune.amount: 1 is outside 0.001 to 0.999");
    fails({"prune.amont=0.1"}, "[prune] has no key 'amont'; did you mean 'amount'?");
    fails({"prune.score=snip"}, "prune.score: 'snip' is not one of magnitude");
    fails({"prune.exclude=[\"*\"]"}, "[prune] leaves nothing to prune");
    fails({"prune.exclude=[\"transformer.h.7.*\"]"}, "prune.exclude: no parameter matches 'transformer.h.7.*'");
    fails({"prune.from_mask=none.safetensors"}, "none.safetensors");
    fails({"prune.weights_from=here", "prune.from_mask=x"}, "is set by `hekla prune` for each round");
    fails({"prune.rewind_step=6"}, "prune.rewind_step = 6 must be below train.max_steps = 6");
    fails({"train.eval_steps=0"}, "the rounds are compared by their evaluations");
    fails({"data.train=missing.txt"}, "missing.txt");
    fails({"model.from=nowhere", "adapter.id=lora"}, "hekla prune cannot be used with adapters");
    CHECK(place.run({"prune", "recipe.toml", "--rounds", "0"}).status == 2);
    CHECK(place.run({"prune"}).status == 2);
}

} // namespace prune_test
