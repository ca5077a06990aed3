#include "program/lowering/pointwise.hpp"

#include "graph/truncated_normal.hpp"
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hekla::program {

namespace {

using graph::Op;

constexpr PointwiseKernel kPointwiseKernels[] = {
#define HK_POINTWISE(number, name, signature) {number, #name, #signature},
#include "../../shaders/pointwise/operations.inc"
#undef HK_POINTWISE
};

// Returns the table's name for the operation of a node, without "_int".
std::string kernel_name(const graph::Node& node) {
    switch (node.op) {
    case Op::compare:
        switch (static_cast<graph::Relation>(node.integer("relation"))) {
        case graph::Relation::equal: return "equal";
        case graph::Relation::not_equal: return "not_equal";
        case graph::Relation::less: return "less";
        case graph::Relation::less_equal: return "less_equal";
        case graph::Relation::greater: return "greater";
        case graph::Relation::greater_equal: return "greater_equal";
        }
        return "";
    case Op::gelu: return node.integer("tanh_approximation") != 0 ? "gelu_tanh" : "gelu";
    case Op::gelu_gradient: return node.integer("tanh_approximation") != 0 ? "gelu_tanh_gradient" : "gelu_gradient";
    case Op::stop_gradient: return "same";
    default: return graph::info(node.op).name;
    }
}

Status lower_dropout(Lowering& lowering, const graph::Node& node) {
    const graph::Graph& graph = *lowering.graph;
    const View y = lowering.allocate(graph.shape(node.outputs[0]), Storage::f32, "dropout");
    lowering.views[node.outputs[0]] = y;
    if (y.elements() == 0) return {};
    const View& x = lowering.view(node.inputs[0]);
    const View runtime = lowering.runtime();
    const View operands[] = {x, y};
    const Loop loop = make_loop(operands);
    const DropoutNumbers numbers = dropout_numbers(graph, node);
    Dispatch dispatch;
    dispatch.shader = "pointwise/dropout";
    dispatch.constants = {loop.linear(0) ? 0u : static_cast<uint32_t>(loop.rank())};
    kernels::pointwise::DropoutRecord record{.x = x,
                                             .y = y,
                                             .runtime = runtime,
                                             .count = word(y.elements()),
                                             .example = numbers.example,
                                             .stream = numbers.stream,
                                             .threshold = numbers.threshold,
                                             .factor = numbers.factor};
    set_dims(loop.dims, record.dims, record.factors, record.shifts);
    set_strides(loop.strides[0], record.strides);
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(y.elements());
    dispatch.bytes = 2.0 * static_cast<double>(y.bytes());
    dispatch.flops = 40.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace

bool is_same(const graph::Graph& graph, const graph::Node& node) {
    if (node.op == Op::stop_gradient) return true;
    if (node.op == Op::dropout) return node.real("probability") <= 0;
    return node.op == Op::cast &&
           graph::is_float(graph.kind(node.inputs[0])) == graph::is_float(graph.kind(node.outputs[0]));
}

Storage storage_of_result(const Lowering& lowering, graph::ValueId value) {
    return graph::is_float(lowering.graph->kind(value)) ? lowering.storage_of(value) : Storage::i32;
}

void PointwiseGroups::add(PointwiseGroup group) {
    for (const graph::NodeId node : group.nodes) members_[node] = groups_.size();
    ends_[group.nodes.back()] = groups_.size();
    groups_.push_back(std::move(group));
}

const PointwiseGroup* PointwiseGroups::ending_at(graph::NodeId node) const {
    const auto it = ends_.find(node);
    return it == ends_.end() ? nullptr : &groups_[it->second];
}

Result<PointwiseChoice> choose_pointwise(const graph::Graph& graph, const graph::Node& node) {
    std::string name = kernel_name(node);
    // The kind of the operands determines the kernel, except where's condition.
    const graph::Kind operand = graph.kind(node.inputs.back());
    if (node.op == Op::cast) {
        const bool from_float = graph::is_float(graph.kind(node.inputs[0]));
        const bool to_float = graph::is_float(graph.kind(node.outputs[0]));
        name = from_float == to_float ? (from_float ? "same" : "same_int") : (to_float ? "to_float" : "to_int");
    } else if (!graph::is_float(operand)) {
        name += "_int";
    }
    const auto* const found = std::find_if(std::begin(kPointwiseKernels), std::end(kPointwiseKernels),
                                           [&](const PointwiseKernel& k) { return k.name == name; });
    if (found == std::end(kPointwiseKernels)) return unsupported(fmt::format("no pointwise kernel '{}'", name));
    PointwiseChoice choice;
    choice.kernel = found;
    if (node.op == Op::clamp) {
        choice.p = static_cast<float>(node.real("low"));
        choice.q = static_cast<float>(node.real("high"));
    }
    return choice;
}

DropoutNumbers dropout_numbers(const graph::Graph& graph, const graph::Node& node) {
    DropoutNumbers numbers;
    const graph::Shape& shape = graph.shape(node.outputs[0]);
    const int64_t examples = shape.rank() == 0 ? 1 : shape[0];
    numbers.example = static_cast<uint32_t>(std::max<int64_t>(1, shape.elements() / std::max<int64_t>(1, examples)));
    numbers.stream = static_cast<uint32_t>(node.integer("stream"));
    const double probability = node.real("probability");
    // word >= probability * 2^32, as integers.
    const double limit = std::ceil(std::max(0.0, probability) * 0x1p32);
    numbers.threshold = limit >= 0x1p32 ? 0xFFFFFFFFu : static_cast<uint32_t>(limit);
    numbers.factor = probability >= 1 ? 0.0f : static_cast<float>(1.0 / (1.0 - probability));
    return numbers;
}

Status lower_pointwise(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::ValueId output = node.outputs[0];
    const graph::Shape& shape = graph.shape(output);
    if (is_same(graph, node)) {
        lowering.views[output] = broadcast_view(lowering.view(node.inputs[0]), shape);
        return {};
    }
    if (node.op == Op::dropout) return lower_dropout(lowering, node);
    HK_ASSIGN(const PointwiseChoice choice, choose_pointwise(graph, node));

    const View y = lowering.allocate(shape, storage_of_result(lowering, output), graph::info(node.op).name);
    lowering.views[output] = y;
    if (y.elements() == 0) return {};
    std::vector<View> operands{y};
    for (const graph::ValueId input : node.inputs) operands.push_back(broadcast_view(lowering.view(input), shape));
    const Loop loop = make_loop(operands);
    bool flat = true;
    for (std::size_t o = 1; o < operands.size(); ++o) flat = flat && (loop.linear(o) || loop.uniform(o));

    Dispatch dispatch;
    dispatch.shader = "pointwise/single";
    dispatch.constants = {choice.kernel->number, flat ? 0u : static_cast<uint32_t>(loop.rank())};
    // Operands that the operation does not have repeat the first, so that their addresses are readable.
    const auto operand = [&](std::size_t o) { return o + 1 < operands.size() ? o + 1 : std::size_t{1}; };
    uint32_t types = bytes_of(y.storage) == 2 ? static_cast<uint32_t>(y.storage) << 6 : 0u;
    for (std::size_t o = 0; o < 3; ++o)
        if (const Storage storage = operands[operand(o)].storage; bytes_of(storage) == 2)
            types |= static_cast<uint32_t>(storage) << (2 * o);
    if (types != 0) {
        dispatch.shader += ".16";
        dispatch.constants.push_back(types);
    }
    kernels::pointwise::SingleRecord record{.a = operands[operand(0)],
                                            .b = operands[operand(1)],
                                            .c = operands[operand(2)],
                                            .y = y,
                                            .count = word(y.elements()),
                                            .p = choice.p,
                                            .q = choice.q};
    set_dims(loop.dims, record.dims, record.factors, record.shifts);
    const auto strides_of = [&](std::size_t o, int32_t(&to)[graph::kMaxRank]) {
        if (flat)
            to[0] = loop.linear(operand(o)) ? 1 : 0;
        else
            set_strides(loop.strides[operand(o)], to);
    };
    strides_of(0, record.a_strides);
    strides_of(1, record.b_strides);
    strides_of(2, record.c_strides);
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(y.elements());
    for (std::size_t o = 1; o < operands.size(); ++o)
        dispatch.bytes += loop.uniform(o) ? 4.0 : static_cast<double>(operands[o].bytes());
    dispatch.bytes += static_cast<double>(y.bytes());
    dispatch.flops = static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

Status lower_random(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const graph::Shape& shape = graph.shape(node.outputs[0]);
    const View y = lowering.allocate(shape, Storage::f32, graph::info(node.op).name);
    lowering.views[node.outputs[0]] = y;
    if (y.elements() == 0) return {};
    const View runtime = lowering.runtime();
    Dispatch dispatch;
    dispatch.shader = "pointwise/random";
    dispatch.constants = {kernels::pointwise::kUniform};
    kernels::pointwise::RandomRecord record{.y = y,
                                            .runtime = runtime,
                                            .count = word(y.elements()),
                                            .example = word(y.elements() / (shape.rank() == 0 ? 1 : shape[0])),
                                            .stream = static_cast<uint32_t>(node.integer("stream"))};
    if (node.op == Op::random_normal) dispatch.constants = {kernels::pointwise::kNormal};
    if (node.op == Op::truncated_normal) {
        dispatch.constants = {kernels::pointwise::kTruncatedNormal};
        const graph::TruncatedNormal distribution(node.real("low"), node.real("high"));
        record.low = static_cast<float>(node.real("low"));
        record.high = static_cast<float>(node.real("high"));
        record.below = static_cast<float>(distribution.below());
        record.inside = static_cast<float>(distribution.inside());
        record.above = static_cast<float>(distribution.above());
        record.middle = static_cast<float>(0.5 - distribution.below());
    }
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(y.elements());
    dispatch.bytes = static_cast<double>(y.bytes());
    dispatch.flops = 40.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
    return {};
}

Status lower_group(Lowering& lowering, const PointwiseGroup& group) {
    HK_ASSIGN(GeneratedKernel kernel, generate_pointwise(lowering, group));
    for (std::size_t o = 0; o < group.outputs.size(); ++o) lowering.views[group.outputs[o]] = kernel.outputs[o];
    if (kernel.dispatch.groups > 0) lowering.append(std::move(kernel.dispatch));
    return {};
}

} // namespace hekla::program
