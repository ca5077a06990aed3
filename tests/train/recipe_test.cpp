// Recipes: what is read is written, what is wrong is one error that names its place, and the reference is the table.

#include "base/file.hpp"
#include "base/home_folder.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/recipe/recipe_key.hpp"
#include "train/recipe/recipe_reference.hpp"
#include "train/recipe/recipe_sections.hpp"
#include "train/run/resume_check.hpp"
#include "train/update/schedule.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <set>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace {

constexpr const char* kSmallest =
    "[model]\narchitecture = \"gpt2\"\n[data]\ntrain = \"a.txt\"\n[output]\ndir = \"out\"\n";

std::string content(const std::string& file) {
    Result<std::string> text = read_file(std::filesystem::path(HEKLA_SOURCE_DIR) / file);
    REQUIRE_MESSAGE(text.ok(), text.message());
    return text.take();
}

Recipe parsed(std::string_view text, const std::vector<std::string>& overrides = {}) {
    Result<Recipe> recipe = parse_recipe(text, "r.toml", overrides);
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    return recipe.take();
}

std::string refused(std::string_view text, const std::vector<std::string>& overrides = {}) {
    const Result<Recipe> recipe = parse_recipe(text, "r.toml", overrides);
    REQUIRE(!recipe.ok());
    CHECK(recipe.code() == Code::invalid_argument);
    return recipe.message();
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string with(const std::string& lines) { return kSmallest + lines; }

} // namespace

TEST_CASE("a path begins with the home folder as in a shell") {
    const std::string home = home_folder().string();
    REQUIRE(!home.empty());
    const Recipe recipe =
        parsed("[model]\nfrom = \"~/m\"\n[data]\ntrain = [\"~/a.txt\", \"b~/~\", \"~c\"]\n", {"output.dir=~/runs/a"});
    CHECK(recipe.model.from == home + "/m");
    CHECK(recipe.data.train == std::vector<std::string>{home + "/a.txt", "b~/~", "~c"});
    CHECK(recipe.output.dir == home + "/runs/a");
}

TEST_CASE("the folder of a run is read as its recipe, and stays its folder wherever it was moved") {
    TestFolder folder;
    const std::filesystem::path run = folder.path() / "run";
    REQUIRE(std::filesystem::create_directory(run));
    REQUIRE(write_file_atomically(run / "recipe.toml", kSmallest).ok());
    for (const std::filesystem::path& given : {run, run / ""}) {
        const Result<Recipe> read = read_recipe(given, {"train.max_steps=7"});
        REQUIRE_MESSAGE(read.ok(), read.message());
        CHECK(read->output.dir == run.string());
        CHECK(read->train.max_steps == 7);
    }
    CHECK(read_recipe(run, {"output.dir=other"})->output.dir == "other");
    const Result<Recipe> none = read_recipe(folder.path());
    REQUIRE(!none.ok());
    CHECK(none.message() ==
          folder.path().string() + ": a folder without recipe.toml; a recipe file or the folder of a run was expected");
    const std::filesystem::path checkpoint = run / "checkpoint-2";
    REQUIRE(std::filesystem::create_directory(checkpoint));
    REQUIRE(write_file_atomically(checkpoint / "recipe.toml", kSmallest).ok());
    REQUIRE(write_file_atomically(checkpoint / "MANIFEST.json", "{}").ok());
    CHECK(read_recipe(checkpoint).message().find("a checkpoint; a recipe file or the folder of a run was expected") !=
          std::string::npos);
}

TEST_CASE("a resolved recipe round-trips bit for bit, and old ones are written unchanged") {
    for (const char* name : {"minimal", "every_key", "adapter"}) {
        CAPTURE(name);
        const std::string expected = content(fmt::format("tests/train/recipes/{}.resolved.toml", name));
        CHECK(write_recipe(parsed(content(fmt::format("tests/train/recipes/{}.toml", name)))) == expected);
        CHECK(write_recipe(parsed(expected)) == expected);
    }
}

TEST_CASE("recipes of older runs: no key is lost or changed") {
    // As written by versions without limits on compressed files and without schedules.
    std::string before = content("tests/train/recipes/every_key.resolved.toml");
    for (const char* line : {"max_decompressed_bytes = 68719476736\n", "max_compression_ratio = 250.0\n"}) {
        REQUIRE(has(before, line));
        before.erase(before.find(line), std::string_view(line).size());
    }
    CHECK(write_recipe(parsed(before)) == content("tests/train/recipes/every_key.resolved.toml"));
}

