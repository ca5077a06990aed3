// Cross entropy of a linear's logits, its gradient, or both at once, by chunks of the rows, so that logits [N, V] are
// never stored completely.
#include "program/lowering/common.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

using graph::Op;

constexpr int64_t kChunk = int64_t{136} << 20;       // logits; each chunk reads the weight and adds to its gradient
constexpr int64_t kWantsWeight = 0b110;              // bits of `wanted`: the gradients of weight and bias
constexpr int64_t kChunkOfFrozen = int64_t{8} << 20; // the weight is read alone: smaller chunks cost less
constexpr int64_t kRowAlignment = 64;                // of rows of logits, in elements
constexpr int64_t kPageOfRows = 4096, kApart = 1024; // elements

// All views are dense except the weight's.
struct Loss {
    View x, weight, bias, labels, weights;
    View loss, lse, best; // resource 0: not computed
    View dx, dw, dbias;   // resource 0: not computed
    RowNumbers dloss;     // resource 0: no gradient
    bool input_first = false;
    float smoothing = 0, scale = 1, softcap = 0;
    int32_t ignore = 0;
    int64_t rows = 0, classes = 0, chunk = 0;
    View logits;                // of a chunk: [chunk, V], with aligned rows; then their gradients
    View dbiases;               // the bias's gradients of every chunk: [chunks, V]
    PackedFactor packed_weight; // [C, V], for the logits of several chunks

    int64_t height_from(int64_t first) const { return std::min(chunk, rows - first); }
};

// Returns part of an axis of a view.
View slice_of(View view, int axis, int64_t start, int64_t length) {
    view.offset += static_cast<uint64_t>(start * view.strides[static_cast<std::size_t>(axis)]);
    view.shape[axis] = length;
    return view;
}
View rows_of(const View& view, int64_t first, int64_t count) {
    return view.resource == 0 ? view : slice_of(view, 0, first, count);
}

int64_t rows_of_chunk(const graph::Node& node, const Loss& l) {
    const int64_t wanted = node.integer("chunk");
    if (wanted != 0) return std::min(wanted, l.rows);
    const bool frozen = node.op != Op::linear_cross_entropy && (node.integer("wanted") & kWantsWeight) == 0;
    const int64_t logits = frozen ? kChunkOfFrozen : kChunk;
    const int64_t most = std::max(kRowAlignment, logits / l.classes / kRowAlignment * kRowAlignment);
    const int64_t chunks = divide_up(l.rows, most);
    return std::min(l.rows, divide_up(divide_up(l.rows, chunks), kRowAlignment) * kRowAlignment);
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
    l.scale = static_cast<float>(node.real("scale"));
    l.softcap = static_cast<float>(node.real("softcap"));
    l.ignore = static_cast<int32_t>(node.integer("ignore_index"));
    l.rows = l.x.shape[0];
    l.classes = l.weight.shape[l.input_first ? 1 : 0];
    // Like other results of a product; values of kind float32 stay so.
    const bool halved = lowering.graph->kind(node.inputs[first]) == graph::Kind::float_ &&
                        lowering.graph->kind(node.inputs[first + 1]) == graph::Kind::float_;
    const Storage storage = halved ? lowering.options.precision : Storage::f32;
    l.chunk = rows_of_chunk(node, l);
    int64_t width = divide_up(l.classes, kRowAlignment) * kRowAlignment;
    // Rows whose distance is a large power of two share few sets of a CPU's cache.
    if (lowering.limits.cpu && width >= 4 * kPageOfRows && width % kPageOfRows == 0) width += kApart;
    l.logits = slice_of(lowering.allocate({l.chunk, width}, storage, "logits of a chunk"), 1, 0, l.classes);
    return l;
}

// Products are of whole tiles of classes, and of the rest: then rows of all factors are aligned.
template<class Run>
void each_part(const Loss& l, Run&& run) {
    const int64_t whole = l.classes / kRowAlignment * kRowAlignment;
    if (whole > 0) run(0, whole);
    if (whole < l.classes) run(whole, l.classes - whole);
}

View part_of_weight(const View& weight, const Loss& l, int64_t first, int64_t width) {
    return slice_of(weight, l.input_first ? 1 : 0, first, width);
}

// Kernels for CPUs pack a weight [V, C] for each product: here once for all chunks.
void pack_weight(Lowering& lowering, Loss& l) {
    if (l.input_first || l.chunk >= l.rows) return;
    l.packed_weight = packed_for_products(lowering, l.weight, l.chunk);
}

