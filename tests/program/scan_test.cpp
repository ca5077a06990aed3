// Scans along an axis: the device against the interpreter.
#include "program/kernel_case.hpp"

namespace scan_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr Op kScans[] = {Op::cumsum, Op::cumprod, Op::cummax, Op::logcumsumexp};

std::vector<ValueId> scan(Builder& b, Op op, ValueId x, int64_t axis, int64_t reverse) {
    const ValueId inputs[] = {x};
    const graph::NamedAttribute attributes[] = {{"axis", axis}, {"reverse", reverse}};
    return b.emit(op, inputs, attributes);
}

} // namespace

TEST_CASE("scans in the middle of a graph, and their gradients") {
    Bench bench;
    for (const Op op : kScans)
        for (const Shape& shape : {Shape{1}, Shape{13}, Shape{3, 7, 5}, Shape{1, 31, 1}, Shape{2, 1, 3}, Shape{521, 3}})
            for (int64_t axis = 0; axis < shape.rank(); ++axis)
                for (const int64_t reverse : {0, 1}) {
                    CAPTURE(graph::info(op).name);
                    CAPTURE(shape.text());
                    CAPTURE(axis);
                    CAPTURE(reverse);
                    Builder b;
                    const ValueId x = b(Op::mul, {b.parameter("x", shape, 0, 0, 0, 0), b.scalar(1.25)});
                    const std::vector<ValueId> y = scan(b, op, x, axis - (reverse != 0 ? shape.rank() : 0), reverse);
                    REQUIRE_MESSAGE(b.ok(), b.status().message());
                    if (y.size() > 1) b.output("indices", y[1]);
                    const ValueId value = b(Op::mul, {y[0], x});
                    check_kernel(bench, with_gradients(std::move(b), value), 3e-6);
                }
}

TEST_CASE("scans of integers, of views, and at the ends of the numbers") {
    Bench bench;
    Builder b;
    const ValueId n = b.input("n", Kind::int32, {3, 11});
    const ValueId turned = b(Op::transpose, {n}, {{"permutation", std::vector<int64_t>{1, 0}}});
    const ValueId special = b.input("special", Kind::float_, {4, 7});
    for (const Op op : kScans)
        for (const int64_t reverse : {0, 1}) {
            const std::string name = fmt::format("{} {}", graph::info(op).name, reverse);
            if (op != Op::logcumsumexp) {
                const std::vector<ValueId> y = scan(b, op, turned, 0, reverse);
                b.output(name, y[0]);
                if (y.size() > 1) b.output(name + " indices", y[1]);
            }
            const std::vector<ValueId> y = scan(b, op, special, 1, reverse);
            b.output(name + " special", y[0]);
            if (y.size() > 1) b.output(name + " special indices", y[1]);
        }
    const Graph graph = finished(std::move(b));
    Random random(5);
    graph::Feeds feeds;
    feeds.fields["n"] = random.tensor(Kind::int32, {3, 11}, 1.0, 100);
    for (double& value : feeds.fields["n"].data) value -= 50;
    feeds.fields["special"] = {Kind::float_, {4, 7}, {-INFINITY, -INFINITY, 1,   2,        2, -3,  -INFINITY, //
                                                      0,         0,         5,   INFINITY, 3, 4,   0,         //
                                                      1,         2,         NAN, 3,        1, NAN, 9,         //
                                                      80,        -80,       85,  85,       0, 86,  -90}};
    const Outcome got = run_on_device(*bench, graph, feeds, {}), expected = run_in_interpreter(graph, feeds);
    for (const auto& [name, tensor] : expected) {
        CAPTURE(name);
        const std::vector<double>& values = got.at(name).data;
        for (std::size_t i = 0; i < values.size(); ++i) {
            CAPTURE(i);
            const double x = values[i], y = tensor.data[i];
            const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= 1e-6 * std::abs(y);
            CHECK_MESSAGE(same, x << " and " << y);
        }
    }
}

