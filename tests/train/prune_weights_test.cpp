// Which weights are pruned: exact numbers, ties, exclusions, masks from files, and bad masks.
#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/update/prune_weights.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace prune_weights_test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Stored {
    std::string name;
    std::vector<int64_t> dims;
    std::vector<float> values;
};

void write(const fs::path& file, const std::vector<Stored>& tensors) {
    std::vector<model::TensorSource> sources;
    for (const Stored& one : tensors) {
        model::TensorView view;
        view.name = one.name;
        view.dims = one.dims;
        view.bytes = std::as_bytes(std::span(one.values));
        sources.push_back(model::source_of(view));
    }
    REQUIRE(model::write_safetensors_file(file, sources).ok());
}

Recipe recipe_with(const std::vector<std::string>& overrides) {
    auto recipe = parse_recipe("[model]\narchitecture = \"gpt2\"\n[data]\ntrain = \"a\"\n[output]\ndir = \"b\"\n",
                               "r.toml", overrides);
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    return recipe.take();
}

// Two parameters with values of few magnitudes, so that many are equal.
struct Model {
    TestFolder folder;
    std::vector<Stored> tensors{{"a", {7, 9}, {}}, {"b", {40, 5}, {}}};
    WeightMask mask;

    Model() {
        int next = 3;
        for (Stored& one : tensors) {
            one.values.resize(static_cast<std::size_t>(one.dims[0] * one.dims[1]));
            for (float& value : one.values) {
                next = next * 1103 % 977;
                value = static_cast<float>(next % 11 - 5) * (one.name == "a" ? 0.25f : 0.5f);
            }
            mask.keep_all(one.name, one.dims);
        }
        write(folder.path() / "model.safetensors", tensors);
    }
    model::Weights weights() const {
        auto opened = model::Weights::open(folder.path());
        REQUIRE_MESSAGE(opened.ok(), opened.message());
        return opened.take();
    }
    // The same by sorting: magnitude, then name, then position.
    WeightMask expected(const WeightMask& before, double amount, bool by_layer) const {
        struct Weight {
            float magnitude = 0;
            std::size_t tensor = 0, at = 0;
        };
        WeightMask after = before;
        std::vector<std::vector<Weight>> groups(1);
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            if (by_layer && t > 0) groups.emplace_back();
            for (std::size_t i = 0; i < tensors[t].values.size(); ++i)
                if (before.find(tensors[t].name)->kept[i] != 0)
                    groups.back().push_back({std::abs(tensors[t].values[i]), t, i});
        }
        for (std::vector<Weight>& group : groups) {
            std::ranges::stable_sort(group, {}, &Weight::magnitude);
            const auto count = static_cast<std::size_t>(std::llround(amount * static_cast<double>(group.size())));
            for (std::size_t i = 0; i < count; ++i)
                after.tensors().at(tensors[group[i].tensor].name).kept[group[i].at] = 0;
        }
        return after;
    }
};

} // namespace

TEST_CASE("the smallest weights are pruned, exactly as many as asked for, and of equal ones the first") {
    const Model model;
    const model::Weights weights = model.weights();
    for (const bool by_layer : {false, true}) {
        CAPTURE(by_layer);
        const Recipe recipe = recipe_with({"prune.amount=0.2", by_layer ? "prune.scope=layer" : "prune.scope=global"});
        WeightMask mask = model.mask;
        int64_t left = mask.weights();
        CHECK(left == 263);
        for (int64_t round = 1; round <= 12; ++round) {
            CAPTURE(round);
            auto next = pruned_further(mask, weights, recipe, round);
            REQUIRE_MESSAGE(next.ok(), next.message());
            CHECK(next->hash() == model.expected(mask, 0.2, by_layer).hash());
            for (const auto& [name, tensor] : next->tensors()) // what is pruned stays pruned
                for (std::size_t i = 0; i < tensor.kept.size(); ++i) CHECK(tensor.kept[i] <= mask.find(name)->kept[i]);
            if (!by_layer) {
                left -= std::llround(0.2 * static_cast<double>(left));
                CHECK(next->kept() == left);
            }
            mask = next.take();
        }
    }
}

