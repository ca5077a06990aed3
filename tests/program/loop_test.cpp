// Loops on the device: the graph that they become, and its gradients, against the interpreter.
#include "program/kernel_case.hpp"

namespace hekla::test::loop_test {

namespace {

ValueId step_of(Builder& b, ValueId index, ValueId x, int64_t axis) {
    return b(Op::loop_step, {index, x}, {{"axis", axis}});
}

// h = tanh(drive_t + u h) with one weight for all steps, or elementwise.
Graph elman(int64_t rows, int64_t steps, int64_t size, bool reverse, bool elementwise) {
    Builder b;
    const auto parameter = [&](const char* name, const Shape& shape) { return b.parameter(name, shape, 0, 0, 0, 0); };
    const ValueId x = b(Op::linear, {parameter("x", {rows, steps, size}), parameter("w", {size, size})});
    const ValueId u = b(Op::mul, {parameter("u", elementwise ? Shape{size} : Shape{size, size}), b.scalar(0.3)});
    const ValueId t = b(Op::loop_index, {}, {{"length", steps}, {"reverse", int64_t{reverse}}});
    const ValueId h = b(Op::loop_state, {t, parameter("h0", {rows, size})});
    const ValueId turned = elementwise ? b(Op::mul, {h, u}) : b(Op::linear, {h, u});
    const ValueId next = b(Op::tanh, {b(Op::add, {step_of(b, t, x, 1), turned})});
    b.output("last", b(Op::loop_next, {h, next}));
    const ValueId all = b(Op::loop_collect, {t, next}, {{"axis", int64_t{1}}});
    return with_gradients(std::move(b), all);
}

} // namespace

TEST_CASE("recurrent loops, and their gradients") {
    Bench bench;
    for (const bool elementwise : {false, true})
        for (const bool reverse : {false, true}) {
            CAPTURE(elementwise);
            CAPTURE(reverse);
            check_kernel(bench, elman(1, 1, 1, reverse, elementwise), 3e-6);
            check_kernel(bench, elman(3, 11, 19, reverse, elementwise), 1e-5);
            check_kernel(bench, elman(1, 5, 67, reverse, elementwise), 1e-5); // its products with u are joined
        }
}

TEST_CASE("loops in loops, along other axes, with whole numbers") {
    Bench bench;
    Builder b;
    const ValueId x = b.parameter("x", {5, 2, 3}, 0, 0, 0, 0), n = b.input("n", Kind::int32, {2, 3});
    const ValueId t = b(Op::loop_index, {}, {{"length", int64_t{5}}}),
                  s = b(Op::loop_index, {}, {{"length", int64_t{3}}, {"reverse", int64_t{1}}});
    const ValueId sum = b(Op::loop_state, {t, b.fill(Kind::float_, {2}, 0.5)});
    const ValueId inner = b(Op::loop_state, {s, sum}), count = b(Op::loop_state, {s, b.fill(Kind::int32, {2}, 0.0)});
    const ValueId now = step_of(b, s, step_of(b, t, x, 0), -1);
    const ValueId next = b(Op::mul, {b(Op::sin, {b(Op::add, {inner, now})}), b.scalar(1.25)});
    const ValueId last = b(Op::loop_next, {inner, next});
    const ValueId counted = b(Op::loop_next, {count, b(Op::add, {count, b(Op::add, {step_of(b, s, n, 1), t})})});
    b.output("counts", b(Op::loop_collect, {t, counted}, {{"axis", int64_t{0}}}));
    b(Op::loop_next, {sum, last});
    const ValueId all = b(Op::loop_collect, {t, last}, {{"axis", int64_t{-1}}});
    check_kernel(bench, with_gradients(std::move(b), all), 3e-6);
}

} // namespace hekla::test::loop_test
