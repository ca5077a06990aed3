// Gradients in the forward pass (gradient_of) and given gradients (with_gradient): the device against the interpreter.
#include "program/kernel_case.hpp"

namespace gradient_of_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Sizes {
    int64_t rows, in, width;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {3, 7, 5}, {17, 32, 64}, {64, 33, 130}};

ValueId layer(Builder& b, ValueId x, const std::string& name, int64_t in, int64_t out) {
    return b(Op::linear,
             {x, b.parameter(name + ".weight", {out, in}, 0, 0, 0, 0), b.parameter(name + ".bias", {out}, 0, 0, 0, 0)});
}

// A critic of points, in the ways that a network is built.
ValueId critic(Builder& b, ValueId x, const Sizes& s) {
    ValueId y = b(Op::gelu, {layer(b, x, "first", s.in, s.width)});
    y = b(Op::layer_norm,
          {y, b.parameter("norm.weight", {s.width}, 0, 0, 0, 0), b.parameter("norm.bias", {s.width}, 0, 0, 0, 0)});
    y = b(Op::mul, {y, b(Op::softmax, {layer(b, y, "gate", s.width, s.width)}, {{"axis", int64_t{-1}}})});
    y = b(Op::tanh, {layer(b, y, "second", s.width, s.width)});
    return layer(b, y, "out", s.width, 1);
}

void check_all(Bench& bench) {
    for (const Sizes& s : kSizes) {
        CAPTURE(s.rows);
        CAPTURE(s.width);
        Builder b;
        const ValueId x = b.parameter("x", {s.rows, s.in}, 0, 0, 0, 0);
        const ValueId dx = b(Op::gradient_of, {critic(b, x, s), x}); // [rows, in]
        check_kernel(bench, with_gradients(std::move(b), dx), 2e-5 + 1e-6 * static_cast<double>(s.width));
    }
}

} // namespace

TEST_CASE("gradient_of, and its gradients") {
    Bench bench;
    check_all(bench);
}

TEST_CASE("gradient_of on GPUs") {
    GpuKernelsBench bench;
    check_all(bench);
}

TEST_CASE("with_gradient in the middle of a graph") {
    Bench bench;
    for (const int64_t size : {1, 7, 64}) {
        Builder b;
        const ValueId x = b.parameter("x", {3, size}, 0, 0, 0, 0), scale = b.parameter("scale", {size}, 0, 0, 0, 0);
        const ValueId hidden = b(Op::mul, {b(Op::tanh, {x}), scale});
        const ValueId y = b(Op::round, {b(Op::mul, {hidden, b.scalar(8)})});
        const ValueId dy = b(Op::incoming_gradient, {y});
        const ValueId inside = b(Op::clamp, {b(Op::mul, {dy, b(Op::cos, {hidden})})}, {{"low", -0.5}, {"high", 0.5}});
        const ValueId result = b(Op::with_gradient, {y, dy, hidden, inside});
        check_kernel(bench, with_gradients(std::move(b), b(Op::mul, {result, scale})), 3e-6);
    }
}

} // namespace gradient_of_test