TEST_CASE("random masks: exact numbers, the same for the same seed, another for each round") {
    const Model model;
    const model::Weights weights = model.weights();
    const Recipe recipe = recipe_with({"prune.amount=0.5", "prune.mask=random"});
    const auto first = pruned_further(model.mask, weights, recipe, 1);
    REQUIRE_MESSAGE(first.ok(), first.message());
    CHECK(first->kept() == 263 - 132);
    CHECK(pruned_further(model.mask, weights, recipe, 1)->hash() == first->hash());
    CHECK(pruned_further(model.mask, weights, recipe, 2)->hash() != first->hash());
    const Recipe other = recipe_with({"prune.amount=0.5", "prune.mask=random", "train.seed=7"});
    CHECK(pruned_further(model.mask, weights, other, 1)->hash() != first->hash());

    const Recipe by_score = recipe_with({"prune.amount=0.5"});
    const auto ticket = pruned_further(model.mask, weights, by_score, 1);
    REQUIRE_MESSAGE(ticket.ok(), ticket.message());
    const WeightMask mixed = shuffled(ticket.value(), 5);
    CHECK(mixed.hash() != ticket->hash());
    CHECK(mixed.hash() == shuffled(ticket.value(), 5).hash());
    CHECK(mixed.hash() != shuffled(ticket.value(), 6).hash());
    for (const auto& [name, tensor] : ticket->tensors()) CHECK(mixed.find(name)->kept_count() == tensor.kept_count());
}

TEST_CASE("weights that cannot be pruned are an error") {
    Model model;
    const Recipe recipe = recipe_with({"prune.amount=0.001"});
    CHECK(pruned_further(model.mask, model.weights(), recipe, 3).message() ==
          "round 3: prune.amount = 0.001 of the 263 weights that are left prunes none of them: choose fewer rounds");
    const Recipe half = recipe_with({"prune.amount=0.5"});
    model.tensors[1].values[17] = std::nanf("");
    write(model.folder.path() / "model.safetensors", model.tensors);
    CHECK(has(pruned_further(model.mask, model.weights(), half, 1).message(), "element 17 of 'b' is nan"));
    model.tensors[1].dims = {200};
    write(model.folder.path() / "model.safetensors", model.tensors);
    CHECK(has(pruned_further(model.mask, model.weights(), half, 1).message(), "'b' is [200], and its mask is [40, 5]"));
    model.tensors.pop_back();
    write(model.folder.path() / "model.safetensors", model.tensors);
    CHECK(pruned_further(model.mask, model.weights(), half, 1).code() == Code::not_found);
}

TEST_CASE("prunable: trained parameters of two or more dimensions that are not excluded") {
    std::vector<program::ParameterEntry> table{
        {"wte.weight", {10, 4}}, {"h.0.attn.weight", {4, 4}}, {"h.0.attn.bias", {4}},   {"h.1.attn.weight", {4, 4}},
        {"ln_f.weight", {4}},    {"lm_head.weight", {10, 4}}, {"h.1.frozen", {4, 4, 2}}};
    table.back().trained = false;
    std::set<std::string> body;
    for (const program::ParameterEntry& entry : table) body.insert(entry.name);
    body.erase("lm_head.weight");
    const auto names = [&](const std::vector<std::string>& overrides) {
        const auto mask = prunable_weights(recipe_with(overrides), table, body);
        if (!mask.ok()) return mask.message();
        std::string all;
        for (const auto& [name, tensor] : mask->tensors()) all += name + " ";
        return all;
    };
    CHECK(names({}) == "h.0.attn.weight h.1.attn.weight lm_head.weight ");
    CHECK(names({"prune.exclude=[]"}) == "h.0.attn.weight h.1.attn.weight lm_head.weight wte.weight ");
    CHECK(names({"prune.exclude=[\"body\"]"}) == "lm_head.weight ");
    CHECK(names({"prune.exclude=[\"layers:1\", \"lm_*\"]"}) == "h.0.attn.weight wte.weight ");
    CHECK(names({"prune.exclude=[\"lm_heat.weight\"]"}) ==
          "prune.exclude: no parameter matches 'lm_heat.weight'; the nearest is 'lm_head.weight'");
    CHECK(names({"prune.exclude=[\"layers:0-2\"]"}) ==
          "prune.exclude: 'layers:0-2': expected layers:FIRST-LAST within 0 to 1");
    CHECK(has(names({"prune.exclude=[\"*\"]"}), "[prune] leaves nothing to prune"));
    // A model without embeddings: the default excludes nothing.
    table.erase(table.begin());
    CHECK(names({}) == "h.0.attn.weight h.1.attn.weight lm_head.weight ");
}

