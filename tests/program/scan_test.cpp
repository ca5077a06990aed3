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

TEST_CASE("a long logcumsumexp is as exact as float32 allows") {
    Bench bench;
    Builder b;
    const ValueId x = b(Op::mul, {b.parameter("x", {2, 4001}, 0, 0, 0, 0), b.scalar(8.0)});
    const std::vector<ValueId> y = scan(b, Op::logcumsumexp, x, 1, 0);
    check_kernel(bench, with_gradients(std::move(b), y[0]), 3e-6);
}

} // namespace scan_test
