// Trainings with [optimizer]: what checkpoints have of its states, bit-exact resume, EMA, accumulation and clipping,
// the bytes of a plan, and what is refused.
#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "program/harness.hpp"
#include "program/parameter_store.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/run/training_plan.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"
#include "train/update/weight_mask.hpp"

#include <algorithm>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace optimizer_run_test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Place {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;
    std::vector<std::string> messages;

    Place() {
        std::string text;
        for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog and runs away\n";
        REQUIRE(write_file_atomically(folder.path() / "text.txt", text).ok());
    }
    fs::path path(const std::string& name) const { return folder.path() / name; }
    Result<Recipe> recipe(const std::string& run, const std::string& optimizer,
                          const std::vector<std::string>& overrides = {}) const {
        return parse_recipe(
            "[model]\narchitecture = \"gpt2\"\nn_layer = 1\nn_head = 2\nn_embd = 16\nn_positions = 8\n"
            "[data]\nvalid_fraction = 0.0\ntrain = \"" +
                path("text.txt").string() +
                "\"\n[train]\nmax_steps = 6\ncontext_length = 8\nper_device_train_batch_size = 2\n"
                "gradient_accumulation_steps = 2\nsave_steps = 2\nsave_total_limit = 9\neval_steps = 0\n"
                "learning_rate = 0.01\nweight_decay = 0.1\nmax_grad_norm = 0.5\n" +
                optimizer + "\n[output]\ndir = \"" + path(run).string() + "\"\n",
            "r.toml", overrides);
    }
    Result<TrainerResult> train(const std::string& run, const std::string& optimizer,
                                const std::vector<std::string>& overrides = {}, TrainerEvents events = {}) {
        HK_ASSIGN(const Recipe read, recipe(run, optimizer, overrides));
        events.message = [this](const std::string& text) { messages.push_back(text); };
        HK_ASSIGN(const auto opened, TrainingRun::create(read, registry, *bench, {}, events, Purpose::train));
        return TrainingLoop(*opened).run();
    }
    std::string content(const std::string& name) const {
        const auto text = read_file(path(name));
        REQUIRE_MESSAGE(text.ok(), text.message());
        return text.value();
    }
    std::vector<std::string> states(const std::string& run) const {
        const auto stored = model::SafetensorsFile::open(path(run) / "checkpoint-6" / "optimizer.safetensors");
        REQUIRE_MESSAGE(stored.ok(), stored.message());
        std::vector<std::string> names;
        for (const model::TensorView& tensor : stored->tensors()) names.push_back(tensor.name);
        return names;
    }
};

constexpr const char* kMuon = "[optimizer]\nname = \"muon\"\nlr = 0.02\nrules = {\"*.attn.c_attn.*\" = \"lion\"}\n"
                              "[optimizer.lion]\nlr = 0.001\nbetas = [0.9, 0.95]\n";

} // namespace

TEST_CASE("a run with several optimizers resumes with the same bits, and its states have names in checkpoints") {
    Place place;
    for (const std::string& more :
         std::vector<std::string>{"train.seed=1", "train.fp16=true", "train.ema_decay=0.9", "train.bf16=true"}) {
        CAPTURE(more);
        if ((more == "train.fp16=true" || more == "train.bf16=true") && !place.bench->limits().storage16) continue;
        const std::string run = more.substr(more.find('.') + 1), again = run + "-again";
        const auto done = place.train(run, kMuon, {more});
        REQUIRE_MESSAGE(done.ok(), done.message());
        int64_t at = 0;
        TrainerEvents stop_at_three;
        stop_at_three.step = [&](const train::StepRecord& report) { at = report.step; };
        stop_at_three.stop = [&] { return at >= 3; };
        const auto stopped = place.train(again, kMuon, {more}, stop_at_three);
        REQUIRE_MESSAGE(stopped.ok(), stopped.message());
        CHECK(stopped->stopped);
        const auto resumed = place.train(again, kMuon, {more});
        REQUIRE_MESSAGE(resumed.ok(), resumed.message());
        for (const char* file : {"checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors"})
            CHECK(place.content(run + "/" + file) == place.content(again + "/" + file));
    }
    const std::vector<std::string> names = place.states("seed=1");
    const auto count = [&](const std::string& prefix) {
        return std::ranges::count_if(names, [&](const std::string& name) { return name.starts_with(prefix); });
    };
    CHECK(std::ranges::count(names, "momentum_buffer.transformer.h.0.mlp.c_fc.weight") == 1);
    CHECK(count("momentum_buffer.") == 3); // attention's second matrix and both of the feed-forward network
    CHECK(std::ranges::count(names, "exp_avg.transformer.h.0.attn.c_attn.bias") == 1);
    CHECK(std::ranges::count(names, "exp_avg_sq.transformer.h.0.attn.c_attn.bias") == 0);
    CHECK(std::ranges::count(names, "exp_avg_sq.transformer.wte.weight") == 1); // a table: adamw
    CHECK(std::ranges::count(names, "state.optimizer.state") == 1);
    CHECK(std::ranges::count_if(place.messages, [](const std::string& text) {
              return text == "optimizer: muon updates 3 parameters, lion 2, adamw 11";
          }) > 0);
}

