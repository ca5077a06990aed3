// layer_norm and rms_norm, and their gradients. Statistics are float32 and are kept for the gradient.
#include "program/lowering/common.hpp"
#include "program/lowering/epilogue.hpp"
#include "program/lowering/storage16.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using graph::Op;

View dense_or_none(Lowering& lowering, const graph::Node& node, std::size_t input) {
    if (input >= node.inputs.size() || node.inputs[input] == graph::kNone) return {};
    return lowering.contiguous(lowering.view(node.inputs[input]));
}

void norm_forward(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const bool rms = node.op == Op::rms_norm;
    const Rows x = as_rows(lowering, lowering.view(node.inputs[0]));
    const View gain = dense_or_none(lowering, node, 1);
    const View bias = rms ? View{} : dense_or_none(lowering, node, 2);
    const View y = lowering.allocate(lowering.graph->shape(node.outputs[0]), lowering.storage_of(node.outputs[0]),
                                     graph::info(node).name);
    lowering.views[node.outputs[0]] = y;
    const View mean = rms ? View{} : make_output(lowering, id, 1);
    const View inverse = make_output(lowering, id, rms ? 1 : 2);
    if (y.elements() == 0) return;

    const uint32_t w = load_width(lowering, x.width, {&x}, {&gain, &bias, &y});
    Dispatch dispatch = subgroup_dispatch(lowering, "norm/forward",
                                          {w, rms ? 1u : 0u, gain.resource != 0 ? 1u : 0u, bias.resource != 0 ? 1u : 0u,
                                           held_parts(lowering, x.width, w)});
    set_type(dispatch, y, w);
    dispatch.record = make_record(kernels::norm::ForwardRecord{.x = x.view,
                                                               .gain = gain,
                                                               .bias = bias,
                                                               .y = y,
                                                               .mean = mean,
                                                               .inverse = inverse,
                                                               .rows = word(x.rows),
                                                               .width = word(x.width),
                                                               .stride = word(x.stride),
                                                               .epsilon = static_cast<float>(node.real("epsilon"))});
    dispatch.groups = row_groups(lowering.limits, x.rows);
    dispatch.bytes = static_cast<double>(x.view.bytes() + y.bytes());
    dispatch.flops = 8.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
}

// Chunks of rows for the sums of dgain and dbias, and where the sums of each are stored: the result if there is only
// one.
struct GainSums {
    int64_t chunk = 0, parts = 0;
    View gain, bias;
};

GainSums make_gain_sums(Lowering& lowering, const Rows& x, int64_t chunks, bool rms, const View& dgain,
                        const View& dbias) {
    GainSums sums;
    sums.chunk = divide_up(x.rows, chunks);
    sums.parts = divide_up(x.rows, sums.chunk);
    const bool direct = sums.parts == 1;
    sums.gain = direct ? dgain : lowering.allocate({sums.parts, x.width}, Storage::f32, "sums of dgain");
    sums.bias = rms || direct ? dbias : lowering.allocate({sums.parts, x.width}, Storage::f32, "sums of dbias");
    return sums;
}

void add_chunks(Lowering& lowering, const GainSums& sums, const View& dgain, const View& dbias) {
    if (sums.parts == 1) return;
    sum_chunks(lowering, sums.gain, dgain, sums.parts);
    if (sums.bias.resource != 0) sum_chunks(lowering, sums.bias, dbias, sums.parts);
}

// The gradient of a norm, with its operands.
struct NormGradient {
    bool rms = false;
    Rows dy, x;
    View mean, inverse, gain; // mean: not of RMS norm; gain: optional
    bool has_residual = false;
    Rows residual; // what dx is added to
    View dx, copy; // copy: in 16 bits, optional
    View dgain, dbias;
};

kernels::norm::GradientRecord gradient_record(const NormGradient& g, const GainSums& sums) {
    return {.dy = g.dy.view,
            .x = g.x.view,
            .gain = g.gain,
            .mean = g.mean,
            .inverse = g.inverse,
            .residual = g.residual.view,
            .dx = g.dx,
            .copy = g.copy,
            .rows = word(g.x.rows),
            .width = word(g.x.width),
            .dy_stride = word(g.dy.stride),
            .x_stride = word(g.x.stride),
            .residual_stride = word(g.residual.stride),
            .chunk = word(sums.chunk),
            .gain_sums = sums.gain,
            .bias_sums = sums.bias};
}