TEST_CASE("linear recurrences in the middle of a graph, with and without an initial value, and their gradients") {
    Bench bench;
    for (const Shape& shape : {Shape{1}, Shape{13}, Shape{3, 7, 5}, Shape{1, 31, 1}, Shape{2, 1, 3}, Shape{521, 3}})
        for (int64_t axis = 0; axis < shape.rank(); ++axis)
            for (const int64_t reverse : {0, 1})
                for (const bool initial : {false, true}) {
                    CAPTURE(shape.text());
                    CAPTURE(axis);
                    CAPTURE(reverse);
                    CAPTURE(initial);
                    Builder b;
                    const ValueId x = b(Op::mul, {b.parameter("x", shape, 0, 0, 0, 0), b.scalar(1.25)});
                    const ValueId a = b(Op::sigmoid, {b.parameter("a", shape, 0, 0, 0, 0)});
                    std::vector<ValueId> inputs{x, a};
                    Shape line = shape;
                    line.erase(static_cast<int>(axis));
                    if (initial) inputs.push_back(b(Op::tanh, {b.parameter("initial", line, 0, 0, 0, 0)}));
                    const graph::NamedAttribute attributes[] = {{"axis", axis - (reverse != 0 ? shape.rank() : 0)},
                                                                {"reverse", reverse}};
                    const std::vector<ValueId> y = b.emit(Op::scan_linear, inputs, attributes);
                    REQUIRE_MESSAGE(b.ok(), b.status().message());
                    check_kernel(bench, with_gradients(std::move(b), b(Op::mul, {y[0], x})), 3e-6);
                }
}

TEST_CASE("a long linear recurrence, in chunks that pass on their state") {
    Bench bench;
    constexpr int64_t kLength = 1009, kChunk = 127;
    Builder b;
    const ValueId x = b(Op::mul, {b.parameter("x", {2, kLength, 3}, 0, 0, 0, 0), b.scalar(0.5)});
    const ValueId a = b(Op::sigmoid, {b.parameter("a", {2, kLength, 3}, 0, 0, 0, 0)});
    const auto part = [&](ValueId value, int64_t from, int64_t length) {
        return b(Op::slice, {value}, {{"axis", int64_t{1}}, {"start", from}, {"length", length}});
    };
    const graph::NamedAttribute along[] = {{"axis", int64_t{1}}};
    const ValueId whole_inputs[] = {x, a};
    b.output("whole", b.emit(Op::scan_linear, whole_inputs, along)[0]);
    ValueId state = b.fill(Kind::float_, {2, 3}, 0.0);
    std::vector<ValueId> chunks;
    for (int64_t from = 0; from < kLength; from += kChunk) {
        const int64_t length = std::min(kChunk, kLength - from);
        const ValueId inputs[] = {part(x, from, length), part(a, from, length), state};
        chunks.push_back(b.emit(Op::scan_linear, inputs, along)[0]);
        state = b(Op::reshape, {part(chunks.back(), length - 1, 1)}, {{"shape", std::vector<int64_t>{2, 3}}});
    }
    b.output("chunks", b.emit(Op::concat, chunks, along)[0]);
    const Graph graph = finished(std::move(b));
    Random random(7);
    graph::Feeds feeds;
    for (const char* name : {"x", "a"}) feeds.parameters[name] = random.tensor(Kind::float_, {2, kLength, 3}, 1.0, 0);
    const Outcome got = run_on_device(*bench, graph, feeds, {});
    CHECK(got.at("chunks").data == got.at("whole").data); // the same bits
}

TEST_CASE("a long logcumsumexp is as exact as float32 allows") {
    Bench bench;
    Builder b;
    const ValueId x = b(Op::mul, {b.parameter("x", {2, 4001}, 0, 0, 0, 0), b.scalar(8.0)});
    const std::vector<ValueId> y = scan(b, Op::logcumsumexp, x, 1, 0);
    check_kernel(bench, with_gradients(std::move(b), y[0]), 3e-6);
}

} // namespace scan_test
