// Losses that name their parameters, and steps that take turns: a generative adversarial network against its twin in
// PyTorch. adversarial/make.py computes the twin.
#include "base/file.hpp"
#include "model/weights.hpp"
#include "program/harness.hpp"
#include "program/runtime.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

namespace adversarial_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;
using nlohmann::json;

namespace {

const json& twin_of_gan() {
    static const json kTwin = [] {
        const auto text = read_file(std::string(HEKLA_SOURCE_DIR) + "/tests/train/adversarial/twin.json");
        REQUIRE_MESSAGE(text.ok(), text.message());
        return json::parse(text.value());
    }();
    return kTwin;
}

struct Gan {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});

    Result<Recipe> recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
        const std::string text = folder.path() / "text.txt";
        REQUIRE(write_file_atomically(text, "the text is not read, and its windows are rows of the batch\n").ok());
        return parse_recipe(
            "[model]\narchitecture = \"gan\"\n[objective]\nid = \"adversarial\"\n[head]\nid = "
            "\"\"\n[data]\nvalid_fraction = 0.0\ntrain = "
            "\"" +
                text +
                "\"\n[train]\nmax_steps = 20\ncontext_length = 4\nsave_steps = 10\neval_steps = 0\nlearning_rate = "
                "0.02\nlr_scheduler_type = \"constant\"\nmax_grad_norm = 0\nper_device_train_batch_size = 6\n[output]\n"
                "dir = \"" +
                (folder.path() / run).string() + "\"\n",
            "r.toml", overrides);
    }
    std::string file(const std::string& run, int step, const char* name) const {
        const auto text = read_file(folder.path() / run / fmt::format("checkpoint-{}", step) / name);
        REQUIRE_MESSAGE(text.ok(), text.message());
        return text.value();
    }
    std::vector<json> log(const std::string& run) const {
        const Result<std::string> text = read_file(folder.path() / run / "train_log.jsonl");
        REQUIRE_MESSAGE(text.ok(), text.message());
        std::vector<json> lines;
        std::istringstream stream(text.value());
        for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
        return lines;
    }
    std::map<std::string, std::vector<float>> weights(const std::string& run, int step) const {
        const auto stored = model::Weights::open(folder.path() / run / fmt::format("checkpoint-{}", step));
        REQUIRE_MESSAGE(stored.ok(), stored.message());
        std::map<std::string, std::vector<float>> all;
        for (const auto& [name, values] : twin_of_gan()["initial"].items()) {
            const auto found = stored->get(name);
            REQUIRE_MESSAGE(found.ok(), found.message());
            std::vector<float>& one = all[name];
            one.resize(found.value()->bytes.size() / 4);
            std::memcpy(one.data(), found.value()->bytes.data(), one.size() * 4);
        }
        return all;
    }
    // Trains from the twin's initial weights, or from the run's checkpoint.
    Result<TrainerResult> train(program::Runtime& runtime, const Recipe& recipe, const TrainerEvents& events = {},
                                const Log& log = {}) const {
        HK_ASSIGN(const auto run, TrainingRun::create(recipe, registry, runtime, log, events, Purpose::train));
        if (!run->resumed())
            for (const auto& [name, values] : twin_of_gan()["initial"].items())
                HK_TRY(run->store().upload(name, values.get<std::vector<float>>()));
        return TrainingLoop(*run).run();
    }
    std::string refusal(program::Runtime& runtime, const std::vector<std::string>& overrides) const {
        const auto made = recipe("refused", overrides);
        REQUIRE_MESSAGE(made.ok(), made.message());
        const auto done = train(runtime, made.value());
        REQUIRE(!done.ok());
        return done.message();
    }
};

std::string cycle_of(const json& one) { return "train.alternate=" + one["alternate"].dump(); }

std::vector<std::string> overrides_of(const json& one) {
    std::vector<std::string> overrides{"objective.names=" + one["names"].dump()};
    if (!one["alternate"].empty()) overrides.push_back(cycle_of(one));
    if (one["sgd"].get<bool>())
        overrides.insert(overrides.end(), {"optimizer.name=sgd", "optimizer.weight_decay=0",
                                           "optimizer.rules={\"generator.out.bias\" = \"adamw\"}"});
    return overrides;
}

