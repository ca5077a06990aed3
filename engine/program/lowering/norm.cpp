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

bool odd_offset(const View& view) { return view.resource != 0 && view.offset % 2 != 0; }

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

    Dispatch dispatch;
    dispatch.shader = "norm/forward";
    const uint32_t w = odd_offset(gain) || odd_offset(bias) ? 1u : load_width(x.width, {&x});
    dispatch.constants = {lanes(lowering), w, rms ? 1u : 0u, gain.resource != 0 ? 1u : 0u,
                          bias.resource != 0 ? 1u : 0u};
    set_type(dispatch, y);
    dispatch.subgroup_size = lanes(lowering);
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
    dispatch.groups = row_groups(x.rows);
    dispatch.reads(x.view);
    dispatch.reads(gain);
    dispatch.reads(bias);
    dispatch.writes(y);
    dispatch.writes(mean);
    dispatch.writes(inverse);
    dispatch.bytes = static_cast<double>(x.view.bytes() + y.bytes());
    dispatch.flops = 8.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
}

void gain_gradient(Lowering& lowering, const Rows& dy, const Rows& x, const View& mean, const View& inverse,
                   const View& dgain, const View& dbias) {
    const bool rms = mean.resource == 0;
    const uint32_t w = load_width(x.width, {&dy, &x});
    const int64_t columns = divide_up(x.width, int64_t{lanes(lowering)} * w * 4);
    // Chunks of rows, so that a whole device has work, and their sums in order.
    const int64_t wanted = lowering.limits.cpu ? 8 : 16 * int64_t{lowering.limits.cores};
    const int64_t chunks = std::clamp<int64_t>(std::min(divide_up(wanted, columns), divide_up(x.rows, 32)), 1, x.rows);
    const int64_t chunk = divide_up(x.rows, chunks);
    const int64_t parts = divide_up(x.rows, chunk);
    const bool direct = parts == 1;
    const View gain_sums = direct ? dgain : lowering.allocate({parts, x.width}, Storage::f32, "sums of dgain");
    const View bias_sums = rms || direct ? dbias : lowering.allocate({parts, x.width}, Storage::f32, "sums of dbias");

    Dispatch dispatch;
    dispatch.shader = "norm/gain_gradient";
    dispatch.constants = {lanes(lowering), w, rms ? 1u : 0u};
    set_type(dispatch, dy.view);
    dispatch.subgroup_size = lanes(lowering);
    dispatch.record = make_record(kernels::norm::GainGradientRecord{.dy = dy.view,
                                                                    .x = x.view,
                                                                    .mean = mean,
                                                                    .inverse = inverse,
                                                                    .gain_sums = gain_sums,
                                                                    .bias_sums = bias_sums,
                                                                    .rows = word(x.rows),
                                                                    .width = word(x.width),
                                                                    .dy_stride = word(dy.stride),
                                                                    .x_stride = word(x.stride),
                                                                    .chunk = word(chunk),
                                                                    .column_groups = word(columns)});
    dispatch.groups = static_cast<uint64_t>(parts * columns);
    dispatch.reads(dy.view);
    dispatch.reads(x.view);
    dispatch.reads(mean);
    dispatch.reads(inverse);
    dispatch.writes(gain_sums);
    dispatch.writes(bias_sums);
    dispatch.bytes = static_cast<double>(dy.view.bytes() + x.view.bytes());
    lowering.append(std::move(dispatch));
    if (direct) return;
    sum_chunks(lowering, gain_sums, dgain, parts);
    if (!rms) sum_chunks(lowering, bias_sums, dbias, parts);
}

// sum: what dx is added to, and the value of the result in place of output 0; or nothing.
void norm_gradient(Lowering& lowering, graph::NodeId id, const FusedEpilogue* sum) {
    const graph::Node& node = lowering.graph->nodes[id];
    const bool rms = node.op == Op::rms_norm_gradient;
    const Rows dy = as_rows(lowering, lowering.view(node.inputs[0]));
    const Rows x = as_rows(lowering, lowering.view(node.inputs[1]));
    const View mean = rms ? View{} : dense_or_none(lowering, node, 2);
    const View inverse = dense_or_none(lowering, node, rms ? 2 : 3);
    const View gain = dense_or_none(lowering, node, rms ? 3 : 4);
    const graph::ValueId result = sum != nullptr ? sum->output : node.outputs[0];
    const View dx = lowering.allocate(lowering.graph->shape(result), Storage::f32, "gradient of a norm");
    lowering.views[result] = dx;
    const View dgain = make_output(lowering, id, 1);
    const View dbias = rms ? View{} : make_output(lowering, id, 2);
    if (dx.elements() == 0) {
        if (dgain.elements() > 0) lowering.fill_zero(dgain);
        if (!rms && dbias.elements() > 0) lowering.fill_zero(dbias);
        return;
    }
    const Rows residual = sum != nullptr ? as_rows(lowering, lowering.view(sum->residual)) : x;
    View copy; // for products that read the result
    if (read_as_factor(lowering, result)) {
        copy = lowering.allocate(dx.shape, lowering.options.precision, "gradient of a norm in 16 bits");
        lowering.set_16_bit_copy(dx, copy);
    }
    Dispatch dispatch;
    dispatch.shader = "norm/gradient";
    const uint32_t w = odd_offset(gain) ? 1u : load_width(x.width, {&dy, &x, &residual});
    dispatch.constants = {lanes(lowering), w, rms ? 1u : 0u, gain.resource != 0 ? 1u : 0u, sum != nullptr ? 1u : 0u};
    if (copy.resource != 0 || bytes_of(dy.view.storage) == 2) {
        dispatch.shader += ".16";
        dispatch.constants.push_back(static_cast<uint32_t>(dy.view.storage));
        dispatch.constants.push_back(static_cast<uint32_t>(copy.storage));
    }
    dispatch.subgroup_size = lanes(lowering);
    dispatch.record = make_record(kernels::norm::GradientRecord{.dy = dy.view,
                                                                .x = x.view,
                                                                .gain = gain,
                                                                .mean = mean,
                                                                .inverse = inverse,
                                                                .residual = residual.view,
                                                                .dx = dx,
                                                                .copy = copy,
                                                                .rows = word(x.rows),
                                                                .width = word(x.width),
                                                                .dy_stride = word(dy.stride),
                                                                .x_stride = word(x.stride),
                                                                .residual_stride = word(residual.stride)});
    dispatch.groups = row_groups(x.rows);
    dispatch.reads(dy.view);
    dispatch.reads(x.view);
    dispatch.reads(gain);
    dispatch.reads(mean);
    dispatch.reads(inverse);
    if (sum != nullptr) dispatch.reads(residual.view);
    dispatch.writes(dx);
    if (copy.resource != 0) dispatch.writes(copy);
    dispatch.bytes =
        static_cast<double>(dy.view.bytes() + x.view.bytes() + dx.bytes() +
                            (sum != nullptr ? residual.view.bytes() : 0) + (copy.resource != 0 ? copy.bytes() : 0));
    dispatch.flops = 12.0 * static_cast<double>(dx.elements());
    lowering.append(std::move(dispatch));
    gain_gradient(lowering, dy, x, mean, inverse, dgain, dbias);
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
