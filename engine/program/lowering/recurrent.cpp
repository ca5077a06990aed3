// gru and lstm, and their gradients: one matmul for the inputs, and one dispatch that iterates over time.
#include "program/lowering/common.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::program {

namespace {

using graph::Op;
using graph::Shape;

using namespace kernels::recurrent; // the flags and records

// Variants of the kernels that iterate over time. The first row that suits is used.
struct RecurrentVariant {
    const char* name; // recurrent/forward.NAME and recurrent/gradient.NAME
    int64_t rows;     // of the batch, per workgroup
    int64_t least_batch;
    bool subgroup; // a workgroup is one subgroup: for CPUs, where a barrier between several is expensive
};
constexpr RecurrentVariant kVariants[] = {
    {"r16", 16, 32, true},
    {"r4", 4, 4, true},
    {"r1", 1, 0, true},
    {"lane", 1, 0, false},
};

// A layer's inputs, dense; omitted ones have resource 0.
struct Layer {
    bool lstm = false;
    View x, input_weight, hidden_weight, input_bias, hidden_bias, lengths, initial, initial_cell;
    int64_t batch = 0, time = 0, in = 0, hidden = 0, width = 0; // width: gates H
    uint32_t flags = 0;                                         // of the layer; without those of a gradient's inputs
    uint32_t lanes = 0;                                         // per workgroup
    const RecurrentVariant* kernel = nullptr;                   // the kernel that iterates over time