TEST_CASE("a checkpoint's recipe is read as it is; only new recipes must follow the rules between keys") {
    const std::string adapter = with("[adapter]\nid = \"lora\"\n"); // of a run that plugin check started
    CHECK(has(refused(adapter), "[adapter] needs a trained model: set model.from to its folder"));
    const Result<Recipe> read = parse_resolved_recipe(adapter, "r.toml");
    REQUIRE_MESSAGE(read.ok(), read.message());
    CHECK(read->adapter.id == "lora");
    CHECK_FALSE(parse_resolved_recipe(with("[train]\nmax_stepz = 1\n"), "r.toml").ok());
}

TEST_CASE("every row of the table has a description, and its default is written as in the reference") {
    const std::string resolved = write_recipe(parsed(kSmallest));
    std::set<std::string> names;
    for (const RecipeSection& section : recipe_sections()) {
        CHECK(section.meaning.ends_with("."));
        for (const RecipeKey& key : section.keys) {
            CAPTURE(key.name);
            CHECK(key.meaning.ends_with("."));
            CHECK(names.insert(section.name + "." + key.name).second);
            const std::set<std::string> given{"architecture", "kind", "train", "dir"};
            const bool named = section.name.ends_with(".NAME"); // there are none
            if (!key.fallback.empty() && !named && !given.contains(key.name))
                CHECK(has(resolved, fmt::format("\n{} = {}\n", key.name, key.fallback)));
        }
    }
    CHECK(names.contains("train.learning_rate"));
    const std::vector<std::string> completions = recipe_key_names();
    CHECK(std::ranges::find(completions, "data.max_decompressed_bytes") != completions.end());
    CHECK(std::ranges::find(completions, "schedules.NAME.kind") != completions.end());
    CHECK(recipe_json().size() == names.size());
}

TEST_CASE("what is written in place of a key of another trainer is a key of a recipe") {
    const std::vector<std::string> own = recipe_key_names();
    const auto exists = [&](const std::string& name) { return std::ranges::find(own, name) != own.end(); };
    const char* const meant[] = {
#define HK_FOREIGN_KEY(names, key, what_to_do) key,
#include "train/recipe/foreign_keys.inc"
#undef HK_FOREIGN_KEY
    };
    for (const std::string key : meant) {
        CAPTURE(key);
        const bool of_plugin = key.starts_with("adapter.") && key != "adapter.id";
        CHECK((key.empty() || of_plugin || exists(key)));
    }
}

TEST_CASE("docs/recipes.md is generated from the table") {
    CHECK_MESSAGE(content("docs/recipes.md") == recipe_markdown(),
                  "run: build/bin/hekla recipe keys --markdown > docs/recipes.md");
}

TEST_CASE("errors contain the position, the key, the given and the expected value") {
    CHECK(refused(with("[train]\nlerning_rate = 1\n")) ==
          "r.toml:8: [train] has no key 'lerning_rate'; did you mean 'learning_rate'?");
    CHECK(refused(with("[train]\nlr = 1\n")) == "r.toml:8: [train] has no key 'lr'; write train.learning_rate");
    CHECK(refused(with("[train]\nvocab_size = 1\n")) ==
          "r.toml:8: [train] has no key 'vocab_size'; write tokenizer.vocab_size");
    CHECK(refused("batch_size = 4\n") ==
          "r.toml:1: 'batch_size' is not a key of a recipe; write train.per_device_train_batch_size");
    CHECK(has(refused(with("[train]\nload_in_4bit = true\n")), "'load_in_4bit'; weights are stored in 16 or 32 bits"));
    CHECK(refused(with("[trian]\nseed = 1\n")) == "r.toml:7: there is no section [trian]; did you mean [train]?");
    CHECK(refused(with("[train]\nmax_steps = \"many\"\n")) ==
          "r.toml:8: train.max_steps: is \"many\", expected an integer");
    CHECK(refused(with("[train]\nmax_steps = -1\n")) ==
          "r.toml:8: train.max_steps: -1 is too small, expected 0 or more");
    CHECK(refused(with("[train]\nmomentum = 2\n")) == "r.toml:8: train.momentum: 2 is outside 0 to 0.999999");
    CHECK(refused(with("[train]\nlearning_rate = nan\n")) ==
          "r.toml:8: train.learning_rate: nan is not a finite number");
    CHECK(refused(with("[train]\noptim = \"adam\"\n")) ==
          "r.toml:8: train.optim: 'adam' is not one of adamw, sgd; did you mean 'adamw'?");
    CHECK(refused(with("[train]\nrecompute = [\"norms\", \"gelu\"]\n")) ==
          "r.toml:8: train.recompute: 'gelu' is not one of norms, activations");
    CHECK(refused(kSmallest, {"train.seed=x"}) == "override 'train.seed=x': train.seed: is \"x\", expected an integer");
    CHECK(has(refused(with("[train]\nseed = = 1\n")), "r.toml:8:8: "));
    CHECK(has(refused(with("[train]\nseed = \"\xff\"\n")), "r.toml:8:9: byte 0xFF is not valid UTF-8"));
    CHECK(refused(kSmallest, {"output.dir=a\xff"}) == "override 'output.dir=a...': byte 13 (0xFF) is not valid UTF-8");
    // Without a value: the key is removed, also a plugin's, and its default applies.
    CHECK(parsed(kSmallest, {"train.seed=5", "train.seed="}).train.seed == Recipe{}.train.seed);
    CHECK(write_recipe(parsed(kSmallest, {"objective.id=clm", "objective.own=4", "objective.own=", "adapters.one="})) ==
          write_recipe(parsed(kSmallest, {"objective.id=clm"})));
    CHECK(refused(kSmallest, {"train.seed"}) == "override 'train.seed' does not match SECTION.KEY=VALUE");
    CHECK(refused("[data]\ntrain = \"a\"\n") ==
          "r.toml: [model] needs `architecture` (a plugin's id) or `from` (a model folder)");
    // The rules for adapters apply to texts and files.
    CHECK(refused(with("[adapter]\nid = \"lora\"\n")) ==
          "r.toml: [adapter] needs a trained model: set model.from to its folder");
}