TEST_CASE("[optimizer] with adamw alone trains the bits of train.optim, and sgd too") {
    Place place;
    for (const char* name : {"adamw", "sgd"}) {
        CAPTURE(name);
        const std::string plain = std::string(name) + "-plain", named = std::string(name) + "-named";
        REQUIRE(place.train(plain, "", {std::string("train.optim=") + name}).ok());
        REQUIRE(place.train(named, std::string("[optimizer]\nname = \"") + name + "\"").ok());
        for (const char* file : {"checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors"})
            CHECK(place.content(plain + "/" + file) == place.content(named + "/" + file));
    }
}

TEST_CASE("the plan of a run with [optimizer] has the bytes that its store takes") {
    Place place;
    const auto read = place.recipe("planned", kMuon);
    REQUIRE_MESSAGE(read.ok(), read.message());
    const auto opened = TrainingRun::create(read.value(), place.registry, *place.bench, {}, {});
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    const auto plan = opened.value()->plan();
    REQUIRE_MESSAGE(plan.ok(), plan.message());
    program::ParameterStore& store = opened.value()->store();
    CHECK(!store.has(program::StoreArena::moment1));
    uint64_t states = 0;
    for (const program::ParameterEntry& entry : store.table())
        for (const char* state : {"momentum_buffer", "exp_avg", "exp_avg_sq"}) {
            const std::string name = std::string("optimizer.") + state + "." + entry.name;
            if (!store.has_state(name)) continue;
            const auto bytes = store.state_bytes(name);
            REQUIRE_MESSAGE(bytes.ok(), bytes.message());
            CHECK(bytes.value() == static_cast<uint64_t>(entry.shape.elements()) * 4);
            states += bytes.value();
        }
    CHECK(states > 0);
    CHECK(plan->estimate.optimizer >= states);
}

TEST_CASE("[optimizer] refuses what it cannot do by name") {
    Place place;
    const auto refused = [&](const std::string& optimizer, const std::vector<std::string>& overrides = {}) {
        const auto result = place.train("bad", optimizer, overrides);
        REQUIRE(!result.ok());
        CHECK(!fs::exists(place.path("bad")));
        CAPTURE(result.message());
        return result.message();
    };
    CHECK(has(refused("[optimizer]\nname = \"moun\""), "muon"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"\nbeta = 1"), "optimizer 'lion' does not know the key 'beta'"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"\nrules = {\"encoder.*\" = \"sgd\"}"),
              "optimizer.rules: no parameter matches 'encoder.*'"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"\n[optimizer.muon]\nlr = 1.0"),
              "[optimizer.muon]: optimizer.rules names no optimizer 'muon'"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"\n[optimizer.lion]\nlr = 1.0"), "write its options in [optimizer]"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"", {"train.optim=sgd"}), "remove train.optim"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"\nlr = \"high\""), "lr is \"high\"; expected a number"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"", {"train.moments_dtype=bfloat16"}),
              "train.moments_dtype = \"bfloat16\" works where one kernel updates all parameters"));
    CHECK(has(refused("[optimizer]\nname = \"lion\"", {"train.moments_memory=system"}), "gives some to 'lion'"));
    CHECK(has(refused("[optimizer]\nname = \"muon\"", {"distributed.parts=2"}),
              "optimizer: muon updates 4 parameters, adamw 12: several ranks or distributed.parts divide"));
    auto mask = TrainingRun::prunable(place.recipe("none", "").value(), place.registry, {}, {});
    REQUIRE_MESSAGE(mask.ok(), mask.message());
    REQUIRE(mask->write(place.path("mask.safetensors")).ok());
    CHECK(has(refused("[optimizer]\nname = \"lion\"", {"prune.from_mask=" + place.path("mask.safetensors").string()}),
              "train the masked network with adamw or sgd"));

    // A run keeps its optimizers; options that change the states are told.
    REQUIRE(place.train("run", "[optimizer]\nname = \"lion\"").ok());
    CHECK(has(place.train("run", "[optimizer]\nname = \"muon\"", {"train.max_steps=8"}).message(),
              "was made with optimizer.name = \"lion\""));
    REQUIRE(place.train("no-momentum", "[optimizer]\nname = \"sgd\"\nmomentum = 0.0\ndampening = 0.1").ok());
    CHECK(has(
        place
            .train("no-momentum", "[optimizer]\nname = \"sgd\"\nmomentum = 0.5\ndampening = 0.1", {"train.max_steps=8"})
            .message(),
        "is missing, and the optimizer of this recipe keeps"));
}

} // namespace optimizer_run_test
