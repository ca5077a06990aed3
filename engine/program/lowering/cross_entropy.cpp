// cross_entropy and its gradient over stored logits.
#include "program/lowering/common.hpp"

namespace hekla::program {

namespace {

using graph::Op;

struct Options {
    View weights;
    float smoothing = 0;
    int32_t ignore = 0;
};

Options options_of(Lowering& lowering, const graph::Node& node, std::size_t weights) {
    Options options;
    if (weights < node.inputs.size() && node.inputs[weights] != graph::kNone)
        options.weights = lowering.contiguous(lowering.view(node.inputs[weights]));
    options.smoothing = static_cast<float>(node.real("smoothing"));
    options.ignore = static_cast<int32_t>(node.integer("ignore_index"));
    return options;
}

Dispatch make_dispatch(const Lowering& lowering, const char* shader, const Rows& logits, const Options& options) {
    const uint32_t w = load_width(lowering, logits.width, {&logits}, {&options.weights});
    Dispatch dispatch = subgroup_dispatch(
        lowering, shader, {w, options.weights.resource != 0 ? 1u : 0u, options.smoothing != 0 ? 1u : 0u});
    set_variant(dispatch, w, false);
    return dispatch;
}

void cross_entropy_forward(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const Options options = options_of(lowering, node, 2);
    const View labels = lowering.contiguous(lowering.view(node.inputs[1]));
    const View loss = make_output(lowering, id, 0);
    const View lse = make_output(lowering, id, 1);
    if (loss.elements() == 0) return;
    const Rows logits = as_rows(lowering, lowering.view(node.inputs[0]));

    Dispatch dispatch = make_dispatch(lowering, "loss/cross_entropy", logits, options);
    dispatch.record = make_record(kernels::loss::CrossEntropyRecord{.logits = logits.view,
                                                                    .labels = labels,
                                                                    .weights = options.weights,
                                                                    .loss = loss,
                                                                    .lse = lse,
                                                                    .rows = word(logits.rows),
                                                                    .width = word(logits.width),
                                                                    .stride = word(logits.stride),
                                                                    .ignore = options.ignore,
                                                                    .smoothing = options.smoothing});
    dispatch.groups = row_groups(lowering.limits, logits.rows);
    dispatch.bytes = static_cast<double>(logits.view.bytes());
    dispatch.flops = 12.0 * static_cast<double>(logits.view.elements());
    lowering.append(std::move(dispatch));
}

void cross_entropy_gradient(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const Options options = options_of(lowering, node, 4);
    const View dlogits = make_output(lowering, id, 0);
    if (dlogits.elements() == 0) return;
    const RowNumbers dloss = row_numbers(lowering, lowering.view(node.inputs[0]));
    const Rows logits = as_rows(lowering, lowering.view(node.inputs[1]));
    const View labels = lowering.contiguous(lowering.view(node.inputs[2]));
    const View lse = lowering.contiguous(lowering.view(node.inputs[3]));

    Dispatch dispatch = make_dispatch(lowering, "loss/cross_entropy_gradient", logits, options);
    dispatch.record = make_record(kernels::loss::CrossEntropyGradientRecord{.dloss = dloss.view,
                                                                            .logits = logits.view,
                                                                            .labels = labels,
                                                                            .lse = lse,
                                                                            .weights = options.weights,
                                                                            .dlogits = dlogits,
                                                                            .rows = word(logits.rows),
                                                                            .width = word(logits.width),
                                                                            .stride = word(logits.stride),
                                                                            .ignore = options.ignore,
                                                                            .smoothing = options.smoothing,
                                                                            .dloss_stride = dloss.stride});
    dispatch.groups = row_groups(lowering.limits, logits.rows);
    dispatch.bytes = 2.0 * static_cast<double>(dlogits.bytes());
    dispatch.flops = 10.0 * static_cast<double>(dlogits.elements());
    lowering.append(std::move(dispatch));
}

} // namespace

Status lower_cross_entropy(Lowering& lowering, graph::NodeId id) {
    if (lowering.graph->nodes[id].op == Op::cross_entropy)
        cross_entropy_forward(lowering, id);
    else
        cross_entropy_gradient(lowering, id);
    return {};
}

} // namespace hekla::program