TEST_CASE("masks are written and read; bad ones are one clear error") {
    const TestFolder folder;
    const fs::path file = folder.path() / kMaskFile;
    WeightMask mask;
    mask.keep_all("w", {2, 3});
    mask.keep_all("v", {4});
    mask.tensors().at("w").kept[4] = 0;
    REQUIRE(mask.write(file).ok());
    const auto read = WeightMask::read(file);
    REQUIRE_MESSAGE(read.ok(), read.message());
    CHECK(read->hash() == mask.hash());
    CHECK(read->weights() == 10);
    CHECK(read->kept() == 9);

    std::vector<program::ParameterEntry> table{{"w", {2, 3}}, {"v", {4}}, {"x", {5}}};
    CHECK(read->check(table, "m").ok());
    CHECK(read->by_entry(table)[2].empty());
    CHECK(read->by_entry(table)[0].size() == 6);
    table[1].shape = graph::Shape{2, 2};
    CHECK(has(read->check(table, "m").message(), "m: the mask of 'v' is [4], and the parameter is [2, 2]"));
    table[1] = {"v", {4}};
    table[0].trained = false;
    CHECK(has(read->check(table, "m").message(), "m: 'w' is frozen"));
    table[0].name = "ww";
    CHECK(read->check(table, "m").message() ==
          "m: tensor \"w\" [2, 3] matches no parameter of the model; the nearest is 'ww'");

    mask.tensors().at("w").kept[5] = 2;
    REQUIRE(mask.write(file).ok());
    CHECK(has(WeightMask::read(file).message(), "element 5 of \"w\" is 2; expected 0 (pruned) or 1 (kept)"));
    for (auto& [name, tensor] : mask.tensors()) std::ranges::fill(tensor.kept, uint8_t{0});
    REQUIRE(mask.write(file).ok());
    CHECK(has(WeightMask::read(file).message(), "all of its 10 weights are pruned"));
    REQUIRE(WeightMask().write(file).ok());
    CHECK(has(WeightMask::read(file).message(), "has no masks"));
    write(file, {{"w", {2, 3}, {1, 1, 1, 1, 0, 1}}});
    CHECK(has(WeightMask::read(file).message(), "\"w\" is f32 [2, 3]; a mask has u8 tensors"));
    REQUIRE(write_file_atomically(file, "not safetensors").ok());
    CHECK(WeightMask::read(file).code() == Code::corrupt);
    CHECK(!WeightMask::read(folder.path() / "none.safetensors").ok());
}

TEST_CASE("[prune]: bad values are refused with position and key") {
    const auto refused = [](const std::string& lines) {
        return parse_recipe(
                   "[model]\narchitecture = \"gpt2\"\n[data]\ntrain = \"a\"\n[output]\ndir = \"b\"\n[prune]\n" + lines,
                   "r.toml")
            .message();
    };
    CHECK(refused("amout = 0.2\n") == "r.toml:8: [prune] has no key 'amout'; did you mean 'amount'?");
    CHECK(refused("amount = 0\n") == "r.toml:8: prune.amount: 0 is outside 0.001 to 0.999");
    CHECK(refused("amount = 1.5\n") == "r.toml:8: prune.amount: 1.5 is outside 0.001 to 0.999");
    CHECK(refused("amount = nan\n") == "r.toml:8: prune.amount: nan is not a finite number");
    CHECK(refused("rounds = 0\n") == "r.toml:8: prune.rounds: 0 is outside 1 to 1000");
    CHECK(refused("scope = \"row\"\n") == "r.toml:8: prune.scope: 'row' is not one of global, layer");
    CHECK(refused("score = \"taylor\"\n") == "r.toml:8: prune.score: 'taylor' is not one of magnitude");
    CHECK(refused("mask = \"all\"\n") == "r.toml:8: prune.mask: 'all' is not one of score, random");
    CHECK(refused("reinitialize = \"no\"\n") ==
          "r.toml:8: prune.reinitialize: 'no' is not one of rewind, random, none; did you mean 'none'?");
    CHECK(refused("rewind_step = -1\n") == "r.toml:8: prune.rewind_step: -1 is too small, expected 0 or more");
    CHECK(refused("rewind_step = 1000\n") == "r.toml: prune.rewind_step = 1000 must be below train.max_steps = 1000");
    CHECK(refused("rewind_step = 5\nreinitialize = \"random\"\n") ==
          "r.toml: prune.rewind_step = 5 needs prune.reinitialize = \"rewind\", not \"random\": remove one");
    CHECK(has(refused("weights_from = \"x\"\n"), "prune.weights_from needs prune.from_mask"));
    CHECK(has(refused("from_mask = \"x\"\n[adapter]\nid = \"lora\"\n"), "[adapter] needs a trained model"));
}

} // namespace prune_weights_test