double greatest_difference(const std::map<std::string, std::vector<float>>& got, const json& expected) {
    double worst = 0.0;
    for (const auto& [name, values] : expected.items()) {
        const auto wanted = values.get<std::vector<double>>();
        REQUIRE(got.at(name).size() == wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
            worst = std::max(worst, std::abs(static_cast<double>(got.at(name)[i]) - wanted[i]));
    }
    return worst;
}

} // namespace

TEST_CASE("adversarial: twenty steps equal PyTorch's to 1e-5, together and in turns") {
    for (const json& one : twin_of_gan()["cases"]) {
        CAPTURE(one["name"].get<std::string>());
        const Gan gan;
        Bench bench;
        const auto recipe = gan.recipe("run", overrides_of(one));
        REQUIRE_MESSAGE(recipe.ok(), recipe.message());
        const auto done = gan.train(*bench, recipe.value());
        REQUIRE_MESSAGE(done.ok(), done.message());
        const double worst = greatest_difference(gan.weights("run", 20), one["after"]);
        CHECK(worst < 1e-5);
        MESSAGE(one["name"].get<std::string>(), ": greatest difference ", worst);
        const std::vector<json> log = gan.log("run");
        REQUIRE(log.size() == 20);
        for (std::size_t step = 0; step < log.size(); ++step) // both losses are shown in every turn
            for (const auto& [name, value] : one["losses"][step].items())
                CHECK(log[step]["losses"][name].get<double>() == doctest::Approx(value.get<double>()).epsilon(1e-5));
        // Again: the same bits.
        const auto again = gan.recipe("again", overrides_of(one));
        REQUIRE(gan.train(*bench, again.value()).ok());
        CHECK(gan.file("run", 20, "model.safetensors") == gan.file("again", 20, "model.safetensors"));
    }
}

TEST_CASE("a step leaves the parameters that its loss does not name as they are, with their moments and counters") {
    const Gan gan;
    Bench bench;
    const auto recipe = gan.recipe("run", {"train.alternate=[\"discriminator\", \"generator\"]", "train.max_steps=5",
                                           "train.save_steps=1", "train.save_total_limit=5"});
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    REQUIRE(gan.train(*bench, recipe.value()).ok());
    for (int step = 2; step <= 5; ++step) {
        const bool discriminator = step % 2 == 1; // the first step is the discriminator's
        const auto before = gan.weights("run", step - 1), after = gan.weights("run", step);
        for (const auto& [name, values] : after)
            CHECK((values == before.at(name)) == (name.starts_with("discriminator.") != discriminator));
        const auto state = [&](int at) {
            const auto stored =
                model::Weights::open(gan.folder.path() / "run" / fmt::format("checkpoint-{}", at), "optimizer");
            REQUIRE(stored.ok());
            std::map<std::string, std::string> all;
            for (const model::TensorView& tensor : stored->tensors())
                all[tensor.name] = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
            return all;
        };
        const auto was = state(step - 1), is = state(step);
        int changed = 0;
        for (const auto& [name, bytes] : is) {
            const bool of_discriminator = name.find("discriminator.") != std::string::npos;
            const bool of_generator = name.find("generator.") != std::string::npos;
            if (discriminator ? of_generator : of_discriminator) CHECK(bytes == was.at(name));
            if (name.starts_with("state.") && bytes != was.at(name)) ++changed;
        }
        CHECK(changed == 1); // one counter of two
    }
}

TEST_CASE("turns: a resumed run has the same bits, with kernels, graphs, averages and bfloat16 moments") {
    std::vector<std::string> overrides{"train.alternate=[\"discriminator\", \"discriminator\", \"generator\"]",
                                       "train.gradient_accumulation_steps=2"};
    SUBCASE("adamw") {}
    SUBCASE("lion, by graphs") { overrides.emplace_back("optimizer.name=lion"); }
    SUBCASE("averages") { overrides.emplace_back("train.ema_decay=0.9"); }
    SUBCASE("moments in bfloat16") { overrides.emplace_back("train.moments_dtype=bfloat16"); }
    const Gan gan;
    Bench bench;
    const auto whole = gan.recipe("whole", overrides), parts = gan.recipe("parts", overrides);
    REQUIRE_MESSAGE(whole.ok(), whole.message());
    REQUIRE(gan.train(*bench, whole.value()).ok());
    int64_t step = 0;
    TrainerEvents stop;
    stop.step = [&](const train::StepRecord& report) { step = report.step; };
    stop.stop = [&] { return step >= 11; }; // the generator's turn is next
    REQUIRE(gan.train(*bench, parts.value(), stop)->stopped);
    const auto resumed = gan.train(*bench, parts.value());
    REQUIRE_MESSAGE(resumed.ok(), resumed.message());
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
        CHECK(gan.file("whole", 20, file) == gan.file("parts", 20, file));
}