void compute_logits(Lowering& lowering, const Loss& l, const View& x) {
    const View y = rows_of(l.logits, 0, x.shape[0]);
    if (l.packed_weight.panels.resource != 0) {
        multiply(lowering, x, l.packed_weight, y, l.bias);
        return;
    }
    each_part(l, [&](int64_t first, int64_t width) {
        multiply(lowering, x, false, part_of_weight(l.weight, l, first, width), !l.input_first,
                 slice_of(y, 1, first, width), l.bias.resource == 0 ? View{} : slice_of(l.bias, 0, first, width));
    });
}

// How shaders/loss/cross_entropy_gpu divides a row.
struct Team {
    uint32_t subgroups = 1;
    uint32_t held = 0; // vectors of four logits of an invocation that stay in registers
};

constexpr uint32_t kMostSubgroups = 32; // of a workgroup; some drivers have no more

Team team_of(const Lowering& lowering, const View& logits, bool holds) {
    const Limits& limits = lowering.limits;
    const int64_t vectors = divide_up(logits.shape[1], 4);
    const auto subgroups = [&](uint32_t most) {
        const uint32_t allowed =
            std::clamp(std::min(most, limits.max_group_invocations) / limits.subgroup_size, 1u, kMostSubgroups);
        return static_cast<uint32_t>(std::min<int64_t>(allowed, divide_up(vectors, limits.subgroup_size)));
    };
    if (!holds) return {subgroups(256), 0};
    // Registers for logits: with 512 invocations NVIDIA's GPUs have 128 each. Subgroups of 128 lanes have few.
    const uint32_t registers = limits.compiles_slowly                                ? 8
                               : limits.many_registers && limits.subgroup_size <= 64 ? 80
                                                                                     : 32;
    Team team{subgroups(512), 0};
    team.held = static_cast<uint32_t>(
        std::min<int64_t>(registers / 4, divide_up(vectors, int64_t{team.subgroups} * limits.subgroup_size)));
    return team;
}

// Computes loss, dlogits or both of the rows of a chunk from its logits.
void compute_loss(Lowering& lowering, const Loss& l, int64_t first, int64_t count) {
    const bool loss = l.loss.resource != 0, gradient = l.dloss.view.resource != 0;
    const View logits = rows_of(l.logits, 0, count), dlogits = gradient ? logits : View{};
    const View labels = rows_of(l.labels, first, count), lse = rows_of(l.lse, first, count);
    const View losses = rows_of(l.loss, first, count), best = rows_of(l.best, first, count);
    const View dloss = l.dloss.stride == 0 ? l.dloss.view : rows_of(l.dloss.view, first, count);
    Dispatch dispatch = subgroup_dispatch(lowering, "loss/cross_entropy_rows",
                                          {l.weights.resource != 0 ? 1u : 0u, l.smoothing != 0 ? 1u : 0u,
                                           best.resource != 0 ? 1u : 0u, loss ? 1u : 0u, gradient ? 1u : 0u});
    double read_again = loss && gradient ? 1 : 0; // share of the logits
    if (lowering.limits.kernels_of_gpus()) {
        dispatch.shader = "loss/cross_entropy_gpu";
        const Team team = team_of(lowering, logits, loss && gradient);
        dispatch.constants.insert(dispatch.constants.end(), {team.subgroups, team.held});
        const int64_t held = std::min<int64_t>(l.classes, 4 * int64_t{team.held} * team.subgroups * lanes(lowering));
        read_again -= static_cast<double>(held) / static_cast<double>(l.classes);
    }
    if (bytes_of(logits.storage) == 2) dispatch.shader += ".16";
    dispatch.constants.push_back(static_cast<uint32_t>(logits.storage));
    // Without them the constants are those of a loss that has neither.
    if (l.scale != 1 || l.softcap != 0)
        dispatch.constants.insert(dispatch.constants.end(), {l.scale != 1 ? 1u : 0u, l.softcap != 0 ? 1u : 0u});
    dispatch.record = make_record(kernels::loss::CrossEntropyRowsRecord{.logits = logits,
                                                                        .labels = labels,
                                                                        .weights = l.weights,
                                                                        .dloss = dloss,
                                                                        .dlogits = dlogits,
                                                                        .loss = losses,
                                                                        .lse = loss ? writes(lse) : reads(lse),
                                                                        .best = best,
                                                                        .width = word(l.classes),
                                                                        .stride = word(logits.strides[0]),
                                                                        .ignore = l.ignore,
                                                                        .smoothing = l.smoothing,
                                                                        .dloss_stride = l.dloss.stride,
                                                                        .scale = l.scale,
                                                                        .softcap = l.softcap});
    dispatch.groups = static_cast<uint64_t>(count);
    const auto elements = static_cast<double>(count * l.classes);
    dispatch.bytes = static_cast<double>(logits.bytes()) * (1.0 + std::max(0.0, read_again) + (gradient ? 1.0 : 0.0));
    const double of_cap = l.softcap != 0 ? 20.0 : 0.0;
    dispatch.flops = ((loss ? 12.0 + of_cap : 0.0) + (gradient ? 10.0 + of_cap : 0.0)) * elements;
    lowering.append(std::move(dispatch));
}

