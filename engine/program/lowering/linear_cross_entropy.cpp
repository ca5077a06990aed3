// Cross entropy of a linear's logits and its gradient, by chunks of the classes, so that logits [N, V] are never stored
// completely.
#include "program/lowering/common.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using graph::Op;

constexpr int64_t kChunkBytes = int64_t{64} << 20; // of a chunk's logits
constexpr int64_t kLeastClasses = 256;             // of a chunk; with fewer, a product's tiles are partly empty

// Inputs of both directions. All views are dense except the weight's.
struct Loss {
    View x, weight, bias, labels, weights;
    View total; // the sum of `weights`, if smoothing needs it
    bool input_first = false;
    float smoothing = 0;
    int32_t ignore = 0;
    int64_t rows = 0, classes = 0, chunk = 0;
    View room;      // of a chunk's logits: [N, chunk]
    View as_16_bit; // the same in the program's precision, if that is 16 bits

    int64_t width_from(int64_t first) const { return std::min(chunk, classes - first); }
};

// Returns part of an axis of a view.
View slice_of(View view, int axis, int64_t start, int64_t length) {
    view.offset += static_cast<uint64_t>(start * view.strides[static_cast<std::size_t>(axis)]);
    view.shape[axis] = length;
    return view;
}

// `first` is the index of input x; class weights are input `weights`.
Loss loss_of(Lowering& lowering, const graph::Node& node, std::size_t first, std::size_t weights) {
    const auto dense = [&](std::size_t input) {
        const View view = optional_view(lowering, node.inputs[input]);
        return view.resource == 0 ? view : lowering.contiguous(view);
    };
    Loss l;
    l.x = lowering.contiguous(factor_view(lowering, node.inputs[first]));
    l.weight = factor_view(lowering, node.inputs[first + 1]);
    l.bias = dense(first + 2);
    l.labels = dense(first + 3);
    l.weights = dense(weights);
    l.input_first = node.integer("input_first") != 0;
    l.smoothing = static_cast<float>(node.real("smoothing"));
    l.ignore = static_cast<int32_t>(node.integer("ignore_index"));
    l.rows = l.x.shape[0];
    l.classes = l.weight.shape[l.input_first ? 1 : 0];
    l.chunk = node.integer("chunk");
    if (l.chunk == 0) l.chunk = std::max(kLeastClasses, kChunkBytes / (4 * std::max<int64_t>(l.rows, 1)) / 64 * 64);
    l.chunk = std::min(l.chunk, l.classes);
    if (l.weights.resource != 0 && l.smoothing != 0) {
        l.total = lowering.allocate({}, Storage::f32, "sum of class weights");
        reduce_sum(lowering, l.weights, {true}, l.total);
    }
    l.room = lowering.allocate({l.rows, l.chunk}, Storage::f32, "logits of a chunk");
    return l;
}

View chunk_of_weight(const Loss& l, int64_t first) {
    return slice_of(l.weight, l.input_first ? 1 : 0, first, l.width_from(first));
}

// Computes dense logits of the classes from `first` on.
View logits(Lowering& lowering, const Loss& l, int64_t first) {
    const int64_t width = l.width_from(first);
    View y = l.room;
    y.shape[1] = width;
    y.strides[0] = width;
    multiply(lowering, l.x, false, chunk_of_weight(l, first), !l.input_first, y,
             l.bias.resource == 0 ? View{} : slice_of(l.bias, 0, first, width));
    return y;
}

std::vector<uint32_t> constants(const Lowering& lowering, const Loss& l, int64_t first, int64_t width) {
    const bool pairs = even({width, first, static_cast<int64_t>(l.weights.offset)});
    return {lanes(lowering), pairs ? 2u : 1u, l.weights.resource != 0 ? 1u : 0u, l.smoothing != 0 ? 1u : 0u};
}

void linear_cross_entropy_forward(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View loss = make_output(lowering, id, 0);
    const View lse = make_output(lowering, id, 1);
    const View best = make_output(lowering, id, 2);
    if (loss.elements() == 0) return;
    const Loss l = loss_of(lowering, node, 0, 4);
    const View state = lowering.allocate({4, l.rows}, Storage::f32, "state of a chunked cross entropy");
    for (int64_t first = 0; first < l.classes; first += l.chunk) {
        const View y = logits(lowering, l, first);
        const int64_t width = y.shape[1];
        const bool more = first > 0, last = first + width == l.classes;
        Dispatch dispatch;
        dispatch.shader = "loss/cross_entropy_chunk";
        dispatch.constants = constants(lowering, l, first, width);
        dispatch.constants.push_back(best.elements() > 0 ? 1u : 0u);
        dispatch.subgroup_size = lanes(lowering);
        dispatch.record =
            make_record(kernels::loss::CrossEntropyChunkRecord{.logits = y,
                                                               .labels = l.labels,
                                                               .weights = l.weights,
                                                               .total = l.total,
                                                               .state = state,
                                                               .loss = loss,
                                                               .lse = lse,
                                                               .best = best.elements() > 0 ? best : View{},
                                                               .rows = word(l.rows),
                                                               .width = word(width),
                                                               .first = word(first),
                                                               .classes = word(l.classes),
                                                               .ignore = l.ignore,
                                                               .smoothing = l.smoothing});
        dispatch.groups = row_groups(l.rows);
        for (const View& view : {y, l.labels, l.weights, l.total}) dispatch.reads(view);
        if (more) dispatch.reads(state);
        if (more) dispatch.reads(best);
        dispatch.writes(state); // the last chunk writes it too, even if it is the only one
        dispatch.writes(best);
        if (last) dispatch.writes(loss);
        if (last) dispatch.writes(lse);
        dispatch.bytes = static_cast<double>(y.bytes());
        dispatch.flops = 12.0 * static_cast<double>(y.elements());
        lowering.append(std::move(dispatch));
    }
}

