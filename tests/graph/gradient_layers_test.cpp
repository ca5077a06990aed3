// Cases of the gradient check: matrix products, norms, lookups, positions, losses and recurrent layers.
#include "gradient_cases.hpp"

namespace hekla::test {

namespace {

using Values = std::span<const ValueId>;
using Attributes = std::vector<NamedAttribute>;

GradientCase of(Op op, const std::string& name, std::vector<Variable> variables, Attributes attributes = {}) {
    return {info(op).name + std::string(" ") + name, std::move(variables),
            [=](Builder& b, Values x) { return b.emit(op, x, attributes); }};
}

void add_matrices(std::vector<GradientCase>& cases) {
    struct Batches {
        std::vector<int64_t> a, b;
    };
    const std::vector<Batches> batches = {{{}, {}},      {{2}, {2}},    {{3, 2}, {}}, {{}, {3}},
                                          {{3, 1}, {2}}, {{1}, {2, 3}}, {{2}, {1}}};
    const auto joined = [](std::vector<int64_t> lead, int64_t rows, int64_t columns, bool turned) {
        lead.push_back(turned ? columns : rows);
        lead.push_back(turned ? rows : columns);
        return Shape(lead);
    };
    for (const auto& [a, b] : batches)
        for (const int64_t ta : {0, 1})
            for (const int64_t tb : {0, 1})
                cases.push_back(of(Op::matmul,
                                   fmt::format("[{}] [{}] {}{}", fmt::join(a, ","), fmt::join(b, ","), ta, tb),
                                   {{joined(a, 3, 5, ta != 0)}, {joined(b, 5, 2, tb != 0)}},
                                   {{"transpose_a", ta}, {"transpose_b", tb}}));
    cases.push_back(of(Op::matmul, "ones", {{{1, 1}}, {{1, 1}}}));
    cases.push_back({"matmul of a value with itself", {{{3, 3}}}, [](Builder& b, Values x) {
                         return std::vector{b(Op::matmul, {x[0], x[0]}, {{"transpose_b", int64_t{1}}})};
                     }});
    for (const int64_t input_first : {0, 1}) {
        const Shape weight = input_first != 0 ? Shape{5, 3} : Shape{3, 5};
        for (const Shape& x : {Shape{5}, Shape{2, 5}, Shape{2, 3, 5}, Shape{1, 5}}) {
            cases.push_back(of(Op::linear, x.text(), {{x}, {weight}}, {{"input_first", input_first}}));
            cases.push_back(of(Op::linear, x.text() + " bias", {{x}, {weight}, {{3}}}, {{"input_first", input_first}}));
        }
    }
}

void add_row_linear(std::vector<GradientCase>& cases) {
    for (const int64_t input_first : {0, 1})
        for (const Shape& x : {Shape{4, 5}, Shape{4, 3, 5}, Shape{4, 2, 3, 5}})
            cases.push_back(
                {fmt::format("row_linear {} {}", x.text(), input_first),
                 {{x}, {input_first != 0 ? Shape{3, 5, 2} : Shape{3, 2, 5}}},
                 [=](Builder& b, Values v) {
                     const ValueId rows = b.constant(Kind::int32, {4}, {2, -1, 0, 2}); // 1 is not used
                     return std::vector{b(Op::row_linear, {v[0], v[1], rows}, {{"input_first", input_first}})};
                 }});
}

void add_norms(std::vector<GradientCase>& cases) {
    for (const Shape& x : {Shape{7}, Shape{3, 5}, Shape{2, 3, 5}, Shape{3, 1}}) {
        const Variable row{{x[-1]}};
        const Attributes epsilon = {{"epsilon", 0.1}};
        cases.push_back(of(Op::layer_norm, x.text(), {{x, -2, 2}}, epsilon));
        cases.push_back(of(Op::layer_norm, x.text() + " gain", {{x, -2, 2}, row}, epsilon));
        cases.push_back(of(Op::layer_norm, x.text() + " gain bias", {{x, -2, 2}, row, row}, epsilon));
        cases.push_back({"layer_norm bias " + x.text(),
                         {{x, -2, 2}, row},
                         [](Builder& b, Values v) {
                             return std::vector{b(Op::layer_norm, {v[0], kNone, v[1]})};
                         },
                         1e-5}); // rows of one element: 1 / sqrt(epsilon) multiplies values that cancel
        cases.push_back(of(Op::rms_norm, x.text(), {{x, -2, 2}}, epsilon));
        cases.push_back(of(Op::rms_norm, x.text() + " gain", {{x, -2, 2}, row}, epsilon));
    }
}

void add_lookups(std::vector<GradientCase>& cases) {
    for (const Shape& shape : {Shape{4}, Shape{2, 3}, Shape{1}, Shape{}}) {
        cases.push_back({"embedding " + shape.text(), {{{5, 3}}}, [shape](Builder& b, Values x) {
                             std::vector<double> ids(static_cast<std::size_t>(shape.elements()));
                             for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<double>(i * 3 % 5);
                             return std::vector{b(Op::embedding, {x[0], b.constant(Kind::int32, shape, ids)})};
                         }});
    }
    struct Lookup {
        Shape x, indices;
        int64_t batch;
    };
    const std::vector<Lookup> lookups = {{{5}, {3}, 0},      {{5, 3}, {2, 2}, 0},       {{2, 5, 3}, {2, 4}, 1},
                                         {{2, 5}, {2}, 1},   {{2, 3, 5}, {2, 3, 2}, 2}, {{5, 2}, {}, 0},
                                         {{1, 1}, {1, 1}, 1}};
    for (const auto& [x, indices, batch] : lookups) {
        Shape values = indices;
        for (int i = static_cast<int>(batch) + 1; i < x.rank(); ++i) values.push_back(x[i]);
        for (const Op op : {Op::scatter_add, Op::scatter})
            cases.push_back({info(op).name + x.text() + indices.text(), {{x}, {values}}, [=](Builder& b, Values v) {
                                 std::vector<double> places(static_cast<std::size_t>(indices.elements()));
                                 const auto rows = static_cast<std::size_t>(x[static_cast<int>(batch)]);
                                 for (std::size_t i = 0; i < places.size(); ++i) // scatter's differ in each batch
                                     places[i] = static_cast<double>(op == Op::scatter ? (3 * i + 1) % rows
                                                                                       : (i * i + 1) % rows);
                                 return std::vector{b(op, {v[0], b.constant(Kind::int32, indices, places), v[1]},
                                                      {{"batch_dimensions", batch}})};
                             }});
        cases.push_back({"gather " + x.text() + indices.text(), {{x}}, [=](Builder& b, Values v) {
                             std::vector<double> values(static_cast<std::size_t>(indices.elements()));
                             const int64_t rows = x[static_cast<int>(batch)];
                             for (std::size_t i = 0; i < values.size(); ++i)
                                 values[i] = static_cast<double>(static_cast<int64_t>(i * i + 1) % rows);
                             return std::vector{b(Op::gather, {v[0], b.constant(Kind::int32, indices, values)},
                                                  {{"batch_dimensions", batch}})};
                         }});
    }
}

void add_rotary(std::vector<GradientCase>& cases) {
    for (const int64_t interleaved : {0, 1})
        for (const int64_t inverse : {0, 1})
            for (const bool positions : {false, true})
                for (const int64_t half : {1, 3})
                    cases.push_back({fmt::format("rotary {}{}{} half {}", interleaved, inverse, positions, half),
                                     {{{2, 3, 3, 7}}, {{5, half}}, {{5, half}}}, // rotated: 2 or 6 of 7 elements
                                     [=](Builder& b, Values x) {
                                         const ValueId places =
                                             positions ? b.constant(Kind::int32, {2, 3}, {0, 4, 4, 2, 1, 3}) : kNone;
                                         return std::vector{b(Op::rotary, {x[0], x[1], x[2], places},
                                                              {{"interleaved", interleaved}, {"inverse", inverse}})};
                                     }});
}

void add_cross_entropy(std::vector<GradientCase>& cases) {
    for (const bool weighted : {false, true})
        for (const double smoothing : {0.0, 0.3})
            for (const Shape& rows : {Shape{4}, Shape{2, 3}, Shape{}, Shape{1}}) {
                Shape logits = rows;
                logits.push_back(5);
                std::vector<Variable> variables = {{logits, -3, 3}};
                if (weighted) variables.push_back({{5}, 0.5, 2});
                cases.push_back(
                    {fmt::format("cross_entropy {} weights {} smoothing {}", rows.text(), weighted, smoothing),
                     variables, [=](Builder& b, Values x) {
                         std::vector<double> labels(static_cast<std::size_t>(rows.elements()));
                         for (std::size_t i = 0; i < labels.size(); ++i)
                             labels[i] = i % 3 == 1 ? -1 : static_cast<double>(i * 3 % 5);
                         return std::vector{b(Op::cross_entropy,
                                              {x[0], b.constant(Kind::int32, rows, labels), weighted ? x[1] : kNone},
                                              {{"ignore_index", int64_t{-1}}, {"smoothing", smoothing}})};
                     }});
            }
}

void add_linear_cross_entropy(std::vector<GradientCase>& cases) {
    for (const bool input_first : {false, true})
        for (const bool biased : {false, true})
            for (const bool weighted : {false, true})
                for (const auto& [smoothing, scale, softcap] :
                     {std::tuple(0.0, 1.0, 0.0), std::tuple(0.3, 1.0, 0.0), std::tuple(0.0, 1.0, 0.75),
                      std::tuple(0.3, -1.5, 0.0), std::tuple(0.3, 1.25, 1.5)})
                    cases.push_back({fmt::format("linear_cross_entropy input_first {} bias {} weights {} smoothing {} "
                                                 "scale {} softcap {}",
                                                 input_first, biased, weighted, smoothing, scale, softcap),
                                     {{{4, 3}}, {input_first ? Shape{3, 5} : Shape{5, 3}}, {{5}}},
                                     [=](Builder& b, Values x) {
                                         const ValueId labels = b.constant(Kind::int32, {4}, {3, -1, 0, 4});
                                         const ValueId weights =
                                             weighted ? b.constant(Kind::float_, {5}, {0.5, 2, 1, 0.75, 1.5}) : kNone;
                                         return std::vector{b(Op::linear_cross_entropy,
                                                              {x[0], x[1], biased ? x[2] : kNone, labels, weights},
                                                              {{"input_first", int64_t{input_first}},
                                                               {"ignore_index", int64_t{-1}},
                                                               {"smoothing", smoothing},
                                                               {"scale", scale},
                                                               {"softcap", softcap}})};
                                     }});
}

// The outputs of a recurrent layer that contribute to the loss: bits of y, last, last_cell.
GradientCase recurrent(Op op, int64_t batch, int64_t time, int64_t in, int64_t hidden, bool reverse,
                       const std::vector<double>& lengths, bool initial, int outputs) {
    const int64_t gates = op == Op::gru ? 3 : 4;
    std::vector<Variable> variables = {{{batch, time, in}},
                                       {{gates * hidden, in}},
                                       {{gates * hidden, hidden}},
                                       {{gates * hidden}},
                                       {{gates * hidden}}};
    if (initial) variables.push_back({{batch, hidden}});
    if (initial && op == Op::lstm) variables.push_back({{batch, hidden}});
    return {fmt::format("{} B{} T{} I{} H{} reverse {} lengths [{}] initial {} outputs {}", info(op).name, batch, time,
                        in, hidden, reverse, fmt::join(lengths, ","), initial, outputs),
            variables, [=](Builder& b, Values x) {
                std::vector<ValueId> inputs(x.begin(), x.begin() + 5);
                inputs.push_back(lengths.empty() ? kNone : b.constant(Kind::int32, {batch}, lengths));
                inputs.insert(inputs.end(), x.begin() + 5, x.end());
                const std::vector<ValueId> all =
                    b.emit(op, inputs, std::vector<NamedAttribute>{{"reverse", int64_t{reverse}}});
                std::vector<ValueId> used;
                for (std::size_t i = 0; i < 3 && i < all.size(); ++i)
                    if ((outputs >> i & 1) != 0) used.push_back(all[i]);
                return used;
            }};
}

} // namespace

std::vector<GradientCase> layer_cases() {
    std::vector<GradientCase> cases;
    add_matrices(cases);
    add_norms(cases);
    add_row_linear(cases);
    add_lookups(cases);
    add_rotary(cases);
    add_cross_entropy(cases);
    add_linear_cross_entropy(cases);
    return cases;
}

std::vector<GradientCase> recurrent_cases() {
    std::vector<GradientCase> cases;
    for (const Op op : {Op::gru, Op::lstm}) {
        const int all = op == Op::gru ? 3 : 7;
        for (const bool reverse : {false, true})
            for (const bool initial : {false, true}) {
                cases.push_back(recurrent(op, 2, 3, 3, 2, reverse, {}, initial, all));
                cases.push_back(recurrent(op, 3, 4, 1, 3, reverse, {4, 1, 2}, initial, all));
            }
        for (int outputs = 1; outputs <= all; ++outputs) // each output alone, and all combinations
            cases.push_back(recurrent(op, 2, 3, 2, 2, outputs % 2 == 0, {2, 3}, true, outputs));
        cases.push_back(recurrent(op, 2, 2, 1, 1, false, {0, 2}, true, all)); // including a row without tokens
        cases.push_back(recurrent(op, 1, 1, 1, 1, true, {}, false, all));
    }
    return cases;
}

} // namespace hekla::test
