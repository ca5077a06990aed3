// Loops: the graph that they become, against operations that compute the same, and what is refused. Their gradients
// against finite differences are in gradient_test.cpp, with those of slices and products that come in numbers.
#include "gradient_cases.hpp"

#include "graph/operations/loop.hpp"
#include "graph/text.hpp"

#include <array>
#include <functional>
#include <set>

namespace hekla::test {

namespace {

using Values = std::span<const ValueId>;

ValueId loop(Builder& b, int64_t length, bool reverse = false) {
    return b(Op::loop_index, {}, {{"length", length}, {"reverse", int64_t{reverse}}});
}

ValueId step_of(Builder& b, ValueId index, ValueId x, int64_t axis = 1) {
    return b(Op::loop_step, {index, x}, {{"axis", axis}});
}

ValueId collected(Builder& b, ValueId index, ValueId y, int64_t axis = 1) {
    return b(Op::loop_collect, {index, y}, {{"axis", axis}});
}

ValueId zeros(Builder& b, const Shape& shape) { return b.fill(Kind::float_, shape, 0.0); }

// h = tanh(w x_t + u h) for x with its steps along `axis`; all h and the last.
GradientCase elman(const Shape& x, int64_t axis, bool reverse) {
    return {fmt::format("loop {} axis {} {}", x.text(), axis, reverse ? "reverse" : "forward"),
            {{x}, {{x[-1]}}, {{x[-1]}}},
            [=](Builder& b, Values v) {
                const int from_start = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
                Shape one = x;
                one.erase(from_start);
                const ValueId t = loop(b, x[from_start], reverse), h = b(Op::loop_state, {t, zeros(b, one)});
                const ValueId drive = b(Op::mul, {step_of(b, t, v[0], axis), v[1]});
                const ValueId next = b(Op::tanh, {b(Op::add, {drive, b(Op::mul, {h, v[2]})})});
                return std::vector{b(Op::loop_next, {h, next}), collected(b, t, next, axis)};
            }};
}

// The same with matrices, so that all steps multiply by one weight.
GradientCase with_matrices(int64_t rows, int64_t steps, int64_t size, bool input_first) {
    return {
        fmt::format("loop of products {} {} {} {}", rows, steps, size, input_first),
        {{{rows, steps, size}}, {{size, size}}, {{size, size}}, {{rows, size}}},
        [=](Builder& b, Values v) {
            const ValueId t = loop(b, steps), h = b(Op::loop_state, {t, v[3]});
            const ValueId drive = b(Op::linear, {step_of(b, t, v[0]), v[1]}, {{"input_first", int64_t{input_first}}});
            const ValueId turned = b(Op::matmul, {h, v[2]}, {{"transpose_b", int64_t{!input_first}}});
            const ValueId next = b(Op::tanh, {b(Op::add, {drive, turned})});
            return std::vector{b(Op::loop_next, {h, next}), collected(b, t, h, 0)};
        }};
}

// y[t] = sum over s <= t of softplus(x[t] + z[s]), by a loop in a loop, and the product of all.
GradientCase nested(int64_t outer, int64_t inner) {
    return {fmt::format("loops {} {}", outer, inner), {{{2, outer}}, {{2, inner}}}, [=](Builder& b, Values v) {
                const ValueId t = loop(b, outer), product = b(Op::loop_state, {t, b.fill(Kind::float_, {2}, 1.0)});
                const ValueId s = loop(b, inner, true), sum = b(Op::loop_state, {s, zeros(b, {2})});
                const ValueId term = b(Op::softplus, {b(Op::add, {step_of(b, t, v[0]), step_of(b, s, v[1])})});
                const ValueId before = b(Op::compare, {s, t}, {{"relation", int64_t{3}}});
                const ValueId last =
                    b(Op::loop_next, {sum, b(Op::add, {sum, b(Op::where, {before, term, zeros(b, {2})})})});
                const ValueId all = b(Op::loop_next, {product, b(Op::mul, {product, b(Op::add, {last, b.scalar(1)})})});
                return std::vector{all, collected(b, t, last, -1)};
            }};
}

// Slices with and without gaps, that overlap, along two axes, and a use of the whole.
GradientCase many_slices(const std::string& name, std::vector<std::array<int64_t, 3>> slices, bool whole) {
    return {"slices " + name, {{{5, 11}}}, [=](Builder& b, Values v) {
                std::vector<ValueId> parts;
                for (const auto& [axis, start, length] : slices)
                    parts.push_back(
                        b(Op::exp, {b(Op::slice, {v[0]}, {{"axis", axis}, {"start", start}, {"length", length}})}));
                if (whole) parts.push_back(b(Op::sin, {v[0]}));
                return parts;
            }};
}

Tensor evaluated(const Graph& graph, const Feeds& feeds, const std::string& output) {
    const ValueId wanted = graph.outputs.at(output);
    auto values = evaluate(graph, feeds, {&wanted, 1});
    REQUIRE_MESSAGE(values.ok(), values.message());
    return values.take()[0];
}

Graph finished(Builder& b) {
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status status = check(graph.value());
    REQUIRE_MESSAGE(status.ok(), status.message());
    const auto read = parse(print(graph.value()));
    REQUIRE_MESSAGE(read.ok(), read.message());
    return graph.take();
}

void check_equal(const Tensor& a, const Tensor& b, double tolerance) {
    REQUIRE(a.shape == b.shape);
    for (std::size_t i = 0; i < a.data.size(); ++i) CHECK(std::abs(a.data[i] - b.data[i]) <= tolerance);
}

std::string refusal(const std::function<void(Builder&)>& describe) {
    Builder b;
    b.scope_begin("here");
    describe(b);
    b.scope_end();
    const Result<Graph> graph = b.finish();
    CHECK(!graph.ok());
    return std::string(graph.message());
}

void contains(const std::string& message, const char* part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

std::size_t count(const Graph& graph, Op op) {
    return static_cast<std::size_t>(std::ranges::count(graph.nodes, op, &Node::op));
}

} // namespace

std::vector<GradientCase> loop_cases() {
    std::vector<GradientCase> cases;
    for (const bool reverse : {false, true}) {
        for (const Shape& x : {Shape{2, 1, 3}, Shape{2, 5, 3}, Shape{1, 7, 1}, Shape{3, 2, 2}})
            cases.push_back(elman(x, 1, reverse));
        cases.push_back(elman({5, 3}, 0, reverse));
        cases.push_back(elman({2, 3, 5, 2}, -2, reverse));
        cases.push_back(with_matrices(1, 7, 5, reverse)); // its products are joined
        cases.push_back(with_matrices(7, 3, 2, reverse)); // these are not
    }
    cases.push_back(nested(3, 2));
    cases.push_back(nested(1, 5));
    cases.push_back(
        {"loop whose states change places", {{{3}}, {{3}}}, [](Builder& b, Values v) {
             const ValueId t = loop(b, 3), p = b(Op::loop_state, {t, v[0]}), q = b(Op::loop_state, {t, v[1]});
             return std::vector{b(Op::loop_next, {p, b(Op::sin, {q})}), b(Op::loop_next, {q, p})};
         }});
    for (const bool whole : {false, true}) {
        const std::string suffix = whole ? " and the whole" : "";
        cases.push_back(many_slices("all" + suffix, {{1, 3, 4}, {1, 0, 3}, {1, 7, 3}, {1, 10, 1}}, whole));
        cases.push_back(many_slices("with gaps" + suffix, {{1, 1, 2}, {1, 4, 1}, {1, 5, 3}, {1, 9, 1}}, whole));
        cases.push_back(many_slices("that overlap" + suffix, {{1, 1, 3}, {1, 2, 1}, {1, 5, 3}, {1, 9, 1}}, whole));
        cases.push_back(many_slices("of two axes" + suffix, {{1, 1, 3}, {0, 2, 1}, {1, 5, 3}, {-1, 9, 1}}, whole));
        cases.push_back(
            many_slices("of an axis from the end" + suffix, {{-1, 1, 3}, {1, 4, 1}, {-1, 5, 3}, {1, 9, 1}}, whole));
    }
    cases.push_back(
        {"products with one matrix, some with it transposed", {{{4, 7}}, {{7, 7}}}, [](Builder& b, Values v) {
             std::vector<ValueId> y;
             for (int64_t i = 0; i < 4; ++i) {
                 const ValueId x = b(Op::slice, {v[0]}, {{"axis", int64_t{0}}, {"start", i}, {"length", int64_t{1}}});
                 y.push_back(b(Op::linear, {x, v[1]}, {{"input_first", i % 2}}));
                 if (i > 1) y.push_back(b(Op::matmul, {x, v[1]}));
             }
             return y;
         }});
    return cases;
}

TEST_CASE("gradients agree with finite differences: loops, many slices, many products with a matrix") {
    for (const GradientCase& c : loop_cases()) check_gradients(c);
}

TEST_CASE("the gradient of what steps read and of what they multiply by is computed at once") {
    const auto made = differentiate_case(with_matrices(1, 7, 5, true));
    REQUIRE_MESSAGE(made.ok(), made.message());
    const Graph& graph = made.value().graph;
    CHECK(count(graph, Op::unslice) == 0);
    std::size_t weights = 0; // products of [5, 7] and [7, 5]
    for (const Node& node : graph.nodes)
        if (node.op == Op::matmul && graph.shape(node.outputs[0]) == Shape{5, 5}) ++weights;
    CHECK(weights == 2);
}

TEST_CASE("a loop computes what scan_linear, gru and lstm compute") {
    constexpr int64_t B = 3, T = 5, H = 4, I = 2;
    for (const bool reverse : {false, true}) {
        CAPTURE(reverse);
        Builder b;
        Feeds feeds;
        double start = 0.1;
        const auto input = [&](const char* name, const Shape& shape) {
            feeds.fields[name] = wave(shape, start += 1.3);
            return b.input(name, Kind::float_, shape);
        };
        const auto linear = [&](ValueId x, ValueId w, ValueId bias) { return b(Op::linear, {x, w, bias}); };
        const auto part = [&](ValueId x, int64_t i) {
            return b(Op::slice, {x}, {{"axis", int64_t{-1}}, {"start", i * H}, {"length", H}});
        };
        const auto given = {NamedAttribute{"reverse", int64_t{reverse}}};
        const ValueId x = input("x", {B, T, I}), z = input("z", {B, T, H}), a = input("a", {B, T, H});
        const ValueId h0 = input("h0", {B, H}), c0 = input("c0", {B, H});

        b.output("scan", b(Op::scan_linear, {z, a, h0}, {{"axis", int64_t{1}}, {"reverse", int64_t{reverse}}}));
        const ValueId t = loop(b, T, reverse), y = b(Op::loop_state, {t, h0});
        const ValueId y1 = b(Op::add, {b(Op::mul, {step_of(b, t, a), y}), step_of(b, t, z)});
        b(Op::loop_next, {y, y1});
        b.output("scan by a loop", collected(b, t, y1));

        const ValueId gi = input("gi", {3 * H, I}), gh = input("gh", {3 * H, H}), gib = input("gib", {3 * H}),
                      ghb = input("ghb", {3 * H});
        const ValueId gru[] = {x, gi, gh, gib, ghb, kNone, h0};
        const std::vector<ValueId> of_gru = b.emit(Op::gru, gru, given);
        b.output("gru", of_gru[0]);
        b.output("gru last", of_gru[1]);
        const ValueId from_x = linear(x, gi, gib), g = loop(b, T, reverse), h = b(Op::loop_state, {g, h0});
        const ValueId in = step_of(b, g, from_x), hidden = linear(h, gh, ghb);
        const ValueId r = b(Op::sigmoid, {b(Op::add, {part(in, 0), part(hidden, 0)})});
        const ValueId u = b(Op::sigmoid, {b(Op::add, {part(in, 1), part(hidden, 1)})});
        const ValueId n = b(Op::tanh, {b(Op::add, {part(in, 2), b(Op::mul, {r, part(hidden, 2)})})});
        const ValueId h1 = b(Op::add, {n, b(Op::mul, {u, b(Op::sub, {h, n})})});
        b.output("gru last by a loop", b(Op::loop_next, {h, h1}));
        b.output("gru by a loop", collected(b, g, h1));

        const ValueId li = input("li", {4 * H, I}), lh = input("lh", {4 * H, H}), lib = input("lib", {4 * H}),
                      lhb = input("lhb", {4 * H});
        const ValueId lstm[] = {x, li, lh, lib, lhb, kNone, h0, c0};
        const std::vector<ValueId> of_lstm = b.emit(Op::lstm, lstm, given);
        const char* const names[] = {"lstm", "lstm last", "lstm last cell"};
        for (std::size_t i = 0; i < 3; ++i) b.output(names[i], of_lstm[i]);
        const ValueId to_gates = linear(x, li, lib), l = loop(b, T, reverse);
        const ValueId m = b(Op::loop_state, {l, h0}), c = b(Op::loop_state, {l, c0});
        const ValueId gates = b(Op::add, {step_of(b, l, to_gates), linear(m, lh, lhb)});
        const ValueId kept = b(Op::mul, {b(Op::sigmoid, {part(gates, 1)}), c});
        const ValueId c1 =
            b(Op::add, {kept, b(Op::mul, {b(Op::sigmoid, {part(gates, 0)}), b(Op::tanh, {part(gates, 2)})})});
        const ValueId m1 = b(Op::mul, {b(Op::sigmoid, {part(gates, 3)}), b(Op::tanh, {c1})});
        b.output("lstm last by a loop", b(Op::loop_next, {m, m1}));
        b.output("lstm last cell by a loop", b(Op::loop_next, {c, c1}));
        b.output("lstm by a loop", collected(b, l, m1));

        const Graph graph = finished(b);
        CHECK(std::ranges::none_of(graph.nodes, is_loop_operation, &Node::op));
        for (const char* const name : {"scan", "gru", "gru last", "lstm", "lstm last", "lstm last cell"}) {
            CAPTURE(name);
            check_equal(evaluated(graph, feeds, name), evaluated(graph, feeds, name + std::string(" by a loop")),
                        1e-14);
        }
    }
}

TEST_CASE("the index counts, from the other end with reverse; a value that does not change is collected, too") {
    Builder b;
    const ValueId up = loop(b, 4), down = loop(b, 4, true), outside = b.constant(Kind::int32, {2}, {7, -8});
    b.output("up", collected(b, up, up, 0));
    b.output("down", collected(b, down, down, -1));
    const ValueId seen = b(Op::loop_state, {down, b.fill(Kind::int32, Shape{}, -1.0)});
    b.output("before", collected(b, down, seen, 0));
    b.output("last", b(Op::loop_next, {seen, down}));
    b.output("outside", collected(b, up, outside, 1));
    const Graph graph = finished(b);
    using Numbers = std::vector<double>;
    CHECK(evaluated(graph, {}, "up").data == Numbers{0, 1, 2, 3});
    CHECK(evaluated(graph, {}, "down").data == Numbers{0, 1, 2, 3}); // each at its place
    CHECK(evaluated(graph, {}, "before").data == Numbers{1, 2, 3, -1});
    CHECK(evaluated(graph, {}, "last").data == Numbers{0});
    const Tensor twice = evaluated(graph, {}, "outside");
    CHECK(twice.shape == Shape{2, 4});
    CHECK(twice.data == Numbers{7, 7, 7, 7, -8, -8, -8, -8});
}

TEST_CASE("a body can read what is described after the loop, and a loop what another returns") {
    Builder b;
    Feeds feeds;
    feeds.fields["x"] = wave({2, 3}, 1);
    const ValueId x = b.input("x", Kind::float_, {2, 3});
    const ValueId t = loop(b, 3), sum = b(Op::loop_state, {t, zeros(b, {2})});
    const ValueId s = loop(b, 3), largest = b(Op::loop_state, {s, b.fill(Kind::float_, {2}, -9.0)});
    const ValueId last = b(Op::loop_next, {largest, b(Op::maximum, {largest, step_of(b, s, x)})});
    const ValueId part = b(Op::sub, {step_of(b, t, x), last}); // of the loop that begins first
    b.output("sum", b(Op::loop_next, {sum, b(Op::add, {sum, part})}));
    const Graph graph = finished(b);
    const Tensor got = evaluated(graph, feeds, "sum");
    const std::vector<double>& data = feeds.fields["x"].data;
    for (std::size_t row = 0; row < 2; ++row) {
        const double* v = data.data() + row * 3;
        CHECK(got.data[row] == doctest::Approx(v[0] + v[1] + v[2] - 3 * std::max({v[0], v[1], v[2]})));
    }
}

TEST_CASE("gradients as values: through a loop, and in its body") {
    Builder b;
    Feeds feeds;
    feeds.fields["x"] = floats({4}, {0.5, -1, 2, 0.25});
    feeds.parameters["w"] = floats({}, {1.5});
    const ValueId x = b.input("x", Kind::float_, {4}), w = b.parameter("w", Shape{}, 0, 0, 0, 0);
    const ValueId t = loop(b, 4), h = b(Op::loop_state, {t, b.scalar(1)});
    const ValueId next = b(Op::sin, {b(Op::mul, {b(Op::mul, {h, w}), step_of(b, t, x, 0)})});
    b.output("of each step", collected(b, t, b(Op::gradient_of, {next, w}), 0));
    b.output("within a step", collected(b, t, b(Op::gradient_of, {next, h}), 0));
    const ValueId last = b(Op::loop_next, {h, next}), dx = b(Op::gradient_of, {last, x});
    b.output("dx", dx);
    b.output("again", b(Op::gradient_of, {b(Op::sum, {dx}, {{"axes", std::vector<int64_t>{0}}}), w}));
    const Graph graph = finished(b);
    // h' = sin(h w x): dh' = cos(h w x) (w x dh + h x dw + h w dx)
    const auto run_with = [&](double at, double* derivative) {
        double value = 1, slope = 0;
        for (const double v : feeds.fields["x"].data) {
            const double c = std::cos(value * at * v);
            slope = c * (at * v * slope + value * v);
            value = std::sin(value * at * v);
        }
        if (derivative != nullptr) *derivative = slope;
        return value;
    };
    double slope = 0;
    run_with(1.5, &slope);
    const Tensor each = evaluated(graph, feeds, "of each step"), within = evaluated(graph, feeds, "within a step");
    CHECK(each.data[3] == doctest::Approx(slope).epsilon(1e-12));
    CHECK(each.data[0] == doctest::Approx(std::cos(0.75) * 0.5).epsilon(1e-12));
    CHECK(within.data[0] == doctest::Approx(std::cos(0.75) * 0.75).epsilon(1e-12));
    CHECK(evaluated(graph, feeds, "dx").data[0] ==
          doctest::Approx(within.data[1] * within.data[2] * within.data[3] * std::cos(0.75) * 1.5).epsilon(1e-12));
    // "again": d/dw of the sum of dx, by differences of dx itself.
    const auto sum_dx = [&](double at) {
        Feeds other = feeds;
        other.parameters["w"] = floats({}, {at});
        double sum = 0;
        for (const double v : evaluated(graph, other, "dx").data) sum += v;
        return sum;
    };
    CHECK(evaluated(graph, feeds, "again").data[0] ==
          doctest::Approx((sum_dx(1.5001) - sum_dx(1.4999)) / 2e-4).epsilon(1e-6));
}

TEST_CASE("each step draws other numbers, the same in each run") {
    const auto described = [] {
        Builder b;
        const ValueId t = loop(b, 5), s = loop(b, 2);
        const ValueId u = b(Op::random_uniform, {}, {{"shape", std::vector<int64_t>{2, 31}}});
        const ValueId first = b(Op::add, {u, b(Op::cast, {t}, {{"kind", int64_t{0}}})}); // u is there once
        const ValueId ones = b(Op::add, {b.fill(Kind::float_, {2, 31}, 1.0),
                                         b(Op::mul, {b(Op::cast, {s}, {{"kind", int64_t{0}}}), b.scalar(0)})});
        const ValueId dropped = b(Op::dropout, {ones}, {{"probability", 0.5}});
        const ValueId both =
            b(Op::mul,
              {dropped, b(Op::cast, {b(Op::add, {t, b.fill(Kind::int32, Shape{}, 1)})}, {{"kind", int64_t{0}}})});
        b.output("once", collected(b, t, first, 0));
        b.output("dropped", collected(b, t, collected(b, s, both, 0), 0));
        return finished(b);
    };
    const Graph graph = described(), again = described();
    Feeds feeds;
    feeds.seed = 5;
    const Tensor once = evaluated(graph, feeds, "once"), dropped = evaluated(graph, feeds, "dropped");
    for (std::size_t i = 0; i < 62; ++i) CHECK(once.data[62 + i] == doctest::Approx(once.data[i] + 1));
    CHECK(dropped.data == evaluated(again, feeds, "dropped").data);
    std::set<std::vector<double>> patterns;
    for (std::size_t step = 0; step < 2; ++step) {
        std::vector<double> one(dropped.data.begin() + static_cast<std::ptrdiff_t>(62 * step),
                                dropped.data.begin() + static_cast<std::ptrdiff_t>(62 * (step + 1)));
        patterns.insert(one);
    }
    CHECK(patterns.size() == 2);
}

TEST_CASE("loops that cannot be are refused, with the node and what to do") {
    const auto body = [](Builder& b, int64_t length = 3) { return loop(b, length); };
    contains(refusal([&](Builder& b) { body(b, 0); }), "length is 0, expected at least 1");
    contains(refusal([&](Builder& b) { b.output("y", body(b)); }), "output 'y' is a value of one step of a loop");
    contains(
        refusal([&](Builder& b) {
            const ValueId x = b.input("x", Kind::float_, {2, 3});
            b.loss("sum", b(Op::sum, {step_of(b, body(b), x)}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1), 1);
        }),
        "loss 'sum' is a value of one step of a loop");
    contains(refusal([&](Builder& b) {
                 step_of(b, body(b), b.input("x", Kind::float_, {2, 4}));
             }),
             "axis 1 of x [2, 4] is not as long as the loop, which has 3 steps");
    contains(refusal([&](Builder& b) { step_of(b, body(b), b.input("x", Kind::float_, {2, 3}), 2); }), "axis");
    contains(refusal([&](Builder& b) {
                 step_of(b, b.input("i", Kind::int32, Shape{}), b.input("x", Kind::float_, {2, 3}));
             }),
             "index is the result of input, expected that of loop_index");
    contains(refusal([&](Builder& b) {
                 b(Op::loop_next, {b.scalar(1), b.scalar(2)});
             }),
             "state is the result of fill, expected that of loop_state");
    contains(refusal([&](Builder& b) {
                 b(Op::loop_next, {b(Op::loop_state, {body(b), b.scalar(0)}), zeros(b, {2})});
             }),
             "the state is float [] and its next value float [2]");
    contains(refusal([&](Builder& b) {
                 b(Op::loop_state, {body(b), b.scalar(0)});
             }),
             "the state gets its next value nowhere; expected one loop_next");
    contains(refusal([&](Builder& b) {
                 const ValueId h = b(Op::loop_state, {body(b), b.scalar(0)});
                 b(Op::loop_next, {h, h});
                 b(Op::loop_next, {h, h});
             }),
             "the state gets its next value twice or more");
    contains(refusal([&](Builder& b) { collected(b, body(b), b.scalar(0), 1); }), "axis 1 is outside the result");
    contains(refusal([&](Builder& b) {
                 collected(b, body(b), b.fill(Kind::float_, Shape(std::vector<int64_t>(kMaxRank, 1)), 0.0));
             }),
             "too many dimensions");
    contains(refusal([&](Builder& b) {
                 const ValueId t = body(b), y = b(Op::once, {b(Op::cast, {t}, {{"kind", int64_t{0}}})},
                                                  {{"name", std::string("memory")}});
                 b.output("all", collected(b, t, y, 0));
             }),
             "a body of a loop cannot have this operation");
    contains(refusal([&](Builder& b) {
                 const ValueId t = body(b), h = b(Op::loop_state, {t, b.scalar(0)});
                 const ValueId all = collected(b, t, h, 0);
                 const ValueId mean = b(Op::mean, {all}, {{"axes", std::vector<int64_t>{0}}});
                 b(Op::loop_next, {h, b(Op::add, {h, mean})});
             }),
             "the body of this loop reads what is computed from the loop's results");
    contains(refusal([&](Builder& b) { // each in the other's body
                 const ValueId t = body(b), s = body(b);
                 const ValueId x = b.input("x", Kind::float_, {3, 3});
                 const ValueId p = b(Op::loop_state, {t, b.scalar(0)}), q = b(Op::loop_state, {s, b.scalar(0)});
                 const ValueId mixed = step_of(b, s, step_of(b, t, x, 0), 0);
                 b(Op::loop_next, {p, b(Op::add, {p, mixed})});
                 b(Op::loop_next, {q, b(Op::add, {q, mixed})});
             }),
             "this loop and another are each in the other's body");
    contains(refusal([&](Builder& b) {
                 const ValueId t = body(b, 100'000), h = b(Op::loop_state, {t, b.scalar(0)});
                 b(Op::loop_next, {h, b(Op::sin, {b(Op::cos, {h})})});
             }),
             "at most 200000 operations");
    Builder b; // a graph from elsewhere
    loop(b, 2);
    const Status status = check(b.mutable_graph());
    contains(std::string(status.message()), "only a builder adds this operation");
}

} // namespace hekla::test