    int64_t tokens() const { return batch * time; }
};

View dense(Lowering& lowering, const graph::Node& node, std::size_t input) {
    if (input >= node.inputs.size() || node.inputs[input] == graph::kNone) return {};
    return lowering.contiguous(lowering.view(node.inputs[input]));
}

View matrix(View view, int64_t rows, int64_t columns) {
    view.shape = Shape{rows, columns};
    view.strides.fill(0);
    view.strides[0] = columns;
    view.strides[1] = 1;
    return view;
}

Layer layer_of(Lowering& lowering, const graph::Node& node, std::size_t x, bool lstm) {
    Layer l;
    l.lstm = lstm;
    View* const views[] = {&l.x,           &l.input_weight, &l.hidden_weight, &l.input_bias,
                           &l.hidden_bias, &l.lengths,      &l.initial,       &l.initial_cell};
    for (std::size_t i = 0; i < (lstm ? 8u : 7u); ++i) *views[i] = dense(lowering, node, x + i);
    l.batch = l.x.shape[0];
    l.time = l.x.shape[1];
    l.in = l.x.shape[2];
    l.hidden = l.hidden_weight.shape[1];
    l.width = (lstm ? 4 : 3) * l.hidden;
    l.flags = (lstm ? kLstm : 0u) | (node.integer("reverse") != 0 ? kReverse : 0u) |
              (l.lengths.resource != 0 ? kLengths : 0u) | (l.initial.resource != 0 ? kInitial : 0u) |
              (l.initial_cell.resource != 0 ? kInitialCell : 0u);
    l.kernel = std::ranges::find_if(kVariants, [&](const RecurrentVariant& variant) {
        return variant.subgroup == lowering.limits.cpu && l.batch >= variant.least_batch;
    });
    // A subgroup reuses loaded weights for several rows; other variants have one row per workgroup, with a lane per
    // unit.
    const int64_t most = l.kernel->subgroup ? lanes(lowering) : std::min(256u, lowering.limits.max_group_invocations);
    const int64_t wanted = divide_up(std::max<int64_t>(l.hidden, 1), lanes(lowering)) * lanes(lowering);
    l.lanes = word(std::min(most, wanted));
    return l;
}

void walk(Lowering& lowering, const Layer& l, const char* shader, uint32_t flags, Dispatch& dispatch) {
    dispatch.shader = fmt::format("recurrent/{}.{}", shader, l.kernel->name);
    dispatch.constants = {l.lanes, flags};
    if (l.kernel->subgroup) dispatch.subgroup_size = lanes(lowering);
    dispatch.groups = static_cast<uint64_t>(divide_up(l.batch, l.kernel->rows));
    dispatch.flops = 2.0 * static_cast<double>(l.tokens()) * static_cast<double>(l.width * l.hidden);
}

// Computes [B T, gates H]: rows [B T, depth] times a weight [gates H, depth], plus its bias.
View project(Lowering& lowering, const Layer& l, const View& rows, int64_t depth, const View& weight, const View& bias,
             const char* name) {
    const View result = lowering.allocate({l.tokens(), l.width}, Storage::f32, name);
    multiply(lowering, matrix(rows, l.tokens(), depth), false, weight, true, result, bias);
    return result;
}

void forward(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const Layer l = layer_of(lowering, node, 0, node.op == Op::lstm);
    const View y = make_output(lowering, id, 0);
    const View last = make_output(lowering, id, 1);
    const View last_cell = l.lstm ? make_output(lowering, id, 2) : View{};
    const View cells = l.lstm ? make_output(lowering, id, 3) : View{};
    if (y.elements() == 0) { // no tokens: the states do not change
        const auto stays = [&](const View& from, const View& to) {
            if (to.resource == 0 || to.elements() == 0) return;
            if (from.resource != 0)
                lowering.copy(from, to);
            else
                lowering.fill_zero(to);
        };
        stays(l.initial, last);
        stays(l.initial_cell, last_cell);
        return;
    }
    const View inputs = project(lowering, l, l.x, l.in, l.input_weight, l.input_bias, "gates from inputs");
    View turned = l.hidden_weight;
    std::swap(turned.shape[0], turned.shape[1]);
    std::swap(turned.strides[0], turned.strides[1]);
    const View weight = lowering.contiguous(turned);

    Dispatch dispatch;
    walk(lowering, l, "forward", l.flags, dispatch);
    dispatch.record = make_record(ForwardRecord{.inputs = inputs,
                                                .weight = weight,
                                                .bias = l.hidden_bias,
                                                .lengths = l.lengths,
                                                .initial = l.initial,
                                                .initial_cell = l.initial_cell,
                                                .y = y,
                                                .last = last,
                                                .last_cell = last_cell,
                                                .cells = cells,
                                                .time = word(l.time),
                                                .hidden = word(l.hidden),
                                                .batch = word(l.batch)});
    dispatch.bytes = static_cast<double>(inputs.bytes() + y.bytes()) + static_cast<double>(l.tokens()) /
                                                                           static_cast<double>(l.kernel->rows) *
                                                                           static_cast<double>(weight.bytes());
    lowering.append(std::move(dispatch));
}

// Computes the state before every token.
View before(Lowering& lowering, const Layer& l, const View& after, const View& initial) {
    const View result = lowering.allocate({l.batch, l.time, l.hidden}, Storage::f32, "states before the tokens");
    Dispatch dispatch;
    dispatch.shader = "recurrent/before";
    dispatch.constants = {l.lanes, (l.flags & ~uint32_t{kInitial}) | (initial.resource != 0 ? kInitial : 0u)};
    dispatch.record = make_record(BeforeRecord{.after = after,
                                               .lengths = l.lengths,
                                               .initial = initial,
                                               .y = result,
                                               .time = word(l.time),
                                               .hidden = word(l.hidden)});
    dispatch.groups = static_cast<uint64_t>(l.tokens());
    dispatch.bytes = 2.0 * static_cast<double>(result.bytes());
    lowering.append(std::move(dispatch));
    return result;
}

void gradient(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const bool lstm = node.op == Op::lstm_gradient;
    const Layer l = layer_of(lowering, node, lstm ? 5 : 3, lstm);
    const View dy = dense(lowering, node, 0);
    const View dlast = dense(lowering, node, 1);
    const View dlast_cell = lstm ? dense(lowering, node, 2) : View{};
    const View y = dense(lowering, node, lstm ? 3 : 2);
    const View cells = lstm ? dense(lowering, node, 4) : View{};
    const View dx = make_output(lowering, id, 0);
    const View dinput_weight = make_output(lowering, id, 1);
    const View dhidden_weight = make_output(lowering, id, 2);
    const View dinput_bias = make_output(lowering, id, 3);
    const View dhidden_bias = make_output(lowering, id, 4);
    const View dinitial = make_output(lowering, id, 5);
    const View dinitial_cell = lstm ? make_output(lowering, id, 6) : View{};
    if (y.elements() == 0) {
        for (const View& view : {dx, dinput_weight, dhidden_weight, dinput_bias, dhidden_bias})
            if (view.elements() > 0) lowering.fill_zero(view);
        const auto passes = [&](const View& from, const View& to) {
            if (to.resource == 0 || to.elements() == 0) return;
            if (from.resource != 0)
                lowering.copy(from, to);
            else
                lowering.fill_zero(to);
        };
        passes(dlast, dinitial);
        passes(dlast_cell, dinitial_cell);
        return;
    }
    const View states = before(lowering, l, y, l.initial);
    const View before_cells = lstm ? before(lowering, l, cells, l.initial_cell) : View{};
    const View inputs = project(lowering, l, l.x, l.in, l.input_weight, l.input_bias, "gates from inputs");
    const View hiddens = project(lowering, l, states, l.hidden, l.hidden_weight, l.hidden_bias, "gates from states");
    const View dhiddens = lowering.allocate({l.tokens(), l.width}, Storage::f32, "gradient of the gates from states");
    const View dinputs =
        lstm ? dhiddens : lowering.allocate({l.tokens(), l.width}, Storage::f32, "gradient of the gates from inputs");

    Dispatch dispatch;
    walk(lowering, l, "gradient",
         l.flags | (dy.resource != 0 ? kDy : 0u) | (dlast.resource != 0 ? kDlast : 0u) |
             (dlast_cell.resource != 0 ? kDlastCell : 0u),
         dispatch);
    dispatch.record = make_record(GradientRecord{.dy = dy,
                                                 .dlast = dlast,
                                                 .dlast_cell = dlast_cell,
                                                 .inputs = inputs,
                                                 .hiddens = hiddens,
                                                 .before = states,
                                                 .before_cells = before_cells,
                                                 .cells = cells,
                                                 .weight = l.hidden_weight,
                                                 .lengths = l.lengths,
                                                 .dinputs = dinputs,
                                                 .dhiddens = dhiddens,
                                                 .dinitial = dinitial,
                                                 .dinitial_cell = dinitial_cell,
                                                 .time = word(l.time),
                                                 .hidden = word(l.hidden),
                                                 .batch = word(l.batch)});
    dispatch.bytes = 4.0 * static_cast<double>(inputs.bytes()) + static_cast<double>(l.tokens()) /
                                                                     static_cast<double>(l.kernel->rows) *
                                                                     static_cast<double>(l.hidden_weight.bytes());
    lowering.append(std::move(dispatch));

    multiply(lowering, dinputs, false, l.input_weight, false, matrix(dx, l.tokens(), l.in), {});
    multiply(lowering, dinputs, true, matrix(l.x, l.tokens(), l.in), false, dinput_weight, {});
    multiply(lowering, dhiddens, true, matrix(states, l.tokens(), l.hidden), false, dhidden_weight, {});
    reduce_sum(lowering, dinputs, {true, false}, dinput_bias);
    reduce_sum(lowering, dhiddens, {true, false}, dhidden_bias);
}

} // namespace

Status lower_recurrent(Lowering& lowering, graph::NodeId id) {
    const Op op = lowering.graph->nodes[id].op;
    if (op == Op::gru || op == Op::lstm)
        forward(lowering, id);
    else
        gradient(lowering, id);
    return {};
}

} // namespace hekla::program
