// What the host does while the device computes a step: the counts of the next batch's losses, and the log of the step
// before.
#include "base/file.hpp"
#include "graph/builder.hpp"
#include "program/harness.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_context.hpp"
#include "train/step/loss_counts.hpp"
#include "train/training_events.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <algorithm>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace step_order_test {
namespace {

data::Field field(const char* name, const std::vector<int32_t>& values) {
    return {name,
            data::FieldKind::int32,
            {static_cast<int64_t>(values.size())},
            ResourceArray<std::byte>(std::as_bytes(std::span(values)))};
}

} // namespace

TEST_CASE("the count of a loss is computed from its fields alone; a missing one is named") {
    Builder b;
    const ValueId labels = b.input("labels", Kind::int32, {5}), other = b.input("other", Kind::int32, {2});
    const auto sum = [&](ValueId of) { return b(Op::sum, {of}, {{"axes", std::vector<int64_t>{0}}}); };
    const auto real = [&](ValueId of) { return b(Op::cast, {of}, {{"kind", int64_t{1}}}); };
    const ValueId counted = b(Op::compare, {labels, b.fill(Kind::int32, Shape{}, -100)},
                              {{"relation", static_cast<int64_t>(graph::Relation::not_equal)}});
    b.loss("first", real(sum(other)), sum(counted), 1.0);
    b.loss("second", real(sum(other)), sum(other), 1.0);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    std::vector<data::Field> fields;
    fields.push_back(field("labels", {3, -100, 0, -100, 7}));
    const auto missing = loss_counts(graph.value(), fields);
    REQUIRE(!missing.ok());
    CHECK_MESSAGE(missing.message().find("'other'") != std::string::npos, missing.message());
    fields.push_back(field("other", {20, 30}));
    fields.push_back(field("unused", {1}));
    const auto counts = loss_counts(graph.value(), fields);
    REQUIRE_MESSAGE(counts.ok(), counts.message());
    CHECK(counts.value() == std::vector<double>{3, 50});
}

TEST_CASE("a step is logged while the next one computes, before a checkpoint is saved, and when the training ends") {
    const TestFolder folder;
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});
    std::string text;
    for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog\n";
    REQUIRE(write_file_atomically(folder.path() / "text.txt", text).ok());
    auto recipe = parse_recipe("[model]\narchitecture = \"gated\"\n[data]\nvalid_fraction = 0.0\ntrain = \"" +
                                   (folder.path() / "text.txt").string() +
                                   "\"\n[train]\nmax_steps = 5\ncontext_length = 8\nsave_steps = 3\neval_steps = 0\n"
                                   "gradient_accumulation_steps = 3\n[output]\ndir = \"" +
                                   (folder.path() / "run").string() + "\"\n",
                               "r.toml", {});
    REQUIRE_MESSAGE(recipe.ok(), recipe.message());
    const auto logged = [&] {
        const Result<std::string> log = read_file(folder.path() / "run" / "train_log.jsonl");
        REQUIRE_MESSAGE(log.ok(), log.message());
        return std::ranges::count(log.value(), '\n');
    };
    std::vector<int64_t> at_step, at_save;
    TrainerEvents events;
    events.step = [&](const train::StepRecord&) { at_step.push_back(logged()); };
    events.message = [&](const std::string& message) {
        if (message.starts_with("saved ")) at_save.push_back(logged());
    };
    Bench bench;
    auto run = TrainingRun::create(recipe.value(), registry, *bench, {}, events, Purpose::train);
    REQUIRE_MESSAGE(run.ok(), run.message());
    const auto done = TrainingLoop(*run.value()).run();
    REQUIRE_MESSAGE(done.ok(), done.message());
    CHECK(at_step == std::vector<int64_t>{0, 1, 2, 3, 4});
    CHECK(at_save == std::vector<int64_t>{3, 5}); // after the steps 3 and 5, the first in the step after it
    CHECK(logged() == 5);
}

} // namespace step_order_test
