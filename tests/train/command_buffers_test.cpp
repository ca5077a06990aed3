// How many command buffers a step is recorded into: each costs the host time in every step.
#include "plugin/composition/compose.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/speed.hpp"
#include "train/step/training_graph.hpp"
#include "train/update/optimizer.hpp"

#include <doctest/doctest.h>

using namespace hekla;

TEST_CASE("segments: in order, at most as long as asked, or one slice") {
    using Firsts = std::vector<std::size_t>;
    CHECK(program::segments_of({}, 1) == Firsts{0});
    const std::vector<double> slices{0.5, 0.5, 0.1, 2.0, 0, 0.9};
    CHECK(program::segments_of(slices, 1) == Firsts{0, 2, 3, 4});
    CHECK(program::segments_of(slices, 100) == Firsts{0});
}

TEST_CASE("a step of GPT-2 124M on a large GPU: few command buffers, each shorter than a submit may be") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    plugin::CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", 50257}, {"n_positions", 1024}, {"n_embd", 768}, {"n_layer", 12}, {"n_head", 12}};
    spec.head = "lm";
    spec.objective = "clm";
    const auto composition = plugin::Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const auto fields = composition.value()->batch_fields(8, 1024);
    REQUIRE(fields.ok());
    const auto described = composition.value()->build(HK_MODE_TRAIN, fields.value());
    REQUIRE(described.ok());
    const auto graph = train::training_graph(described.value());
    REQUIRE_MESSAGE(graph.ok(), graph.message());

    program::Limits limits;
    limits.subgroup_size = 32;
    limits.max_group_invocations = 1024;
    limits.shared_memory = 49152;
    limits.cores = 96;
    limits.storage16 = true;
    const auto target = program::described_target(limits, program::speed_of(limits), uint64_t{4} << 30, false);
    REQUIRE_MESSAGE(target.ok(), target.message());
    CHECK(target->budget_seconds <= 0.1);
    CHECK(program::segment_seconds(target->budget_seconds) <= target->budget_seconds);
    program::Estimator estimator(target.value());
    program::StoreOptions store;
    store.gradients = true;
    store.moments = program::kAdamMoments;
    REQUIRE(estimator.add_store(program::parameter_table(described.value()), store).ok());
    program::CompileOptions options;
    options.outputs = {"loss"};
    const auto step = estimator.add(graph.value(), options, 1.0);
    REQUIRE_MESSAGE(step.ok(), step.message());
    REQUIRE(
        train::Optimizer::estimate(estimator, step.value(), {}, {.no_decay = train::without_decay(described.value())})
            .ok());
    const program::Estimate estimate = estimator.finish();
    CHECK(estimate.flops > 6e12);
    CHECK(estimate.command_buffers >= 2);
    CHECK(estimate.command_buffers <= 20);
}