void add_row_costs(Dispatch& dispatch, const NormGradient& g) {
    dispatch.bytes = static_cast<double>(g.dy.view.bytes() + g.x.view.bytes() + g.dx.bytes() +
                                         (g.has_residual ? g.residual.view.bytes() : 0) +
                                         (g.copy.resource != 0 ? g.copy.bytes() : 0));
    dispatch.flops = 12.0 * static_cast<double>(g.dx.elements());
}

// Returns how many vectors of a row a lane of shaders/norm/full_gradient has in registers; 0 if they are too many.
uint32_t parts_of_full_gradient(const Limits& limits, const NormGradient& g) {
    if (!limits.kernels_of_gpus() || 4 * limits.subgroup_size > limits.max_group_invocations) return 0;
    const int64_t parts = divide_up(g.x.width, 4 * int64_t{limits.subgroup_size});
    return parts <= (limits.many_registers ? 8 : 4) ? static_cast<uint32_t>(parts) : 0;
}

void full_gradient(Lowering& lowering, const NormGradient& g, uint32_t parts) {
    const int64_t groups = std::min<int64_t>(4 * int64_t{lowering.limits.cores}, divide_up(g.x.rows, 16));
    const GainSums sums = make_gain_sums(lowering, g.x, groups, g.rms, g.dgain, g.dbias);
    const auto in_vectors = [&](const View& view, int64_t stride) {
        return view.resource == 0 || (view.offset % 4 == 0 && stride % 4 == 0);
    };
    const bool vectors = g.x.width % 4 == 0 && in_vectors(g.dy.view, g.dy.stride) && in_vectors(g.x.view, g.x.stride) &&
                         in_vectors(g.gain, 0) && in_vectors(g.dx, 0) && in_vectors(g.copy, 0) &&
                         in_vectors(g.dgain, 0) && in_vectors(g.dbias, 0) &&
                         (!g.has_residual || in_vectors(g.residual.view, g.residual.stride));
    const bool has_16_bit = g.copy.resource != 0 || bytes_of(g.dy.view.storage) == 2;
    Dispatch dispatch = subgroup_dispatch(lowering, has_16_bit ? "norm/full_gradient.16" : "norm/full_gradient",
                                          {parts, vectors ? 1u : 0u, g.rms ? 1u : 0u, g.gain.resource != 0 ? 1u : 0u,
                                           g.has_residual ? 1u : 0u, static_cast<uint32_t>(g.dy.view.storage),
                                           4 * lanes(lowering), static_cast<uint32_t>(g.copy.storage)});
    dispatch.record = make_record(gradient_record(g, sums));
    dispatch.groups = static_cast<uint64_t>(sums.parts);
    add_row_costs(dispatch, g);
    lowering.append(std::move(dispatch));
    add_chunks(lowering, sums, g.dgain, g.dbias);
}

void row_gradient(Lowering& lowering, const NormGradient& g) {
    const uint32_t w = load_width(lowering, g.x.width, {&g.dy, &g.x, &g.residual}, {&g.gain, &g.dx, &g.copy});
    Dispatch dispatch = subgroup_dispatch(
        lowering, "norm/gradient", {w, g.rms ? 1u : 0u, g.gain.resource != 0 ? 1u : 0u, g.has_residual ? 1u : 0u});
    const bool has_16_bit = g.copy.resource != 0 || bytes_of(g.dy.view.storage) == 2;
    set_variant(dispatch, w, has_16_bit);
    if (has_16_bit) {
        dispatch.constants.push_back(static_cast<uint32_t>(g.dy.view.storage));
        dispatch.constants.push_back(static_cast<uint32_t>(g.copy.storage));
    }
    dispatch.record = make_record(gradient_record(g, {}));
    dispatch.groups = row_groups(lowering.limits, g.x.rows);
    add_row_costs(dispatch, g);
    lowering.append(std::move(dispatch));
}

