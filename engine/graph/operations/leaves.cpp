// Leaves: operations without inputs.
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

Result<Outputs> parameter_outputs(const Rule& r) {
    HK_TRY(sizes_ok(r, r.node.ints("shape")));
    return one(Kind::float_, Shape(r.node.ints("shape")));
}

// The rule of leaves with a kind and a shape.
Result<Outputs> field_outputs(const Rule& r) {
    HK_TRY(sizes_ok(r, r.node.ints("shape")));
    const int64_t kind = r.node.integer("kind");
    if (kind < 0 || kind > 2) return r.error("kind {} is not 0, 1 or 2", kind);
    return one(static_cast<Kind>(kind), Shape(r.node.ints("shape")));
}

Result<Outputs> constant_outputs(const Rule& r) {
    HK_ASSIGN(Outputs outputs, field_outputs(r));
    const Shape& shape = outputs[0].second;
    const std::size_t given = r.node.reals("value").size();
    const bool optional = r.node.op == Op::buffer && given == 0;
    if (!optional && given != static_cast<std::size_t>(shape.elements()))
        return r.error("{} values for {}", given, shape.text());
    return outputs;
}

Status run_constant(const Call& call) {
    call.out().data = call.node.reals("value");
    return {};
}

Status run_fill(const Call& call) {
    std::ranges::fill(call.out().data, call.node.real("value"));
    return {};
}

Result<Outputs> iota_outputs(const Rule& r) {
    const std::vector<int64_t> dims{r.node.integer("length")};
    HK_TRY(sizes_ok(r, dims));
    return one(Kind::int32, Shape(dims));
}

Status run_iota(const Call& call) {
    const int64_t start = call.node.integer("start"), step = call.node.integer("step");
    std::vector<double>& y = call.out().data;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = wrapped(start + step * static_cast<int64_t>(i));
    return {};
}

Result<Outputs> positions_outputs(const Rule& r) {
    const std::vector<int64_t> dims{r.node.integer("batch"), r.node.integer("length")};
    HK_TRY(sizes_ok(r, dims));
    return one(Kind::int32, Shape(dims));
}

Status run_positions(const Call& call) {
    std::vector<double>& y = call.out().data;
    const std::size_t length = at(call.out().shape[1]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(i % length);
    return {};
}

Result<Outputs> step_scalar_outputs(const Rule&) { return one(Kind::float32, Shape{}); }

Status run_step_scalar(const Call& call) {
    const auto found = call.feeds.step_scalars.find(call.node.text("name"));
    call.out().data[0] = found == call.feeds.step_scalars.end() ? call.node.real("initial") : found->second;
    return {};
}

} // namespace

// Without a reference: the caller of evaluate() gives the values.
const OperationRules input_rules{field_outputs};
const OperationRules parameter_rules{parameter_outputs};
const OperationRules buffer_rules{constant_outputs, nullptr, run_constant}; // where the caller gives none
const OperationRules constant_rules{constant_outputs, nullptr, run_constant};
const OperationRules fill_rules{field_outputs, nullptr, run_fill};
const OperationRules iota_rules{iota_outputs, nullptr, run_iota};
const OperationRules positions_rules{positions_outputs, nullptr, run_positions};
const OperationRules step_scalar_rules{step_scalar_outputs, nullptr, run_step_scalar};

} // namespace hekla::graph
