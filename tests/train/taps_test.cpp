// Taps of a training: statistics and values, which change no bit of it.
#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "program/harness.hpp"
#include "program/runtime.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/step/taps.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace taps_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;
using nlohmann::json;

namespace {

struct Tapped {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});

    Result<Recipe> recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
        const std::string text = folder.path() / "text.txt";
        REQUIRE(write_file_atomically(text, "the text is not read, and its windows are rows of the batch\n").ok());
        return parse_recipe("[model]\narchitecture = \"gan\"\n[objective]\nid = \"adversarial\"\n[head]\nid = \"\"\n"
                            "[data]\nvalid_fraction = 0.0\ntrain = \"" +
                                text +
                                "\"\n[train]\nmax_steps = 5\ncontext_length = 4\neval_steps = 0\nlearning_rate = "
                                "0.02\nper_device_train_batch_size = 3\n[output]\ndir = \"" +
                                (folder.path() / run).string() + "\"\n",
                            "r.toml", overrides);
    }
    Result<TrainerResult> train(program::Runtime& runtime, const std::string& run,
                                const std::vector<std::string>& overrides = {},
                                const TrainerEvents& events = {}) const {
        HK_ASSIGN(const Recipe made, recipe(run, overrides));
        HK_ASSIGN(const auto opened, TrainingRun::create(made, registry, runtime, {}, events, Purpose::train));
        return TrainingLoop(*opened).run();
    }
    std::vector<json> log(const std::string& run) const {
        const Result<std::string> text = read_file(folder.path() / run / "train_log.jsonl");
        REQUIRE_MESSAGE(text.ok(), text.message());
        std::vector<json> lines;
        std::istringstream stream(text.value());
        for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
        return lines;
    }
    std::string weights(const std::string& run) const {
        return read_file(folder.path() / run / "checkpoint-5" / "model.safetensors").value();
    }
};

} // namespace

TEST_CASE("statistics of a tap, over parts of its elements") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double a[] = {0.0, 1.0, -2.0, 0.0}, b[] = {std::nan(""), 7.0, -kInfinity}, c[] = {kInfinity};
    TapSum sum;
    for (const std::span<const double> part : {std::span<const double>(c), std::span<const double>(a),
                                               std::span<const double>(), std::span<const double>(b)})
        sum.add(part);
    const TapStatistics s = sum.statistics("x");
    CHECK(s.elements == 8);
    CHECK(s.nans == 1);
    CHECK(s.infinities == 2);
    CHECK(s.mean == doctest::Approx(1.2).epsilon(1e-14)); // of 0, 1, -2, 0, 7
    CHECK(s.deviation == doctest::Approx(std::sqrt(54.0 / 5.0 - 1.44)).epsilon(1e-14));
    CHECK(s.minimum == -2.0);
    CHECK(s.maximum == 7.0);
    CHECK(s.zeros == 0.25);
    CHECK(std::isnan(TapSum().statistics("x").mean));
    CHECK(TapSum().statistics("x").zeros == 0.0);
}