TEST_CASE("turns: micro-batches add up to the step of one batch") {
    // The rows of a micro-batch depend on the step and the row alone, so two micro-batches are equal.
    const Gan gan;
    Bench bench;
    const std::string turns = "train.alternate=[\"discriminator\", \"generator\"]";
    const auto one = gan.recipe("one", {turns}),
               two = gan.recipe("two", {turns, "train.gradient_accumulation_steps=2"});
    REQUIRE(gan.train(*bench, one.value()).ok());
    REQUIRE(gan.train(*bench, two.value()).ok());
    const auto expected = gan.weights("one", 20);
    for (const auto& [name, values] : gan.weights("two", 20))
        for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(static_cast<double>(values[i]) ==
                  doctest::Approx(static_cast<double>(expected.at(name)[i])).epsilon(1e-5));
}

TEST_CASE("losses that name their parameters: what is refused") {
    const Gan gan;
    Bench bench;
    CHECK(gan.refusal(*bench, {"objective.names=generater.*"}) ==
          "loss 'generator' names the parameters 'generater.*', and no parameter matches: `hekla inspect` lists their "
          "names");
    CHECK(gan.refusal(*bench, {"train.freeze=[\"generator.*\"]"}) ==
          "loss 'generator' names the parameters 'generator.*', which are all frozen, so that nothing learns from it: "
          "leave them out of the loss, or out of train.freeze");
    CHECK(gan.refusal(*bench, {"objective.names=half"}) ==
          "loss 'generator' names no parameters, and loss 'discriminator' names 'discriminator.*': name those of every "
          "loss by for_parameters (\"*\" is all of them), or of none");
    CHECK(gan.refusal(*bench, {"train.alternate=[\"discriminator\", \"generatr\"]"}) ==
          "train.alternate: no loss is named 'generatr', did you mean 'generator'?; the losses are discriminator, "
          "generator");
    CHECK(gan.refusal(*bench, {"train.alternate=[\"discriminator\"]"}) ==
          "train.alternate: no step minimizes the loss 'generator': add it, or join it to another one with '+', as in "
          "\"discriminator+generator\"");
    CHECK(gan.refusal(*bench, {"objective.names=none", "train.alternate=[\"discriminator\", \"generator\"]"}) ==
          "train.alternate: the losses (discriminator, generator) do not name the parameters that they train, so no "
          "step could leave some as they are: remove the key, or name them in the objective by for_parameters");
    const std::string turns = "train.alternate=[\"discriminator\", \"generator\"]";
    CHECK(
        gan.refusal(*bench, {turns, "distributed.parts=2", "train.gradient_accumulation_steps=2"}) ==
        "train.alternate: several ranks or distributed.parts above 1 update all parameters in every step: train on one "
        "device without [distributed], or remove the key");
    CHECK(gan.refusal(*bench, {turns, "train.fp16=true"}) ==
          "train.alternate: train.fp16 has one loss scale for all parameters: set train.bf16 instead, or remove the "
          "key");
    // Without names, both losses train both networks.
    const auto plain = gan.recipe("plain", {"objective.names=none"});
    CHECK(gan.train(*bench, plain.value()).ok());
}

TEST_CASE("a run does not resume with other turns") {
    const Gan gan;
    Bench bench;
    const auto first = gan.recipe("run", {"train.alternate=[\"discriminator\", \"generator\"]", "train.max_steps=4"});
    REQUIRE(gan.train(*bench, first.value()).ok());
    const auto other = gan.recipe("run", {"train.alternate=[\"generator\", \"discriminator\"]", "train.max_steps=8"});
    const auto refused = gan.train(*bench, other.value());
    CHECK(refused.code() == Code::failed_precondition);
    CHECK_MESSAGE(refused.message().find("was made with train.alternate = ") != std::string::npos, refused.message());
}

} // namespace adversarial_test