// Computes the gradients of the linear from a chunk of dlogits. Gradients of weight and bias are sums over chunks.
void compute_gradients(Lowering& lowering, const Loss& l, const View& x, int64_t first) {
    const View d = rows_of(l.logits, 0, x.shape[0]);
    if (l.dbias.resource != 0) {
        View sum = rows_of(l.dbiases, first / l.chunk, 1);
        sum.shape = l.dbias.shape;
        sum.strides = l.dbias.strides;
        reduce_sum(lowering, d, {true, false}, sum);
    }
    each_part(l, [&](int64_t begin, int64_t width) {
        const View part = slice_of(d, 1, begin, width);
        if (l.dx.resource != 0)
            multiply(lowering, part, false, part_of_weight(l.weight, l, begin, width), l.input_first,
                     rows_of(l.dx, first, d.shape[0]), {}, begin > 0);
        if (l.dw.resource == 0) return;
        const View dw = part_of_weight(l.dw, l, begin, width);
        if (l.input_first)
            multiply(lowering, x, true, part, false, dw, {}, first > 0);
        else
            multiply(lowering, part, true, x, false, dw, {}, first > 0);
    });
}

void by_chunks(Lowering& lowering, Loss& l) {
    const bool gradient = l.dloss.view.resource != 0;
    if (l.dbias.resource != 0)
        l.dbiases =
            lowering.allocate({divide_up(l.rows, l.chunk), l.classes}, Storage::f32, "gradients of a bias by chunks");
    pack_weight(lowering, l);
    for (int64_t first = 0; first < l.rows; first += l.chunk) {
        const int64_t count = l.height_from(first);
        const View x = rows_of(l.x, first, count);
        compute_logits(lowering, l, x);
        compute_loss(lowering, l, first, count);
        if (gradient) compute_gradients(lowering, l, x, first);
    }
    if (l.dbias.resource != 0) sum_chunks(lowering, l.dbiases, l.dbias, divide_up(l.rows, l.chunk));
}

// Makes the outputs dx, dweight and dbias, the first of which is output `first`, and sets those that are wanted.
void set_gradients(Lowering& lowering, graph::NodeId id, std::size_t first, Loss& l) {
    const int64_t wanted = lowering.graph->nodes[id].integer("wanted");
    View* const gradients[] = {&l.dx, &l.dw, &l.dbias};
    for (std::size_t i = 0; i < 3; ++i) {
        const View view = make_output(lowering, id, first + i);
        if ((wanted >> i & 1) != 0) *gradients[i] = view;
    }
}

} // namespace

Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const bool back = node.op != Op::linear_cross_entropy, forward = node.op != Op::linear_cross_entropy_gradient;
    const std::size_t x = back ? 1 : 0;
    if (lowering.graph->shape(node.inputs[x])[0] == 0) {
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
            const View view = make_output(lowering, id, i);
            if (view.elements() > 0) lowering.fill_zero(view);
        }
        return {};
    }
    Loss l = loss_of(lowering, node, x, forward ? x + 4 : 6);
    std::size_t output = 0;
    if (forward) {
        l.loss = make_output(lowering, id, output++);
        if (!back) l.lse = make_output(lowering, id, output++);
        const View best = make_output(lowering, id, output++);
        if (best.elements() > 0) l.best = best;
    } else {
        l.lse = lowering.contiguous(lowering.view(node.inputs[5]));
    }
    if (back) {
        l.dloss = row_numbers(lowering, lowering.view(node.inputs[0]));
        set_gradients(lowering, id, output, l);
    }
    by_chunks(lowering, l);
    return {};
}

} // namespace hekla::program
