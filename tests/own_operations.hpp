// Operations as a plugin would declare them, for the tests of rooms that do not know plugins.
#pragma once

#include "graph/builder.hpp"
#include "graph/gradient/own_gradient.hpp"
#include "graph/reference.hpp"
#include "graph/rewrite.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hekla::test::own {

using graph::AttributeType;
using graph::AttributeValue;
using graph::Builder;
using graph::Graph;
using graph::Kind;
using graph::kNone;
using graph::NamedAttribute;
using graph::Op;
using graph::OwnDeclaration;
using graph::OwnOperation;
using graph::OwnUse;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;
using Values = std::span<const ValueId>;
using Attributes = std::span<const graph::Attribute>;

// Gradients of the inputs (kNone: none) from inputs, outputs and their gradients.
using Rule = std::function<std::vector<ValueId>(Builder&, Values x, Values y, Values dy)>;

inline std::shared_ptr<const OwnOperation> made(OwnDeclaration declaration) {
    auto operation = OwnOperation::create(std::move(declaration));
    REQUIRE_MESSAGE(operation.ok(), operation.message());
    return operation.take();
}

struct Use {
    std::vector<std::pair<Kind, Shape>> outputs;
    int64_t invocations = 0;
    Rule gradient; // empty: none
};

inline std::shared_ptr<const Graph> gradient_of(const OwnUse& use, Builder& b, Values inputs, const Rule& rule) {
    const OwnDeclaration& d = use.operation->declaration();
    Builder inner;
    std::vector<ValueId> x, y, dy;
    for (std::size_t i = 0; i < inputs.size(); ++i)
        x.push_back(inner.input(graph::kOwnInput + d.inputs[i].name, b.kind(inputs[i]), use.inputs[i]));
    for (std::size_t i = 0; i < use.outputs.size(); ++i) {
        const auto& [kind, shape] = use.outputs[i];
        y.push_back(inner.input(graph::kOwnOutput + d.outputs[i], kind, shape));
        dy.push_back(graph::is_float(kind) ? inner.input(graph::kOwnOutputGradient + d.outputs[i], kind, shape)
                                           : kNone);
    }
    const std::vector<ValueId> dx = rule(inner, x, y, dy);
    for (std::size_t i = 0; i < dx.size(); ++i)
        if (dx[i] != kNone) inner.output(graph::kOwnInputGradient + d.inputs[i].name, dx[i]);
    auto finished = inner.finish();
    REQUIRE_MESSAGE(finished.ok(), finished.message());
    auto pruned = graph::prune(finished.value());
    REQUIRE_MESSAGE(pruned.ok(), pruned.message());
    return std::make_shared<const Graph>(pruned.take());
}

inline std::vector<ValueId> emit(Builder& b, const std::shared_ptr<const OwnOperation>& operation,
                                 std::initializer_list<ValueId> inputs, const Use& wanted,
                                 std::initializer_list<NamedAttribute> attributes = {}) {
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    OwnUse use;
    use.operation = operation;
    for (const ValueId input : inputs) use.inputs.push_back(b.shape(input));
    use.outputs = wanted.outputs;
    use.invocations = wanted.invocations;
    use.flops = 3;
    use.bytes = 4;
    if (wanted.gradient) use.gradient = gradient_of(use, b, {inputs.begin(), inputs.size()}, wanted.gradient);
    return b.emit_own(std::make_shared<const OwnUse>(std::move(use)), {inputs.begin(), inputs.size()},
                      {attributes.begin(), attributes.size()});
}

// ---- y = x * sigmoid(sharpness * gate): one invocation per element, built-in operations in its gradient ----

inline OwnDeclaration swish_gate_declaration() {
    OwnDeclaration d;
    d.name = "acme.swish_gate";
    d.inputs = {{"x"}, {"gate"}};
    d.attributes = {{"sharpness", AttributeType::real, AttributeValue(1.0)}};
    d.outputs = {"y"};
    d.glsl = R"(
float squashed(float v) { return 1.0 / (1.0 + exp(-v)); }
void operation(uint i) {
    store_y(i, load_x(i) * squashed(sharpness * load_gate(i)));
}
)";
    d.reference = [](std::span<const Tensor* const> x, Attributes a, std::span<Tensor> y) -> Status {
        const double sharpness = std::get<double>(a[0].value);
        for (std::size_t i = 0; i < y[0].data.size(); ++i)
            y[0].data[i] = x[0]->data[i] / (1.0 + std::exp(-sharpness * x[1]->data[i]));
        return {};
    };
    return d;
}

inline ValueId swish_gate(Builder& b, ValueId x, ValueId gate, double sharpness = 1.0, bool with_gradient = true,
                          const std::shared_ptr<const OwnOperation>& operation = made(swish_gate_declaration())) {
    Use use{{{Kind::float_, b.shape(x)}}, b.shape(x).elements(), {}};
    if (with_gradient)
        use.gradient = [sharpness](Builder& g, Values in, Values, Values dy) -> std::vector<ValueId> {
            const ValueId s = g(Op::sigmoid, {g(Op::mul, {in[1], g.scalar(sharpness)})});
            const ValueId dx = g(Op::mul, {dy[0], s});
            const ValueId slope = g(Op::mul, {g(Op::mul, {s, g(Op::sub, {g.scalar(1), s})}), g.scalar(sharpness)});
            return {dx, g(Op::mul, {g(Op::mul, {dy[0], in[0]}), slope})};
        };
    return emit(b, operation, {x, gate}, use, {{"sharpness", sharpness}})[0];
}

// ---- picked [R] = x[r, column[r]], column int32 [R] = table[ids[r] mod its size]: int32 input and output, a list,
// another custom operation in its gradient ----

