// gru and lstm: the device against the interpreter, forward and backward through time.
#include "program/kernel_case.hpp"

namespace recurrent_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Case {
    int64_t batch, time, in, hidden;
    bool lengths, initial, reverse;
};

constexpr Case kCases[] = {
    {1, 1, 1, 1, false, false, false},
    {2, 5, 3, 4, false, true, false},
    {3, 7, 5, 9, true, false, false},
    {3, 7, 5, 9, true, true, true},
    {2, 4, 8, 33, true, true, false},
    {2, 6, 20, 24, false, false, true},
    // Several rows per workgroup, fewer in the last one; more units than a workgroup's lanes process at once.
    {7, 5, 4, 71, true, true, true},
    {5, 3, 2, 6, false, false, false},
    {37, 3, 3, 37, true, true, false},
    {32, 4, 2, 130, false, false, true},
};

// Combines all outputs, so that every one of them gets a gradient.
ValueId joined(Builder& b, const std::vector<ValueId>& outputs) {
    std::vector<ValueId> rows;
    for (const ValueId output : outputs)
        rows.push_back(b(Op::reshape, {output}, {{"shape", std::vector<int64_t>{-1}}}));
    const graph::NamedAttribute axis[] = {{"axis", int64_t{0}}};
    return b.emit(Op::concat, rows, axis).at(0);
}

} // namespace

TEST_CASE("gru and lstm with their options, and gradients") {
    Bench bench;
    for (const Op op : {Op::gru, Op::lstm})
        for (const Case& c : kCases)
            for (const bool all : {true, false}) {
                // With instrumentation, a step backward in time compiles for a minute: only once without and once with
                // every option.
                const bool most = c.lengths && c.initial && c.reverse;
                if (instrumented() && !(c.batch == 1 || most)) continue;
                CAPTURE(graph::info(op).name);
                CAPTURE(c.hidden);
                CAPTURE(c.reverse);
                CAPTURE(all);
                const int64_t width = (op == Op::gru ? 3 : 4) * c.hidden;
                Builder b;
                const ValueId x = b.parameter("x", {c.batch, c.time, c.in}, 0, 0, 0, 0);
                std::vector<ValueId> inputs{b(Op::mul, {x, b.scalar(1.5)}), // mid-graph
                                            b.parameter("input_weight", {width, c.in}, 0, 0, 0, 0),
                                            b.parameter("hidden_weight", {width, c.hidden}, 0, 0, 0, 0),
                                            b.parameter("input_bias", {width}, 0, 0, 0, 0),
                                            b.parameter("hidden_bias", {width}, 0, 0, 0, 0),
                                            c.lengths ? b.input("lengths", Kind::int32, {c.batch}) : graph::kNone,
                                            c.initial ? b.parameter("initial", {c.batch, c.hidden}, 0, 0, 0, 0)
                                                      : graph::kNone};
                if (op == Op::lstm)
                    inputs.push_back(c.initial ? b.parameter("initial_cell", {c.batch, c.hidden}, 0, 0, 0, 0)
                                               : graph::kNone);
                const graph::NamedAttribute reverse[] = {{"reverse", int64_t{c.reverse}}};
                std::vector<ValueId> outputs = b.emit(op, inputs, reverse);
                REQUIRE_MESSAGE(b.ok(), b.status().message());
                outputs.resize(op == Op::gru ? 2 : 3); // the cells are hidden
                const ValueId y = all ? joined(b, outputs) : outputs[1];
                check_kernel(bench, with_gradients(std::move(b), y), 2e-5, {{"lengths", c.time + 1}},
                             static_cast<uint64_t>(c.hidden));
            }
}

} // namespace recurrent_test
