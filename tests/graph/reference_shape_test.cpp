// The interpreter's shape operations, reductions and lookups, and running a graph.
#include "support.hpp"

namespace hekla::test::reference_shape_test {

namespace {

const Tensor kSix = floats({2, 3}, {1, 2, 3, 4, 5, 6});
using Ints = std::vector<int64_t>;

} // namespace

TEST_CASE("shape operations move elements") {
    check_tensor(run1(Op::reshape, {kSix}, {{"shape", Ints{3, -1}}}), {3, 2}, {1, 2, 3, 4, 5, 6});
    check_tensor(run1(Op::transpose, {kSix}, {{"permutation", Ints{1, 0}}}), {3, 2}, {1, 4, 2, 5, 3, 6});
    check_tensor(run1(Op::transpose, {floats({1, 2, 2}, {1, 2, 3, 4})}, {{"permutation", Ints{2, 0, 1}}}), {2, 1, 2},
                 {1, 3, 2, 4});
    const auto slice = [](int64_t axis, int64_t start, int64_t length, int64_t stride) {
        return std::vector<NamedAttribute>{{"axis", axis}, {"start", start}, {"length", length}, {"stride", stride}};
    };
    check_tensor(run1(Op::slice, {kSix}, slice(1, 0, 2, 2)), {2, 2}, {1, 3, 4, 6});
    check_tensor(run1(Op::slice, {kSix}, slice(-2, 1, 1, 1)), {1, 3}, {4, 5, 6});
    check_tensor(run1(Op::slice, {kSix}, slice(1, 3, 0, 1)), {2, 0}, {});
    check_tensor(run1(Op::unslice, {floats({2, 2}, {1, 3, 4, 6})},
                      {{"axis", int64_t{1}}, {"start", int64_t{1}}, {"stride", int64_t{2}}, {"length", int64_t{5}}}),
                 {2, 5}, {0, 1, 0, 3, 0, 0, 4, 0, 6, 0});
    check_tensor(run1(Op::concat, {kSix, floats({2, 1}, {7, 8}), floats({2, 0}, {})}, {{"axis", int64_t{1}}}), {2, 4},
                 {1, 2, 3, 7, 4, 5, 6, 8});
    check_tensor(run1(Op::concat, {kSix, kSix}, {{"axis", int64_t{-2}}}), {4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
    check_tensor(
        run1(Op::pad, {kSix}, {{"axis", int64_t{1}}, {"before", int64_t{1}}, {"after", int64_t{1}}, {"value", 9.0}}),
        {2, 5}, {9, 1, 2, 3, 9, 9, 4, 5, 6, 9});
    check_tensor(run1(Op::broadcast, {floats({2, 1}, {1, 2})}, {{"shape", Ints{2, 2, 3}}}), {2, 2, 3},
                 {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
    check_tensor(run1(Op::flip, {kSix}, {{"axis", int64_t{1}}}), {2, 3}, {3, 2, 1, 6, 5, 4});
    check_tensor(run1(Op::flip, {kSix}, {{"axis", int64_t{0}}}), {2, 3}, {4, 5, 6, 1, 2, 3});
    for (const Op op : {Op::once, Op::state_read, Op::state_write, Op::site, Op::tap})
        check_tensor(run1(op, {kSix}, {{"name", std::string("n")}}), {2, 3}, kSix.data);
}

TEST_CASE("a transpose and its inverse restore any tensor of rank 6") {
    const Tensor x = wave({2, 1, 3, 2, 2, 5}, 0.3);
    const Tensor there = run1(Op::transpose, {x}, {{"permutation", Ints{4, 2, 0, 5, 1, 3}}});
    CHECK(there.shape.text() == "[2, 3, 2, 5, 1, 2]");
    CHECK(there.data != x.data);
    check_tensor(run1(Op::transpose, {there}, {{"permutation", Ints{2, 4, 1, 5, 0, 3}}}), x.shape, x.data, 0);
}

TEST_CASE("reductions") {
    const auto over = [](Ints axes, int64_t keep = 0) {
        return std::vector<NamedAttribute>{{"axes", std::move(axes)}, {"keep", keep}};
    };
    check_tensor(run1(Op::sum, {kSix}, over({0})), {3}, {5, 7, 9});
    check_tensor(run1(Op::sum, {kSix}, over({-1}, 1)), {2, 1}, {6, 15});
    check_tensor(run1(Op::sum, {kSix}, over({0, 1})), {}, {21});
    check_tensor(run1(Op::sum, {kSix}, over({})), {2, 3}, kSix.data);
    check_tensor(run1(Op::sum, {floats({0, 2}, {})}, over({0})), {2}, {0, 0});
    check_tensor(run1(Op::sum, {ints({2}, {2147483647, 2})}, over({0})), {}, {-2147483647});
    check_tensor(run1(Op::mean, {kSix}, over({1})), {2}, {2, 5});
    check_tensor(run1(Op::max, {kSix}, over({0})), {3}, {4, 5, 6});
    check_tensor(run1(Op::max, {floats({3}, {1, NAN, 2})}, over({0})), {}, {NAN});
    check_tensor(run1(Op::max, {ints({2, 2}, {-4, -3, -2, -9})}, over({1})), {2}, {-3, -2});
    check_tensor(run1(Op::logsumexp, {floats({2, 2}, {1000, 1000, -INFINITY, 3})}, over({1})), {2},
                 {1000 + std::log(2), 3});
    check_tensor(run1(Op::logsumexp, {floats({2, 2}, {-INFINITY, -INFINITY, INFINITY, 0})}, over({1})), {2},
                 {-INFINITY, INFINITY});
    const Tensor x = wave({2, 3, 4, 5}, 0.5);
    const Tensor twice = run1(Op::sum, {run1(Op::sum, {x}, over({3}))}, over({1}));
    check_tensor(run1(Op::sum, {x}, over({1, 3})), {2, 4}, twice.data, 1e-13);
}

TEST_CASE("argmax, cumsum, top_k") {
    const Tensor index = run1(Op::argmax, {floats({2, 3}, {1, 3, 3, NAN, 7, 2})});
    CHECK(index.kind == Kind::int32);
    check_tensor(index, {2}, {1, 0});
    check_tensor(run1(Op::argmax, {kSix}, {{"axis", int64_t{0}}}), {3}, {1, 1, 1});
    check_tensor(run1(Op::cumsum, {kSix}, {{"axis", int64_t{1}}}), {2, 3}, {1, 3, 6, 4, 9, 15});
    check_tensor(run1(Op::cumsum, {kSix}, {{"axis", int64_t{0}}, {"reverse", int64_t{1}}}), {2, 3}, {5, 7, 9, 4, 5, 6});
    const auto best = run(Op::top_k, {floats({2, 4}, {1, 3, 2, 3, 4, 4, 4, 5})}, {{"k", int64_t{3}}});
    check_tensor(best[0], {2, 3}, {3, 3, 2, 5, 4, 4});
    check_tensor(best[1], {2, 3}, {1, 3, 2, 3, 0, 1});
}

TEST_CASE("cumprod, cummax, logcumsumexp") {
    const auto along = [](int64_t axis, int64_t reverse = 0) {
        return std::vector<NamedAttribute>{{"axis", axis}, {"reverse", reverse}};
    };
    check_tensor(run1(Op::cumprod, {kSix}, along(1)), {2, 3}, {1, 2, 6, 4, 20, 120});
    check_tensor(run1(Op::cumprod, {kSix}, along(0, 1)), {2, 3}, {4, 10, 18, 4, 5, 6});
    check_tensor(run1(Op::cumprod, {ints({3}, {65537, 65537, -3})}, along(-1)), {3}, {65537, 131073, -393219});
    auto most = run(Op::cummax, {floats({7}, {1, 3, 2, 3, NAN, 5, NAN})}, along(0));
    check_tensor(most[0], {7}, {1, 3, 3, 3, NAN, NAN, NAN});
    CHECK(most[1].kind == Kind::int32);
    check_tensor(most[1], {7}, {0, 1, 1, 3, 4, 4, 6}); // the latest at ties, as PyTorch's
    most = run(Op::cummax, {ints({2, 3}, {1, 2, 2, -4, -5, -6})}, along(1, 1));
    check_tensor(most[0], {2, 3}, {2, 2, 2, -4, -5, -6});
    check_tensor(most[1], {2, 3}, {1, 1, 2, 0, 1, 2});
    check_tensor(run1(Op::logcumsumexp, {floats({5}, {-INFINITY, 1000, 1000, -1000, 1001})}, along(0)), {5},
                 {-INFINITY, 1000, 1000 + std::log(2), 1000 + std::log(2), 1001 + std::log1p(2 * std::exp(-1))});
    check_tensor(run1(Op::logcumsumexp, {floats({2, 2}, {0, INFINITY, 0, 1})}, along(0, 1)), {2, 2},
                 {std::log(2), INFINITY, 0, 1});
    check_tensor(run1(Op::cumprod, {floats({2, 0}, {})}, along(0)), {2, 0}, {});
    CHECK(!try_run(Op::cummax, {kSix}, along(2)).ok());
    CHECK(!try_run(Op::logcumsumexp, {ints({1}, {0})}, along(0)).ok());
}

TEST_CASE("scatter_add and scatter write what gather reads") {
    const Tensor table = floats({3, 2}, {1, 2, 3, 4, 5, 6});
    const Tensor rows = floats({3, 2}, {10, 20, 30, 40, 50, 60});
    check_tensor(run1(Op::scatter_add, {table, ints({3}, {2, 0, 2}), rows}), {3, 2}, {31, 42, 3, 4, 65, 86});
    check_tensor(run1(Op::scatter, {table, ints({3}, {2, 0, 1}), rows}), {3, 2}, {30, 40, 50, 60, 10, 20});
    check_tensor(run1(Op::scatter, {table, ints({}, {1}), floats({2}, {7, 8})}), {3, 2}, {1, 2, 7, 8, 5, 6});
    const std::vector<NamedAttribute> batched = {{"batch_dimensions", int64_t{1}}};
    check_tensor(run1(Op::scatter_add, {kSix, ints({2, 2}, {2, 0, 1, 1}), floats({2, 2}, {3, 1, 5, 6})}, batched),
                 {2, 3}, {2, 2, 6, 4, 16, 6});
    check_tensor(run1(Op::scatter, {ints({2, 2}, {1, 2, 3, 4}), ints({2}, {1, 0}), ints({2}, {-7, -8})}, batched),
                 {2, 2}, {1, -7, -8, 4});
    check_tensor(run1(Op::scatter_add, {ints({1}, {2147483647}), ints({2}, {0, 0}), ints({2}, {1, 1})}), {1},
                 {-2147483647});
    check_tensor(run1(Op::scatter, {table, ints({0}, {}), floats({0, 2}, {})}), {3, 2}, table.data);
    const auto refused = [](Op op, const Inputs& inputs, const std::string& why,
                            const std::vector<NamedAttribute>& attributes = {}) {
        const auto result = try_run(op, inputs, attributes);
        CHECK(result.code() == Code::invalid_argument);
        CHECK_MESSAGE(result.message().find(why) != std::string::npos, result.message());
    };
    for (const Op op : {Op::scatter_add, Op::scatter}) {
        for (const double bad : {-1.0, 3.0})
            refused(op, {table, ints({3}, {2, 0, bad}), rows}, "element 2 of indices [3] is");
        refused(op, {table, ints({2}, {0, 1}), rows}, "values is [3, 2], expected [2, 2]");
        refused(op, {table, ints({3}, {2, 0, 1}), ints({3, 2}, {1, 2, 3, 4, 5, 6})}, "cast one of them");
        refused(op, {table, ints({2}, {0, 0}), rows}, "[3, 2] and indices [2] differ in dimension 0", batched);
        refused(op, {table, ints({2}, {0, 0}), rows}, "2 batch dimensions", {{"batch_dimensions", int64_t{2}}});
    }
    refused(Op::scatter, {table, ints({3}, {2, 0, 2}), rows}, "element 2 of indices [3] is 2 again");
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 3}), twice = b.constant(Kind::int32, {2, 2}, {0, 1, 1, 1});
    b(Op::scatter, {x, twice, b.input("values", Kind::float_, {2, 2})}, {{"batch_dimensions", int64_t{1}}});
    CHECK_MESSAGE(b.status().message().find("element 3 of indices [2, 2] is 1 again") != std::string::npos,
                  b.status().message());
}

TEST_CASE("one_hot") {
    const auto of = [](int64_t size) { return std::vector<NamedAttribute>{{"size", size}}; };
    const Tensor y = run1(Op::one_hot, {ints({2, 2}, {2, 0, -1, 3})}, of(3));
    CHECK(y.kind == Kind::int32);
    check_tensor(y, {2, 2, 3}, {0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
    check_tensor(run1(Op::one_hot, {ints({}, {0})}, of(1)), {1}, {1});
    const auto why = [&](const Inputs& inputs, const std::vector<NamedAttribute>& attributes) {
        const auto result = try_run(Op::one_hot, inputs, attributes);
        CHECK(result.code() == Code::invalid_argument);
        return std::string(result.message());
    };
    CHECK(why({ints({1}, {0})}, of(0)).find("size is 0, expected at least 1") != std::string::npos);
    CHECK(why({floats({1}, {0})}, of(2)).find("indices are float, expected int32") != std::string::npos);
    CHECK(why({ints({1}, {0})}, {}).find("attribute size is missing") != std::string::npos);
    CHECK(why({ints({1, 1, 1, 1, 1, 1}, {0})}, of(2)).find("too many dimensions") != std::string::npos);
}

TEST_CASE("embedding and gather") {
    const Tensor table = floats({3, 2}, {1, 2, 3, 4, 5, 6});
    check_tensor(run1(Op::embedding, {table, ints({2, 2}, {2, 0, 1, 1})}), {2, 2, 2}, {5, 6, 1, 2, 3, 4, 3, 4});
    check_tensor(run1(Op::embedding_gradient, {floats({3, 2}, {1, 2, 3, 4, 5, 6}), ints({3}, {2, 0, 2})},
                      {{"rows", int64_t{4}}, {"no_gradient_id", int64_t{0}}}),
                 {4, 2}, {0, 0, 0, 0, 6, 8, 0, 0});
    check_tensor(run1(Op::gather, {table, ints({2}, {2, 0})}), {2, 2}, {5, 6, 1, 2});
    check_tensor(run1(Op::gather, {kSix, ints({2, 2}, {2, 0, 1, 1})}, {{"batch_dimensions", int64_t{1}}}), {2, 2},
                 {3, 1, 5, 5});
    check_tensor(run1(Op::gather, {ints({2, 2}, {1, 2, 3, 4}), ints({2}, {1, 0})}, {{"batch_dimensions", int64_t{1}}}),
                 {2}, {2, 3});
    for (const double bad : {-1.0, 3.0}) {
        const auto refused = try_run(Op::embedding, {table, ints({2}, {0, bad})});
        CHECK(refused.code() == Code::invalid_argument);
        CHECK_MESSAGE(refused.message().find("element 1 of ids") != std::string::npos, refused.message());
        CHECK(!try_run(Op::gather, {table, ints({1}, {bad})}).ok());
    }
}

TEST_CASE("a graph computes only the requested outputs") {
    Builder b;
    const ValueId x = b.parameter("x", {3}, 0, 0, 0, 0);
    const ValueId unused = b.parameter("not given", {3}, 0, 0, 0, 0);
    const ValueId view = b(Op::reshape, {b(Op::neg, {x})}, {{"shape", Ints{3, 1}}});
    const ValueId y = b(Op::add, {view, b.scalar(1)});
    const ValueId z = b(Op::add, {y, unused});
    auto graph = b.finish();
    REQUIRE(graph.ok());
    Feeds feeds;
    feeds.parameters["x"] = floats({3}, {1, 2, 3});
    const std::vector<ValueId> wanted = {y, view, x, y};
    const auto values = evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    check_tensor(values.value()[0], {3, 1}, {0, -1, -2});
    check_tensor(values.value()[1], {3, 1}, {-1, -2, -3});
    check_tensor(values.value()[2], {3}, {1, 2, 3});
    check_tensor(values.value()[3], {3, 1}, {0, -1, -2});
    CHECK(feeds.parameters["x"].data == std::vector<double>{1, 2, 3});

    const auto missing = evaluate(graph.value(), feeds, {&z, 1});
    CHECK(missing.code() == Code::not_found);
    CHECK(missing.message().find("'not given'") != std::string::npos);
    feeds.parameters["not given"] = floats({4}, {1, 2, 3, 4});
    const auto wrong = evaluate(graph.value(), feeds, {&z, 1});
    CHECK(wrong.code() == Code::invalid_argument);
    CHECK_MESSAGE(wrong.message().find("[4]") != std::string::npos, wrong.message());
    const ValueId outside = 999;
    CHECK(!evaluate(graph.value(), feeds, {&outside, 1}).ok());
}

TEST_CASE("visiting passes every computed node with its values") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2});
    const ValueId once = b(Op::once, {b(Op::exp, {x})}, {{"name", std::string("n")}});
    const ValueId y = b(Op::log, {once});
    b(Op::sin, {x}); // not needed
    auto graph = b.finish();
    REQUIRE(graph.ok());
    Feeds feeds;
    feeds.fields["x"] = floats({2}, {0, 1});
    std::vector<std::string> seen;
    const auto values =
        evaluate_visiting(graph.value(), feeds, {&y, 1}, [&](NodeId id, std::span<const Tensor> outputs) {
            seen.emplace_back(info(graph->nodes[id].op).name);
            REQUIRE(outputs.size() == 1);
            check_tensor(outputs[0], {2},
                         seen.back() == "exp" || seen.back() == "once" ? std::vector<double>{1, std::exp(1)}
                                                                       : std::vector<double>{0, 1});
        });
    REQUIRE(values.ok());
    CHECK(seen == std::vector<std::string>{"input", "exp", "once", "log"});
}

TEST_CASE("chosen values are rounded before they are read, and the feeds stay as they are") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2});
    const ValueId ids = b.input("ids", Kind::int32, {2});
    const ValueId doubled = b(Op::add, {x, x});
    const ValueId y = b(Op::add, {doubled, doubled});
    auto graph = b.finish();
    REQUIRE(graph.ok());
    Feeds feeds;
    feeds.fields["x"] = floats({2}, {0.3, 1.3});
    feeds.fields["ids"] = ints({2}, {3, 4});
    const ValueId wanted[] = {y, x, ids};
    const auto rounded = [&](std::initializer_list<ValueId> of) {
        std::vector<bool> chosen(graph->values.size(), false);
        for (const ValueId value : of) chosen[value] = true;
        const auto values =
            evaluate_rounded(graph.value(), feeds, wanted, chosen, [](double v) { return std::round(v); });
        REQUIRE(values.ok());
        check_tensor(values.value()[2], {2}, {3, 4});
        return std::pair(values.value()[0].data, values.value()[1].data);
    };
    CHECK(rounded({doubled, ids}) == std::pair(std::vector<double>{2, 6}, std::vector<double>{0.3, 1.3}));
    CHECK(rounded({x}) == std::pair(std::vector<double>{0, 4}, std::vector<double>{0, 1}));
    CHECK(rounded({}).second == feeds.fields["x"].data);
}

TEST_CASE("leaves") {
    Builder b;
    const std::vector<ValueId> wanted = {b.constant(Kind::int32, {2}, {4, 5}),
                                         b.fill(Kind::float32, {2, 1}, 7),
                                         b.iota(4, 3, -2),
                                         b.positions(2, 3),
                                         b.step_scalar("s", 0.5),
                                         b.step_scalar("t", 0.5),
                                         b.buffer("given", Kind::float_, {1}, {1}),
                                         b.buffer("described", Kind::float_, {1}, {1})};
    auto graph = b.finish();
    REQUIRE(graph.ok());
    Feeds feeds;
    feeds.step_scalars["t"] = 2;
    feeds.buffers["given"] = floats({1}, {9});
    const auto values = evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    const std::vector<std::vector<double>> expected = {{4, 5}, {7, 7}, {3, 1, -1, -3}, {0, 1, 2, 0, 1, 2}, {0.5}, {2},
                                                       {9},    {1}};
    for (std::size_t i = 0; i < expected.size(); ++i) check_values(values.value()[i], expected[i], 0);
}

} // namespace hekla::test::reference_shape_test