TEST_CASE("taps are shown in every step and stored, and the training has the same bits as without them") {
    const Tapped tapped;
    Bench bench;
    REQUIRE(tapped.train(*bench, "plain").ok());
    const std::string values = (tapped.folder.path() / "values").string();
    std::vector<std::vector<double>> means;
    TrainerEvents events;
    events.step = [&](const train::StepRecord& report) {
        REQUIRE(report.taps.size() == 1);
        CHECK(report.taps[0].name == "generator.points");
        CHECK(report.taps[0].elements == 6); // 3 rows of 2
        means.push_back(
            {report.taps[0].mean, report.taps[0].deviation, report.taps[0].minimum, report.taps[0].maximum});
    };
    const auto done = tapped.train(
        *bench, "run", {"tap.names=[\"generator.*\"]", "tap.values=\"" + values + "\"", "tap.every=2"}, events);
    REQUIRE_MESSAGE(done.ok(), done.message());
    CHECK(tapped.weights("run") == tapped.weights("plain"));
    const std::vector<json> log = tapped.log("run"), plain = tapped.log("plain");
    REQUIRE(log.size() == 5);
    for (std::size_t step = 0; step < log.size(); ++step) {
        CHECK(log[step]["loss"] == plain[step]["loss"]);
        CHECK(!plain[step].contains("taps"));
        const json& tap = log[step]["taps"].at("generator.points");
        CHECK(tap["mean"].get<double>() == means[step][0]);
        CHECK(tap["std"].get<double>() == means[step][1]);
        CHECK(tap["nan"] == 0);
        const auto file = tapped.folder.path() / "values" / fmt::format("step-{}.safetensors", step + 1);
        REQUIRE(std::filesystem::exists(file) == (step % 2 == 1)); // steps 2 and 4
        if (step % 2 == 0) continue;
        const auto stored = model::SafetensorsFile::open(file);
        REQUIRE_MESSAGE(stored.ok(), stored.message());
        REQUIRE(stored->tensors().size() == 1);
        const model::TensorView& tensor = stored->tensors()[0];
        CHECK(tensor.dims == std::vector<int64_t>{3, 2});
        std::vector<float> points(6);
        std::memcpy(points.data(), tensor.bytes.data(), 24);
        TapSum sum;
        sum.add(std::vector<double>(points.begin(), points.end()));
        CHECK(sum.statistics("").mean == means[step][0]);
        CHECK(sum.statistics("").minimum == means[step][2]);
        CHECK(sum.statistics("").maximum == means[step][3]);
    }
    // The gradients of the last weights, which are tested before they are saved, are not a step.
    CHECK(!std::filesystem::exists(tapped.folder.path() / "values" / "step-6.safetensors"));
}

TEST_CASE("taps of micro-batches and of steps that take turns") {
    const Tapped tapped;
    Bench bench;
    const std::vector<std::string> both{"train.gradient_accumulation_steps=3",
                                        "train.alternate=[\"discriminator\", \"generator\"]"};
    REQUIRE(tapped.train(*bench, "plain", both).ok());
    std::vector<std::string> shown = both;
    const std::string values = (tapped.folder.path() / "values").string();
    shown.insert(shown.end(), {"tap.names=[\"*\"]", "tap.values=\"" + values + "\"", "tap.every=5"});
    const auto done = tapped.train(*bench, "run", shown);
    REQUIRE_MESSAGE(done.ok(), done.message());
    CHECK(tapped.weights("run") == tapped.weights("plain"));
    for (const json& line : tapped.log("run")) CHECK(line["taps"]["generator.points"]["elements"] == 18);
    for (const char* name :
         {"step-5.safetensors", "step-5-micro-batch-2.safetensors", "step-5-micro-batch-3.safetensors"})
        CHECK(std::filesystem::exists(tapped.folder.path() / "values" / name));
}

TEST_CASE("taps: what is refused") {
    const Tapped tapped;
    Bench bench;
    const auto refusal = [&](const std::vector<std::string>& overrides) {
        const auto done = tapped.train(*bench, "refused", overrides);
        REQUIRE(!done.ok());
        return done.message();
    };
    CHECK(refusal({"tap.names=[\"points\"]"}) == "tap.names: no tap 'points'; the graph has the taps generator.points");
    CHECK(refusal({"tap.values=\"folder\""}) ==
          "tap.values needs tap.names, the taps to store: patterns of names, such as [\"*\"]");
    CHECK(refusal({"tap.names=[\"*\"]", "tap.every=3"}) ==
          "tap.every = 3 needs tap.values, the folder for the values of taps");
    CHECK(refusal({"tap.names=[\"*\"]", "distributed.parts=2", "train.gradient_accumulation_steps=2"}) ==
          "tap.names: several ranks or distributed.parts above 1 do not show taps: train on one device without "
          "[distributed], or remove the key");
    const std::string file = (tapped.folder.path() / "text.txt").string();
    CHECK(refusal({"tap.names=[\"*\"]", "tap.values=\"" + file + "\"", "tap.every=1"}) ==
          "tap.values = " + file + ": it is a file; expected a folder, which is created if it does not exist");
}

} // namespace taps_test
