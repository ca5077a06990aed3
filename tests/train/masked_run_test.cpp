// Trainings with a mask: pruned weights and their moments are exactly zero in every checkpoint, the others are what the
// same optimizer makes of them, and a run starts from the weights of another.
#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"
#include "program/harness.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"
#include "train/update/weight_mask.hpp"

#include <algorithm>
#include <bit>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace masked_run_test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Place {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    Bench bench;

    Place() {
        std::string text;
        for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog and runs away\n";
        REQUIRE(write_file_atomically(folder.path() / "text.txt", text).ok());
    }
    fs::path path(const std::string& name) const { return folder.path() / name; }
    Result<Recipe> recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
        return parse_recipe(
            "[model]\narchitecture = \"gpt2\"\nn_layer = 1\nn_head = 2\nn_embd = 16\nn_positions = 8\n"
            "[data]\nvalid_fraction = 0.0\ntrain = \"" +
                path("text.txt").string() +
                "\"\n[train]\nmax_steps = 6\ncontext_length = 8\nper_device_train_batch_size = 2\n"
                "gradient_accumulation_steps = 2\nsave_steps = 2\nsave_total_limit = 9\neval_steps = 0\n"
                "learning_rate = 0.02\nweight_decay = 0.3\nmax_grad_norm = 0.05\n[output]\ndir = \"" +
                path(run).string() + "\"\n",
            "r.toml", overrides);
    }
    Result<TrainerResult> train(const std::string& run, const std::vector<std::string>& overrides = {},
                                const TrainerEvents& events = {}) {
        HK_ASSIGN(const Recipe read, recipe(run, overrides));
        HK_ASSIGN(const auto opened, TrainingRun::create(read, registry, *bench, {}, events, Purpose::train));
        return TrainingLoop(*opened).run();
    }
    // Prunes every third prunable weight; returns the override that names the file.
    std::string third_mask(const std::string& name) const {
        auto mask = TrainingRun::prunable(recipe("none").value(), registry, {}, {});
        REQUIRE_MESSAGE(mask.ok(), mask.message());
        for (auto& [parameter, tensor] : mask->tensors())
            for (std::size_t i = 0; i < tensor.kept.size(); ++i) tensor.kept[i] = i % 3 == 0 ? 0 : 1;
        REQUIRE(mask->write(path(name)).ok());
        return "prune.from_mask=" + path(name).string();
    }
    std::string full_mask(const std::string& name, const std::vector<std::string>& overrides = {}) const {
        auto mask = TrainingRun::prunable(recipe("none", overrides).value(), registry, {}, {});
        REQUIRE_MESSAGE(mask.ok(), mask.message());
        REQUIRE(mask->write(path(name)).ok());
        return "prune.from_mask=" + path(name).string();
    }
    std::vector<float> values(const fs::path& file, const std::string& name) const {
        const auto stored = model::SafetensorsFile::open(file);
        REQUIRE_MESSAGE(stored.ok(), stored.message());
        const auto view = stored->get(name);
        REQUIRE_MESSAGE(view.ok(), view.message());
        std::vector<float> all(view.value()->bytes.size() / sizeof(float));
        REQUIRE(model::load_float32(*view.value(), all).ok());
        return all;
    }
    std::string content(const std::string& name) const {
        const auto text = read_file(path(name));
        REQUIRE_MESSAGE(text.ok(), text.message());
        return text.value();
    }
    // Counts pruned weights that are not +0 in a file of weights or moments, and kept ones that are 0.
    std::pair<int64_t, int64_t> wrong(const fs::path& file, const std::string& prefix) const {
        const auto mask = WeightMask::read(file.parent_path().parent_path() / kMaskFile);
        REQUIRE_MESSAGE(mask.ok(), mask.message());
        int64_t not_zero = 0, zero = 0;
        for (const auto& [name, tensor] : mask->tensors()) {
            const std::vector<float> all = values(file, prefix + name);
            for (std::size_t i = 0; i < all.size(); ++i)
                (tensor.kept[i] == 0 ? not_zero : zero) +=
                    (std::bit_cast<uint32_t>(all[i]) != 0) == (tensor.kept[i] == 0) ? 1 : 0;
        }
        return {not_zero, zero};
    }
};

} // namespace

TEST_CASE("pruned weights and their moments are exactly zero in every checkpoint, also of a resumed run") {
    Place place;
    const std::string mask = place.third_mask("third.safetensors");
    for (const std::string& more :
         std::vector<std::string>{"train.optim=adamw", "train.optim=sgd", "train.fp16=true", "train.ema_decay=0.9"}) {
        CAPTURE(more);
        if (more == "train.fp16=true" && !place.bench->limits().storage16) continue;
        const std::string run = more.substr(more.find('=') + 1) + "-run", again = run + "-again";
        const auto done = place.train(run, {mask, more});
        REQUIRE_MESSAGE(done.ok(), done.message());
        for (const int step : {2, 4, 6}) {
            CAPTURE(step);
            const fs::path checkpoint = place.path(run) / fmt::format("checkpoint-{}", step);
            CHECK(place.wrong(checkpoint / "model.safetensors", "") == std::pair<int64_t, int64_t>{0, 0});
            CHECK(place.wrong(checkpoint / "optimizer.safetensors", "exp_avg.").first == 0);
            if (more != "train.optim=sgd")
                CHECK(place.wrong(checkpoint / "optimizer.safetensors", "exp_avg_sq.").first == 0);
            if (more == "train.ema_decay=0.9") CHECK(place.wrong(checkpoint / "ema.safetensors", "").first == 0);
        }
        // The folder of the model has the mask, which is the one that was given.
        CHECK(place.content(run + "/mask.safetensors") == place.content("third.safetensors"));
        CHECK(std::ranges::count(place.values(place.path(run) / "model.safetensors", "transformer.h.0.mlp.c_fc.weight"),
                                 0.0f) == (16 * 64 + 2) / 3);

        int64_t at = 0;
        TrainerEvents stop_at_three;
        stop_at_three.step = [&](const train::StepRecord& report) { at = report.step; };
        stop_at_three.stop = [&] { return at >= 3; };
        const auto stopped = place.train(again, {mask, more}, stop_at_three);
        REQUIRE_MESSAGE(stopped.ok(), stopped.message());
        CHECK(stopped->stopped);
        const auto resumed = place.train(again, {mask, more});
        REQUIRE_MESSAGE(resumed.ok(), resumed.message());
        for (const char* file : {"checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors"})
            CHECK(place.content(run + "/" + file) == place.content(again + "/" + file));
    }
}