inline OwnDeclaration pick_declaration() {
    OwnDeclaration d;
    d.name = "acme.pick";
    d.revision = 3;
    d.inputs = {{"x"}, {"ids", true}};
    d.attributes = {{"table", AttributeType::ints, {}},
                    {"scales", AttributeType::reals, AttributeValue(std::vector<double>{1.0})},
                    {"note", AttributeType::text, AttributeValue(std::string("of \"no\" effect\n"))},
                    {"shift", AttributeType::integer, AttributeValue(int64_t{0})}};
    d.outputs = {"picked", "column"};
    d.glsl = R"(void operation(uint r) {
    const int at = table(uint(load_ids(r)) % table_size) + shift;
    store_column(r, at);
    store_picked(r, scales(r % scales_size) * load_x(r * x_dim(1) + uint(at)));
})";
    d.reference = [](std::span<const Tensor* const> x, Attributes a, std::span<Tensor> y) -> Status {
        const auto& table = std::get<std::vector<int64_t>>(a[0].value);
        const auto& scales = std::get<std::vector<double>>(a[1].value);
        const auto width = static_cast<std::size_t>(x[0]->shape[1]);
        for (std::size_t r = 0; r < y[0].data.size(); ++r) {
            const int64_t at =
                table[static_cast<std::size_t>(x[1]->data[r]) % table.size()] + std::get<int64_t>(a[3].value);
            y[1].data[r] = static_cast<double>(at);
            y[0].data[r] = scales[r % scales.size()] * x[0]->data[r * width + static_cast<std::size_t>(at)];
        }
        return {};
    };
    return d;
}

inline OwnDeclaration pick_back_declaration() {
    OwnDeclaration d;
    d.name = "acme.pick_back";
    d.inputs = {{"dy"}, {"column", true}};
    d.attributes = {{"scales", AttributeType::reals, {}}};
    d.outputs = {"dx"};
    d.glsl = R"(void operation(uint i) {
    const uint r = i / dx_dim(1);
    store_dx(i, int(i % dx_dim(1)) == load_column(r) ? scales(r % scales_size) * load_dy(r) : 0.0);
})";
    d.reference = [](std::span<const Tensor* const> x, Attributes a, std::span<Tensor> y) -> Status {
        const auto& scales = std::get<std::vector<double>>(a[0].value);
        const auto width = static_cast<std::size_t>(y[0].shape[1]);
        for (std::size_t r = 0; r < x[0]->data.size(); ++r)
            y[0].data[r * width + static_cast<std::size_t>(x[1]->data[r])] = scales[r % scales.size()] * x[0]->data[r];
        return {};
    };
    return d;
}

inline std::vector<ValueId> pick(Builder& b, ValueId x, ValueId ids, const std::vector<int64_t>& table,
                                 const std::vector<double>& scales) {
    const Shape rows{b.shape(x)[0]};
    Use use{{{Kind::float_, rows}, {Kind::int32, rows}}, rows[0], {}};
    use.gradient = [&](Builder& g, Values in, Values y, Values dy) -> std::vector<ValueId> {
        const Use back{{{Kind::float_, g.shape(in[0])}}, g.shape(in[0]).elements(), {}};
        return {emit(g, made(pick_back_declaration()), {dy[0], y[1]}, back, {{"scales", scales}})[0], kNone};
    };
    return emit(b, made(pick_declaration()), {x, ids}, use, {{"table", table}, {"scales", scales}});
}

// ---- y = x - mean(row): one workgroup per row, shared memory, itself in its gradient ---------------------------

inline OwnDeclaration center_declaration() {
    OwnDeclaration d;
    d.name = "acme.center";
    d.inputs = {{"x"}};
    d.outputs = {"y"};
    d.local_size = 32;
    d.glsl = R"(
shared float sums[32];
void operation(uint i) {
    const uint width = x_dim(x_rank - 1u), row = i / 32u, lane = i % 32u;
    float sum = 0.0;
    for (uint c = lane; c < width; c += 32u) sum += load_x(row * width + c);
    sums[lane] = sum;
    barrier();
    for (uint step = 16u; step > 0u; step /= 2u) {
        if (lane < step) sums[lane] += sums[lane + step];
        barrier();
    }
    const float mean = sums[0] / float(width);
    for (uint c = lane; c < width; c += 32u) store_y(row * width + c, load_x(row * width + c) - mean);
}
)";
    d.reference = [](std::span<const Tensor* const> x, Attributes, std::span<Tensor> y) -> Status {
        const auto width = static_cast<std::size_t>(x[0]->shape[-1]);
        for (std::size_t r = 0; width > 0 && r < x[0]->data.size() / width; ++r) {
            double mean = 0;
            for (std::size_t c = 0; c < width; ++c) mean += x[0]->data[r * width + c] / static_cast<double>(width);
            for (std::size_t c = 0; c < width; ++c) y[0].data[r * width + c] = x[0]->data[r * width + c] - mean;
        }
        return {};
    };
    return d;
}

inline ValueId center(Builder& b, ValueId x) {
    const Shape shape = b.shape(x);
    const int64_t rows = shape[-1] == 0 ? 0 : shape.elements() / shape[-1];
    Use use{{{Kind::float_, shape}}, rows * 32, {}};
    const Use inner = use;
    use.gradient = [inner](Builder& g, Values, Values, Values dy) -> std::vector<ValueId> {
        return {emit(g, made(center_declaration()), {dy[0]}, inner)[0]};
    };
    return emit(b, made(center_declaration()), {x}, use)[0];
}

} // namespace hekla::test::own
