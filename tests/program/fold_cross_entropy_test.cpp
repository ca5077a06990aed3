// Cross entropy folded into its linear, on the device, and the memory that it saves in a step.
#include "graph/passes/fold_cross_entropy.hpp"
#include "graph/passes/join_cross_entropy.hpp"
#include "graph/passes/simplify.hpp"
#include "program/kernel_case.hpp"
#include "program/memory_plan.hpp"

namespace fold_cross_entropy_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Case {
    int64_t rows = 11, width = 6, classes = 9, chunk = 4;
    bool bias = false, weights = false, input_first = false, best = false;
    double smoothing = 0;
    double scale = 1, softcap = 0;
};

// In the middle of a graph: the input of the loss is computed, and has a gradient; the table is tied if possible.
Graph model(const Case& c) {
    Builder b;
    const ValueId table = b.parameter("table", {c.classes, c.width}, 0, 0, 0, 0);
    const ValueId ids = b.input("ids", Kind::int32, {c.rows});
    const ValueId x = b(Op::tanh, {b(Op::embedding, {table, ids})});
    const ValueId weight = c.input_first ? b.parameter("weight", {c.width, c.classes}, 0, 0, 0, 0) : table;
    ValueId logits = b(Op::linear, {x, weight, c.bias ? b.parameter("bias", {c.classes}, 0, 0, 0, 0) : graph::kNone},
                       {{"input_first", int64_t{c.input_first}}});
    if (c.scale != 1) logits = b(Op::mul, {logits, b.scalar(c.scale)});
    if (c.softcap != 0)
        logits = b(Op::mul, {b(Op::tanh, {b(Op::div, {logits, b.scalar(c.softcap)})}), b.scalar(c.softcap)});
    const ValueId labels = b.input("labels", Kind::int32, {c.rows});
    const ValueId weights = c.weights ? b.input("weights", Kind::float_, {c.classes}) : graph::kNone;
    const ValueId each =
        b(Op::cross_entropy, {logits, labels, weights}, {{"smoothing", c.smoothing}, {"ignore_index", int64_t{3}}});
    if (c.best) b.output("best", b(Op::argmax, {logits}, {{"axis", int64_t{-1}}}));
    return with_gradients(std::move(b), each);
}

// Returns the same model, with the loss folded before differentiation.
Graph folded_model(const Case& c) {
    Builder b;
    const ValueId table = b.parameter("table", {c.classes, c.width}, 0, 0, 0, 0);
    const ValueId ids = b.input("ids", Kind::int32, {c.rows});
    const ValueId x = b(Op::tanh, {b(Op::embedding, {table, ids})});
    const ValueId weight = c.input_first ? b.parameter("weight", {c.width, c.classes}, 0, 0, 0, 0) : table;
    const ValueId inputs[] = {x, weight, c.bias ? b.parameter("bias", {c.classes}, 0, 0, 0, 0) : graph::kNone,
                              b.input("labels", Kind::int32, {c.rows}),
                              c.weights ? b.input("weights", Kind::float_, {c.classes}) : graph::kNone};
    const graph::NamedAttribute attributes[] = {{"input_first", int64_t{c.input_first}},
                                                {"ignore_index", int64_t{3}},
                                                {"smoothing", c.smoothing},
                                                {"scale", c.scale},
                                                {"softcap", c.softcap},
                                                {"best", int64_t{c.best}},
                                                {"chunk", c.chunk}};
    const std::vector<ValueId> made = b.emit(Op::linear_cross_entropy, inputs, attributes);
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    if (c.best) b.output("best", made[2]);
    return with_gradients(std::move(b), made[0]);
}

// Returns the model with the loss and its gradient in one operation.
Graph joined_model(const Case& c) {
    auto simple = graph::simplify(folded_model(c));
    REQUIRE_MESSAGE(simple.ok(), simple.message());
    auto joined = graph::join_cross_entropy(simple.value());
    REQUIRE_MESSAGE(joined.ok(), joined.message());
    REQUIRE(std::ranges::any_of(
        joined->nodes, [](const graph::Node& node) { return node.op == Op::linear_cross_entropy_with_gradient; }));
    return joined.take();
}