void gain_gradient(Lowering& lowering, const NormGradient& g) {
    const uint32_t w = load_width(lowering, g.x.width, {&g.dy, &g.x}, {&g.dgain, &g.dbias});
    const int64_t columns = divide_up(g.x.width, int64_t{lanes(lowering)} * w * 4);
    // Chunks of rows, so that a whole device has work, and their sums in order.
    const int64_t wanted = lowering.limits.cpu ? 8 : 16 * int64_t{lowering.limits.cores};
    const int64_t chunks =
        std::clamp<int64_t>(std::min(divide_up(wanted, columns), divide_up(g.x.rows, 32)), 1, g.x.rows);
    const GainSums sums = make_gain_sums(lowering, g.x, chunks, g.rms, g.dgain, g.dbias);

    Dispatch dispatch = subgroup_dispatch(lowering, "norm/gain_gradient", {w, g.rms ? 1u : 0u});
    set_type(dispatch, g.dy.view, w);
    dispatch.record = make_record(kernels::norm::GainGradientRecord{.dy = g.dy.view,
                                                                    .x = g.x.view,
                                                                    .mean = g.mean,
                                                                    .inverse = g.inverse,
                                                                    .gain_sums = sums.gain,
                                                                    .bias_sums = sums.bias,
                                                                    .rows = word(g.x.rows),
                                                                    .width = word(g.x.width),
                                                                    .dy_stride = word(g.dy.stride),
                                                                    .x_stride = word(g.x.stride),
                                                                    .chunk = word(sums.chunk),
                                                                    .column_groups = word(columns)});
    dispatch.groups = static_cast<uint64_t>(sums.parts * columns);
    dispatch.bytes = static_cast<double>(g.dy.view.bytes() + g.x.view.bytes());
    lowering.append(std::move(dispatch));
    add_chunks(lowering, sums, g.dgain, g.dbias);
}

// sum: what dx is added to, and the value of the result in place of output 0; or nothing.
void norm_gradient(Lowering& lowering, graph::NodeId id, const FusedEpilogue* sum) {
    const graph::Node& node = lowering.graph->nodes[id];
    NormGradient g;
    g.rms = node.op == Op::rms_norm_gradient;
    g.dy = as_rows(lowering, lowering.view(node.inputs[0]));
    g.x = as_rows(lowering, lowering.view(node.inputs[1]));
    if (!g.rms) g.mean = dense_or_none(lowering, node, 2);
    g.inverse = dense_or_none(lowering, node, g.rms ? 2 : 3);
    g.gain = dense_or_none(lowering, node, g.rms ? 3 : 4);
    const graph::ValueId result = sum != nullptr ? sum->output : node.outputs[0];
    g.dx = lowering.allocate(lowering.graph->shape(result), Storage::f32, "gradient of a norm");
    lowering.views[result] = g.dx;
    // Gain and bias may be frozen.
    const bool sums = lowering.read[node.outputs[1]] || (!g.rms && lowering.read[node.outputs[2]]);
    if (sums) {
        g.dgain = make_output(lowering, id, 1);
        if (!g.rms) g.dbias = make_output(lowering, id, 2);
    }
    if (g.dx.elements() == 0) {
        if (!sums) return;
        if (g.dgain.elements() > 0) lowering.fill_zero(g.dgain);
        if (!g.rms && g.dbias.elements() > 0) lowering.fill_zero(g.dbias);
        return;
    }
    g.has_residual = sum != nullptr;
    g.residual = sum != nullptr ? as_rows(lowering, lowering.view(sum->residual)) : g.x;
    if (read_as_factor(lowering, result)) { // a copy for products that read the result
        g.copy = lowering.allocate(g.dx.shape, lowering.options.precision, "gradient of a norm in 16 bits");
        lowering.set_16_bit_copy(g.dx, g.copy);
    }
    if (const uint32_t parts = parts_of_full_gradient(lowering.limits, g); sums && parts != 0) {
        full_gradient(lowering, g, parts);
        return;
    }
    row_gradient(lowering, g);
    if (sums) gain_gradient(lowering, g);
}

} // namespace

Status lower_norm(Lowering& lowering, graph::NodeId id) {
    const Op op = lowering.graph->nodes[id].op;
    if (op == Op::layer_norm || op == Op::rms_norm)
        norm_forward(lowering, id);
    else
        norm_gradient(lowering, id, nullptr);
    return {};
}

void lower_norm_gradient(Lowering& lowering, const FusedEpilogue& epilogue) {
    norm_gradient(lowering, epilogue.node, &epilogue);
}

} // namespace hekla::program