TEST_CASE("nesting has a limit, in any form") {
    std::string dotted = "a";
    for (int i = 0; i < 100'000; ++i) dotted += ".b";
    CHECK(has(refused(dotted + " = 1\n"), "r.toml:1:130: keys, tables and arrays are nested more than 64 levels deep"));
    CHECK(has(refused("[" + dotted + "]\n"), "more than 64 levels"));
    CHECK(has(refused("[[" + dotted + "]]\n"), "more than 64 levels"));
    CHECK(has(refused("\nx = " + std::string(100'000, '[')), "r.toml:2:69: "));
    CHECK(has(refused("x = {" + dotted + " = 1}\n"), "more than 64 levels"));
    CHECK(has(refused(kSmallest, {"model.x={" + dotted + " = 1}"}), "more than 64 levels"));
    CHECK(has(refused(kSmallest, {"model.x=" + std::string(100'000, '[')}), "more than 64 levels"));
    // The depth is the sum of a header, a key and the levels below it.
    const std::string half = dotted.substr(0, 2 * 34 - 1);
    CHECK(has(refused("[" + half + "]\n" + half + " = 1\n"), "r.toml:2:"));
    // Dots and brackets in strings and comments are not nesting, and neither are consecutive keys.
    std::string flat = "[model]\narchitecture = \"gpt2\" # [[[[" + dotted + "\ntext = \"" + dotted + "\\\"[\"\n";
    flat += "literal = '" + std::string(200, '[') + "'\nlines = \"\"\"\n" + std::string(200, '{') + "\n\"\"\"\n";
    for (int i = 0; i < 200; ++i) flat += fmt::format("k{}.x.y = [1.5, [2]]\n", i);
    flat += "[data]\ntrain = \"a.txt\"\n[output]\ndir = \"" + dotted + "\"\n";
    const Recipe recipe = parsed(flat);
    CHECK(recipe.output.dir == dotted);
    CHECK(recipe.model.config.at("k7").at("x").at("y").at(1).at(0) == 2);
    CHECK(parsed(kSmallest, {"output.dir=" + dotted}).output.dir == dotted);
}

TEST_CASE("a resumed run: some keys must not change, some changes are reported, some are free") {
    std::vector<std::string> warnings;
    const Log log([&](Severity, std::string_view text) { warnings.emplace_back(text); });
    const Recipe before = parsed(kSmallest);
    const auto resumed = [&](const std::vector<std::string>& overrides, bool trains = true) {
        warnings.clear();
        return check_resume(before, parsed(kSmallest, overrides), "checkpoint-5", trains, log);
    };
    CHECK(resumed({}).ok());
    for (const char* free : {"train.max_steps=5", "data.train=b.txt", "generate.num_beams=4", "output.dir=x",
                             "data.max_compression_ratio=1e6", "model.from=m"}) {
        CAPTURE(free);
        // model.from alone would change the tokenizer.
        CHECK(resumed({free, "tokenizer.kind=char"}).ok());
        CHECK(warnings.empty());
    }
    for (const char* fixed : {"model.n_layer=3", "train.optim=sgd", "head.id=x", "objective.x=1", "tokenizer.kind=bpe",
                              "train.freeze=[\"body\"]", "train.ema_decay=0.5"}) {
        CAPTURE(fixed);
        CHECK(resumed({fixed}).code() == Code::failed_precondition);
    }
    CHECK(
        resumed({"train.optim=sgd"}).message() ==
        "checkpoint-5: was made with train.optim = \"adamw\", this recipe has \"sgd\": choose another [output] dir, or "
        "put the old value back");
    CHECK(resumed({"train.learning_rate=0.5", "schedules.a=2"}).ok());
    REQUIRE(warnings.size() == 1);
    CHECK(has(warnings[0], "checkpoint-5: resuming with changed settings: "));
    CHECK(has(warnings[0], "train.learning_rate 0.001 -> 0.5"));
    CHECK(has(warnings[0], "schedules.\"a\".value nothing -> 2.0"));
    CHECK(resumed({"train.learning_rate=0.5"}, false).ok());
    CHECK(warnings.empty());
    CHECK(resumed({"train.context_length=32"}, false).ok());
    CHECK(warnings.size() == 1);
    CHECK(resumed({"train.per_device_train_batch_size=2"}).ok());
    CHECK(warnings.size() == 1);
    CHECK(resumed({"train.per_device_train_batch_size=2", "train.fit=true"}).ok());
    REQUIRE(warnings.size() == 1);
    CHECK(!has(warnings[0], "batch_size"));
}

TEST_CASE("schedules: known values, their own keys, and contradictions") {
    const auto schedule = [](const std::string& value) {
        return parsed(kSmallest, {"schedules.s=" + value}).schedules.at("s");
    };
    const auto at = [](const ScheduleSection& s, int64_t step) { return scheduled_value(s, step, 100); };
    CHECK(at(schedule("0.25"), 0) == 0.25);
    CHECK(at(schedule("0.25"), 99) == 0.25);
    const ScheduleSection linear = schedule("{kind = \"linear\", value = 1.0, end_value = 0.5}");
    CHECK(at(linear, 0) == 1.0);
    CHECK(at(linear, 50) == 0.75);
    CHECK(at(linear, 100) == 0.5);
    CHECK(at(linear, 1000) == 0.5);
    const ScheduleSection cosine = schedule("{kind = \"cosine\", value = 2, end_value = 0, end_step = 10}");
    CHECK(at(cosine, 0) == 2.0);
    CHECK(at(cosine, 5) == doctest::Approx(1.0));
    CHECK(at(cosine, 10) == 0.0);
    const ScheduleSection warm = schedule("{value = 1, warmup_steps = 3, warmup_value = 0.2}");
    CHECK(at(warm, 0) == doctest::Approx(0.4));
    CHECK(at(warm, 2) == doctest::Approx(0.8));
    CHECK(at(warm, 3) == 1.0);
    const ScheduleSection steps = schedule("{kind = \"steps\", values = [[1, 1.0], [5, 0.5], [9, -2]]}");
    CHECK(at(steps, 0) == 1.0);
    CHECK(at(steps, 3) == 1.0);
    CHECK(at(steps, 4) == 0.5); // the fifth step
    CHECK(at(steps, 99) == -2.0);

    const std::vector<std::string> parts{"schedules.a.b.kind=linear", "schedules.a.b.value=3",
                                         "schedules.a.b.end_step=7"};
    CHECK(parsed(kSmallest, parts).schedules.at("a.b").value == 3.0);
    CHECK(parsed(kSmallest, {"schedules.layer.0.gate=0.5"}).schedules.at("layer.0.gate").value == 0.5);
    const Recipe written =
        parsed(kSmallest, {"schedules.layer.0.gate=0.5", "schedules.t={kind=\"steps\", values=[[1,2]]}"});
    CHECK(write_recipe(parsed(write_recipe(written))) == write_recipe(written));

    const auto wrong = [](const std::string& value) { return refused(kSmallest, {"schedules.s=" + value}); };
    CHECK(has(wrong("{valeu = 1}"), "[schedules.s] has no key 'valeu'; did you mean 'value'?"));
    CHECK(has(wrong("\"fast\""), "schedules.s.value: is \"fast\", expected a number"));
    CHECK(has(wrong("{kind = \"steps\"}"), "needs `values` that begin at step 1"));
    CHECK(has(wrong("{kind = \"steps\", values = [[1, 1], [4, 2], [4, 3]]}"), "must ascend, but 4 follows 4"));
    CHECK(has(wrong("{kind = \"steps\", values = [[1, 1, 1]]}"), "an array of pairs"));
    CHECK(has(wrong("{values = [[1, 1]]}"), "for kind = \"steps\" only"));
    CHECK(has(wrong("{end_value = 2}"), "for linear and cosine only"));
    CHECK(has(wrong("{kind = \"linear\", end_step = 3, warmup_steps = 3}"), "must be greater than warmup_steps 3"));
    CHECK(has(refused(with("schedules = 3\n")), "r.toml"));
}