uint64_t arena_bytes(const Graph& graph) {
    auto simple = graph::simplify(graph);
    REQUIRE_MESSAGE(simple.ok(), simple.message());
    auto lowering = program::lower(simple.value(), {}, {.outputs = {"loss"}});
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto plan = program::plan_memory(lowering.value(), uint64_t{1} << 31);
    REQUIRE_MESSAGE(plan.ok(), plan.message());
    return plan->arena();
}

} // namespace

TEST_CASE("cross entropy by chunks of many rows: a CPU packs the weight once") {
    Bench bench;
    for (const int64_t classes : {65, 130})
        for (const bool bias : {false, true}) {
            CAPTURE(classes);
            const Case c{.rows = 29, .width = 17, .classes = classes, .chunk = 12, .bias = bias};
            check_kernel(bench, folded_model(c), 2e-6);
            const auto simple = graph::simplify(folded_model(c));
            REQUIRE_MESSAGE(simple.ok(), simple.message());
            const auto lowered = program::lower(simple.value(), bench->limits(), {.outputs = {"loss"}});
            REQUIRE_MESSAGE(lowered.ok(), lowered.message());
            const auto packs = std::ranges::count_if(lowered->dispatches, [&](const program::Dispatch& one) {
                return one.shader == "matmul/pack" && one.bytes >= static_cast<double>(2 * 4 * 17 * classes);
            });
            if (bench->limits().cpu) CHECK(packs <= 2); // forward and backward
        }
}

TEST_CASE("cross entropy by chunks: values and gradients, every option, at odd sizes") {
    Bench bench;
    int n = 0;
    for (const int64_t classes : {9, 65, 128})
        for (const int64_t chunk : {1, 3, 8, 11, 0})
            for (const double smoothing : {0.0, 0.125}) {
                CAPTURE(classes);
                CAPTURE(chunk);
                CAPTURE(smoothing);
                Case c{.classes = classes, .chunk = chunk, .smoothing = smoothing};
                c.bias = n % 2 == 0;
                c.weights = n % 3 == 0;
                c.input_first = n % 5 > 2;
                c.best = n % 4 > 1;
                c.rows = n % 7 == 0 ? 1 : 11;
                ++n;
                check_kernel(bench, folded_model(c), 5e-6, {{"ids", classes}, {"labels", classes}}, 4);
                check_kernel(bench, joined_model(c), 5e-6, {{"ids", classes}, {"labels", classes}}, 4);
            }
}

TEST_CASE("cross entropy by chunks: a scale and a soft cap, every option, at odd sizes") {
    Bench bench;
    int n = 0;
    for (const int64_t classes : {1, 7, 65, 131})
        for (const int64_t chunk : {3, 0})
            for (const auto& [scale, softcap] : {std::pair(1.0, 4.0), std::pair(-2.5, 0.0), std::pair(1.75, 9.0)}) {
                CAPTURE(classes);
                CAPTURE(chunk);
                CAPTURE(scale);
                CAPTURE(softcap);
                Case c{.classes = classes, .chunk = chunk, .scale = scale, .softcap = softcap};
                c.smoothing = n % 4 < 2 ? 0.125 : 0.0;
                c.bias = n % 2 == 0;
                c.weights = n % 5 > 1;
                c.input_first = n % 7 > 3;
                c.best = n % 3 > 0;
                c.rows = n % 11 == 5 ? 1 : 11;
                ++n;
                check_kernel(bench, folded_model(c), 5e-6, {{"ids", classes}, {"labels", classes}}, 4);
                check_kernel(bench, joined_model(c), 5e-6, {{"ids", classes}, {"labels", classes}}, 4);
            }
}