// Overwrites the logits of the classes from `first` on with dlogits.
void to_gradient(Lowering& lowering, const Loss& l, const View& dloss, const View& lse, const View& y, int64_t first) {
    const int64_t width = y.shape[1];
    Dispatch dispatch;
    dispatch.shader = "loss/cross_entropy_gradient";
    dispatch.constants = constants(lowering, l, first, width);
    dispatch.constants.push_back(1);
    dispatch.subgroup_size = lanes(lowering);
    dispatch.record = make_record(kernels::loss::CrossEntropyGradientRecord{.dloss = dloss,
                                                                            .logits = y,
                                                                            .labels = l.labels,
                                                                            .lse = lse,
                                                                            .weights = l.weights,
                                                                            .dlogits = y,
                                                                            .total = l.total,
                                                                            .rows = word(l.rows),
                                                                            .width = word(width),
                                                                            .stride = word(width),
                                                                            .ignore = l.ignore,
                                                                            .smoothing = l.smoothing,
                                                                            .dloss_stride = 1,
                                                                            .first = word(first),
                                                                            .classes = word(l.classes)});
    dispatch.groups = row_groups(l.rows);
    for (const View& view : {dloss, y, l.labels, lse, l.weights, l.total}) dispatch.reads(view);
    dispatch.writes(y);
    dispatch.bytes = 2.0 * static_cast<double>(y.bytes());
    dispatch.flops = 10.0 * static_cast<double>(y.elements());
    lowering.append(std::move(dispatch));
}

// Returns a chunk of dlogits in the storage that the following products read.
View factor(Lowering& lowering, const Loss& l, const View& d) {
    if (l.as_16_bit.resource == 0) return d;
    View stored = l.as_16_bit;
    stored.shape = d.shape;
    stored.strides = d.strides;
    lowering.store_as_16_bit(d, stored);
    return stored;
}

void linear_cross_entropy_gradient(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View dx = make_output(lowering, id, 0);
    const View dweight = make_output(lowering, id, 1);
    const View dbias = make_output(lowering, id, 2);
    const int64_t wanted = node.integer("wanted");
    if (lowering.graph->shape(node.inputs[1])[0] == 0) {
        for (const View& view : {dx, dweight, dbias}) lowering.fill_zero(view);
        return;
    }
    const View dloss = lowering.contiguous(lowering.view(node.inputs[0]));
    const View lse = lowering.contiguous(lowering.view(node.inputs[5]));
    Loss l = loss_of(lowering, node, 1, 6);
    if (bytes_of(lowering.options.precision) == 2)
        l.as_16_bit =
            lowering.allocate(l.room.shape, lowering.options.precision, "gradients of a chunk's logits in 16 bits");
    for (int64_t first = 0; first < l.classes; first += l.chunk) {
        View d = logits(lowering, l, first);
        const int64_t width = d.shape[1];
        to_gradient(lowering, l, dloss, lse, d, first);
        if ((wanted & 4) != 0) reduce_sum(lowering, d, {true, false}, slice_of(dbias, 0, first, width));
        d = factor(lowering, l, d);
        if ((wanted & 1) != 0)
            multiply(lowering, d, false, chunk_of_weight(l, first), l.input_first, dx, {}, first > 0);
        if ((wanted & 2) != 0 && !l.input_first)
            multiply(lowering, d, true, l.x, false, slice_of(dweight, 0, first, width), {});
        if ((wanted & 2) != 0 && l.input_first) {
            const View columns = lowering.allocate({l.x.shape[1], width}, Storage::f32, "gradient of a chunk's weight");
            multiply(lowering, l.x, true, d, false, columns, {});
            lowering.copy(columns, slice_of(dweight, 1, first, width));
        }
    }
}

} // namespace

Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId id) {
    if (lowering.graph->nodes[id].op == Op::linear_cross_entropy)
        linear_cross_entropy_forward(lowering, id);
    else
        linear_cross_entropy_gradient(lowering, id);
    return {};
}

} // namespace hekla::program