TEST_CASE("a mask that keeps every weight changes no bit; rewound to a step, it continues the dense run") {
    Place place;
    const std::string rewind = "prune.rewind_step=3";
    REQUIRE(place.train("dense", {rewind, "train.save_steps=0"}).ok());
    CHECK(fs::exists(place.path("dense/checkpoint-3")));
    const std::string full = place.full_mask("full.safetensors");
    REQUIRE(place.train("masked", {full, rewind}).ok());
    REQUIRE(place.train("rewound", {full, rewind, "prune.weights_from=" + place.path("dense").string()}).ok());
    for (const char* file : {"checkpoint-6/model.safetensors", "checkpoint-6/optimizer.safetensors"}) {
        CHECK(place.content(std::string("dense/") + file) == place.content(std::string("masked/") + file));
        CHECK(place.content(std::string("dense/") + file) == place.content(std::string("rewound/") + file));
    }
    CHECK(!fs::exists(place.path("rewound/checkpoint-3"))); // the rewound run begins after step 3
    CHECK(!fs::exists(place.path("rewound/checkpoint-2")));
    CHECK(has(place.content("rewound/train_log.jsonl"), "{\"step\":4,"));

    // A mask: kept weights are those of the checkpoint, pruned ones are zero, before the first step.
    const std::string third = place.third_mask("third.safetensors");
    const std::string from = "prune.weights_from=" + place.path("dense").string();
    const auto start = [&](const std::vector<std::string>& more) {
        std::vector<std::string> overrides{third, from};
        overrides.insert(overrides.end(), more.begin(), more.end());
        const auto read = place.recipe("start", overrides);
        REQUIRE_MESSAGE(read.ok(), read.message());
        auto opened = TrainingRun::create(read.value(), place.registry, *place.bench, {}, {});
        REQUIRE_MESSAGE(opened.ok(), opened.message());
        const auto weights = opened.value()->store().download("transformer.h.0.mlp.c_fc.weight");
        REQUIRE_MESSAGE(weights.ok(), weights.message());
        return std::vector<float>(weights->begin(), weights->end());
    };
    const auto masked = [&](const fs::path& file) {
        std::vector<float> all = place.values(file, "transformer.h.0.mlp.c_fc.weight");
        for (std::size_t i = 0; i < all.size(); i += 3) all[i] = 0.0f;
        return all;
    };
    CHECK(start({rewind}) == masked(place.path("dense/checkpoint-3/model.safetensors")));
    CHECK(start({"prune.reinitialize=none"}) == masked(place.path("dense/model.safetensors")));
    const std::vector<float> initial = start({}), other = start({"prune.reinitialize=random"});
    CHECK(initial != other);
    CHECK(std::ranges::count(other, 0.0f) == std::ranges::count(initial, 0.0f));
    CHECK(start({"prune.reinitialize=random"}) == other);
}

TEST_CASE("bad masks and starts are one clear error, and no file is left") {
    Place place;
    const std::string third = place.third_mask("third.safetensors");
    const auto refused = [&](const std::vector<std::string>& overrides) {
        const auto result = place.train("bad", overrides);
        REQUIRE(!result.ok());
        CHECK(!fs::exists(place.path("bad")));
        return result.message();
    };
    CHECK(has(refused({"prune.from_mask=" + place.path("none.safetensors").string()}), "none.safetensors"));
    CHECK(has(refused({third, "model.n_embd=32"}), "the mask of 'transformer.h.0.attn.c_attn.weight' is [16, 48], and "
                                                   "the parameter is [32, 96]"));
    CHECK(has(refused({third, "train.freeze=[\"layers:0\"]"}), "is frozen, and only trained parameters can be masked"));
    const std::string deeper = place.full_mask("deeper.safetensors", {"model.n_layer=2"});
    CHECK(has(refused({deeper}), "tensor \"transformer.h.1.attn.c_attn.weight\" [16, 48] matches no parameter of the "
                                 "model; the nearest is 'transformer.h.0.attn.c_attn.weight'"));
    CHECK(has(refused({third, "prune.rewind_step=3", "prune.weights_from=" + place.path("nowhere").string()}),
              "nowhere"));

    // A run keeps its mask: another one is refused when it resumes.
    REQUIRE(place.train("run", {third, "train.max_steps=2"}).ok());
    const std::string full = place.full_mask("full.safetensors");
    CHECK(has(place.train("run", {full}).message(), "was made with prune.from_mask = "));
    REQUIRE(write_file_atomically(place.path("run") / kMaskFile, place.content("full.safetensors")).ok());
    CHECK(has(place.train("run", {third}).message(), "was made with another mask than"));
}

} // namespace masked_run_test