TEST_CASE("cross entropy on GPUs holds a row in registers, or the part that fits") {
    GpuKernelsBench bench;
    if (!bench->limits().compiles_slowly) {
        MESSAGE("skipped: on a GPU an invocation holds more than two vectors");
        return;
    }
    const int64_t held = 2 * 4 * std::min<int64_t>(512, 32 * int64_t{bench->limits().subgroup_size});
    for (const auto precision : {program::Storage::f32, program::Storage::bf16}) {
        if (precision != program::Storage::f32 && !bench->limits().storage16) continue;
        // All of the row, to the last vector; a part, with more than a round of vectors after it.
        for (const int64_t classes : {int64_t{1001}, held - 2, held + held / 2 + 3})
            for (const double softcap : {0.0, 0.5}) {
                CAPTURE(precision);
                CAPTURE(classes);
                CAPTURE(softcap);
                Case c{.rows = 3, .width = 2, .classes = classes, .chunk = 2, .best = true, .softcap = softcap};
                c.weights = c.bias = classes == held - 2;
                c.smoothing = c.weights ? 0.125 : 0;
                c.scale = c.weights && softcap != 0 ? 0.75 : 1;
                const Graph graph = joined_model(c);
                Random random(4);
                const graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", c.classes}, {"labels", c.classes}});
                RunOptions options;
                options.compile.precision = precision;
                Outcome got = run_on_device(*bench, graph, feeds, options), expected = run_in_interpreter(graph, feeds);
                // In 16 bits logits may be equal.
                if (precision != program::Storage::f32) got.erase("best"), expected.erase("best");
                std::string where;
                const double error = worst_error(got, expected, &where);
                CHECK_MESSAGE(error <= (precision == program::Storage::f32 ? 1e-5 : 2e-2),
                              "error " << error << " at " << where);
            }
    }
}

TEST_CASE("cross entropy by chunks: equals whole logits") {
    Bench bench;
    const Case c{.rows = 70, .width = 33, .classes = 300, .chunk = 32, .bias = true, .best = true};
    const Graph whole = model(c), folded = folded_model(c), joined = joined_model(c);
    Random random(4);
    const graph::Feeds feeds = kernel_feeds(whole, random, {{"ids", c.classes}, {"labels", c.classes}});
    const Outcome expected = run_on_device(*bench, whole, feeds, {});
    std::string where;
    for (const Graph* graph : {&folded, &joined}) {
        const double error = worst_error(run_on_device(*bench, *graph, feeds, {}), expected, &where);
        CHECK_MESSAGE(error <= 2e-6, "error " << error << " at " << where);
    }
    // With one chunk the order is the same, so the bits are too; on a GPU several subgroups add a row's terms.
    Case one = c;
    one.chunk = c.rows;
    const Outcome got = run_on_device(*bench, folded_model(one), feeds, {});
    CHECK(to_bytes(got.at("best")) == to_bytes(expected.at("best")));
    if (bench->limits().cpu) CHECK(to_bytes(got.at("value")) == to_bytes(expected.at("value")));
}

TEST_CASE("cross entropy by chunks: a soft cap of whole logits is the same") {
    Bench bench;
    const Case c{.rows = 70,
                 .width = 33,
                 .classes = 300,
                 .chunk = 32,
                 .bias = true,
                 .best = true,
                 .smoothing = 0.125,
                 .scale = 3,
                 .softcap = 2};
    const Graph whole = model(c), folded = folded_model(c), joined = joined_model(c);
    Random random(4);
    const graph::Feeds feeds = kernel_feeds(whole, random, {{"ids", c.classes}, {"labels", c.classes}});
    const Outcome expected = run_on_device(*bench, whole, feeds, {});
    std::string where;
    for (const Graph* graph : {&folded, &joined}) {
        const double error = worst_error(run_on_device(*bench, *graph, feeds, {}), expected, &where);
        CHECK_MESSAGE(error <= 4e-6, "error " << error << " at " << where);
    }
}

