// Random numbers: the device against the interpreter.
#include "program/kernel_case.hpp"

namespace random_test {

using namespace hekla;
using namespace hekla::test;

TEST_CASE("random numbers of every distribution in the middle of a graph") {
    Bench bench;
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{13}, Shape{7, 301}, Shape{3, 5, 17}}) {
        CAPTURE(shape.text());
        Builder b;
        const auto draw = [&](const std::string& name, Op op, std::vector<graph::NamedAttribute> attributes) {
            attributes.push_back({"shape", shape.vector()});
            const std::vector<ValueId> y = b.emit(op, {}, attributes);
            REQUIRE_MESSAGE(b.ok(), b.status().message());
            b.output(name, b(Op::mul, {y[0], b.scalar(0.75)}));
        };
        draw("uniform", Op::random_uniform, {});
        draw("normal", Op::random_normal, {});
        draw("two deviations", Op::truncated_normal, {});
        draw("one side", Op::truncated_normal, {{"low", -0.5}, {"high", 3.0}});
        draw("narrow", Op::truncated_normal, {{"low", -1e-3}, {"high", 2e-3}});
        draw("wide", Op::truncated_normal, {{"low", -7.0}, {"high", 7.0}});
        draw("far below", Op::truncated_normal, {{"low", -9.0}, {"high", -5.0}});
        draw("far above", Op::truncated_normal, {{"low", 4.0}, {"high", INFINITY}});
        check_kernel(bench, finished(std::move(b)), 3e-6);
    }
}

} // namespace random_test