TEST_CASE("cross entropy by chunks: ignored rows and non-finite logits") {
    Bench bench;
    const Case c{.rows = 3, .width = 2, .classes = 6, .chunk = 2};
    const Graph graph = folded_model(c);
    Random random(4);
    graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", c.classes}, {"labels", c.classes}});
    feeds.fields["ids"].data = {0, 1, 2};
    feeds.fields["labels"].data = {3, 0, 5};
    // The first row's input is NaN, and the row is ignored: the other rows must stay finite, the weight must not.
    feeds.parameters["table"].data[0] = std::nan("");
    feeds.parameters["table"].data[1] = std::nan("");
    const Outcome got = run_on_device(*bench, graph, feeds, {});
    CHECK(got.at("value").data[0] == 0);
    CHECK(std::isnan(got.at("value").data[1])); // class 0 is in every row
    feeds.parameters["table"].data = {1e4, 1e4, -1e4, 1e4, 1e4, -1e4, 0, 0, 1, 1, 2, 2};
    feeds.fields["coefficients"].data = {1, 1, 1};
    std::string where;
    const double error = worst_error(run_on_device(*bench, graph, feeds, {}), run_in_interpreter(graph, feeds), &where);
    CHECK_MESSAGE(error <= 5e-6, "error " << error << " at " << where);
}

TEST_CASE("cross entropy by chunks: ignored rows and non-finite logits with a soft cap") {
    Bench bench;
    for (const bool joined : {false, true})
        for (const bool best : {false, true}) {
            const Case c{.rows = 3,
                         .width = 2,
                         .classes = 6,
                         .chunk = 2,
                         .bias = true,
                         .input_first = true,
                         .best = best,
                         .softcap = 3};
            const Graph graph = joined ? joined_model(c) : folded_model(c);
            Random random(4);
            graph::Feeds feeds = kernel_feeds(graph, random, {{"ids", c.classes}, {"labels", c.classes}});
            feeds.fields["ids"].data = {0, 1, 2};
            feeds.fields["labels"].data = {3, 0, 5};
            // The first row's logits are NaN, and the row is ignored: its gradient is 0.
            feeds.parameters["table"].data[0] = std::nan("");
            const Outcome nan = run_on_device(*bench, graph, feeds, {});
            CHECK(nan.at("value").data[0] == 0);
            CHECK(std::isfinite(nan.at("value").data[1]));
            for (const double x : nan.at("grad.bias").data) CHECK(std::isfinite(x));
            // Logits of up to 1e4 and infinite ones are the cap, and have no gradient.
            feeds.parameters["table"].data = {1e4, 1e4, -1e4, 1e4, 1e4, -1e4, 0, 0, 1, 1, 2, 2};
            feeds.parameters["weight"].data = {1e4, -1e4, 1, 0, 0.5, -0.25, 1e38, 0.5, 3e38, 0, -3e38, 2};
            std::string where;
            const double error =
                worst_error(run_on_device(*bench, graph, feeds, {}), run_in_interpreter(graph, feeds), &where);
            CHECK_MESSAGE(error <= 5e-6, "error " << error << " at " << where);
        }
}

TEST_CASE("cross entropy by chunks: no step stores all logits") {
    const Case c{.rows = 512, .width = 8, .classes = 8192, .chunk = 64};
    const uint64_t logits = static_cast<uint64_t>(c.rows * c.classes) * 4;
    CHECK(arena_bytes(model(c)) >= logits);
    CHECK(arena_bytes(folded_model(c)) < logits / 3);
    CHECK(arena_bytes(joined_model(c)) < logits / 3);
    Case bounded = c;
    bounded.softcap = 30;
    CHECK(arena_bytes(model(bounded)) >= logits);
    CHECK(arena_bytes(folded_model(bounded)) == arena_bytes(folded_model(c)));
    CHECK(arena_bytes(joined_model(bounded)) == arena_bytes(joined_model(c)));
    // The lowering's own chunk: 136 Mi logits, for any number of classes.
    const Case large{.rows = 16384, .width = 8, .classes = 50304, .chunk = 0};
    CHECK(arena_bytes(folded_model(large)) < uint64_t{576} << 20);
    CHECK(arena_bytes(joined_model(large)) < uint64_t{576} << 20);
}

} // namespace fold_cross_entropy_test
