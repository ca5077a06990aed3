// row_linear: a product with a matrix of its own for every row of the batch.
#include "program/lowering/common.hpp"

namespace hekla::program {

namespace {

// Up to this many tokens a row, each token reads the matrix where it is; for more, rows get copies of their matrices,
// and the product is one of batches. Measured in shaders/TRIED.md.
constexpr int64_t kFewTokens = 4;
// From this many rows a matrix, rows of one token are sorted by their matrix.
constexpr int64_t kManyRows = 8;

struct RowProduct {
    View x;       // [rows, tokens, in]
    View weights; // [matrices, out, in] or [matrices, in, out], dense
    View choice;  // [rows]
    View y;       // [rows, tokens, out], dense
    bool input_first = false;

    int64_t rows() const { return y.shape[0]; }
    int64_t tokens() const { return y.shape[1]; }
    int64_t in() const { return x.shape[2]; }
    int64_t out() const { return y.shape[2]; }
};

void multiply_few(Lowering& lowering, const RowProduct& p) {
    using namespace kernels::row_linear;
    const Rows x = as_rows(lowering, p.x);
    const auto group = static_cast<int64_t>(lanes(lowering));
    const uint32_t layout = p.input_first ? kInputFirst : p.in() >= 4 * group ? kAlongInputs : kAcrossOutputs;
    const Rows matrix{p.weights, 0, p.in(), p.in()};
    const uint32_t width = layout == kInputFirst ? 1 : load_width(lowering, p.in(), {&x, &matrix});
    const int64_t outputs = layout == kAlongInputs ? kOutputsAlong : kOutputsAcross * group;
    const int64_t blocks = divide_up(p.out(), outputs);
    Dispatch dispatch = subgroup_dispatch(lowering, "row_linear/few", {width, layout});
    set_variant(dispatch, width, false);
    dispatch.record = make_record(FewRecord{.x = x.view,
                                            .weights = p.weights,
                                            .choice = p.choice,
                                            .y = p.y,
                                            .tokens = word(p.tokens()),
                                            .in_ = word(p.in()),
                                            .out_ = word(p.out()),
                                            .x_stride = word(x.stride),
                                            .matrices = word(p.weights.shape[0]),
                                            .blocks = word(blocks)});
    dispatch.groups = static_cast<uint64_t>(p.rows() * p.tokens() * blocks);
    const auto products = static_cast<double>(p.rows() * p.tokens() * p.in()) * static_cast<double>(p.out());
    dispatch.flops = 2.0 * products;
    dispatch.bytes = 4.0 * products + static_cast<double>(x.view.bytes() + p.y.bytes());
    lowering.append(std::move(dispatch));
}

// Computes to[i] = from[choice[i]], all dense; 0 where the choice is none of from's.
void pick(Lowering& lowering, const View& from, const View& choice, const View& to) {
    const int64_t rows = choice.elements(), size = to.elements() / rows;
    const Rows source{from, 0, size, size};
    const uint32_t width = load_width(lowering, size, {&source}, {&to});
    const int64_t block = int64_t{lanes(lowering)} * width * 16;
    const int64_t blocks = divide_up(size, block);
    Dispatch dispatch = subgroup_dispatch(lowering, "row_linear/pick", {width});
    set_variant(dispatch, width, false);
    dispatch.record = make_record(kernels::row_linear::PickRecord{.from = from,
                                                                  .choice = choice,
                                                                  .to = to,
                                                                  .size = word(size),
                                                                  .count = word(from.elements() / size),
                                                                  .blocks = word(blocks),
                                                                  .block = word(block)});
    dispatch.groups = static_cast<uint64_t>(rows * blocks);
    dispatch.bytes = 2.0 * static_cast<double>(to.bytes());
    lowering.append(std::move(dispatch));
}

// Returns the matrix of every row: [rows, out, in] or [rows, in, out].
View copied_matrices(Lowering& lowering, const RowProduct& p) {
    graph::Shape shape = p.weights.shape;
    shape[0] = p.rows();
    const View copies = lowering.allocate(shape, Storage::f32, "matrices of rows");
    pick(lowering, p.weights, p.choice, copies);
    return copies;
}

// The slots of a tile: multiples of every kernel's step of K, and of its rows where those matter.
int64_t tile_height(const Limits& limits, int64_t rows, int64_t matrices) {
    if (limits.uniform_loads) return 48;
    return limits.cpu || rows < 512 * matrices ? 64 : 128;
}

const RowGroups& groups_of(Lowering& lowering, graph::ValueId value, int64_t matrices) {
    const auto [found, is_new] = lowering.row_groups.try_emplace({value, matrices});
    RowGroups& groups = found->second;
    if (!is_new) return groups;
    using namespace kernels::row_linear;
    const View choice = lowering.contiguous(lowering.view(value));
    const int64_t rows = choice.elements();
    const auto integers = [&](int64_t count, const char* name) {
        return lowering.allocate({count}, Storage::i32, name);
    };
    groups.height = tile_height(lowering.limits, rows, matrices);
    groups.tiles = rows / groups.height + matrices;
    groups.row_of_slot = integers(groups.slots(), "rows by matrix");
    groups.slot_of_row = integers(rows, "slots of rows");
    groups.matrix_of_tile = integers(groups.tiles, "matrices of tiles");
    groups.first_slot = integers(matrices + 1, "slots of matrices");
    const View counts = integers(matrices, "rows of matrices");

    Dispatch count = subgroup_dispatch(lowering, "row_linear/count");
    count.record = make_record(CountRecord{.choice = choice, .counts = counts, .rows = word(rows)});
    count.groups = static_cast<uint64_t>(matrices);
    lowering.append(std::move(count));

    Dispatch place = subgroup_dispatch(lowering, "row_linear/place");
    place.record = make_record(PlaceRecord{.choice = choice,
                                           .counts = counts,
                                           .row_of_slot = groups.row_of_slot,
                                           .slot_of_row = groups.slot_of_row,
                                           .matrix_of_tile = groups.matrix_of_tile,
                                           .first_slot = groups.first_slot,
                                           .rows = word(rows),
                                           .matrices = word(matrices),
                                           .tiles = word(groups.tiles),
                                           .height = word(groups.height)});
    place.groups = static_cast<uint64_t>(matrices);
    lowering.append(std::move(place));
    return groups;
}

// Returns rows of `width` in the order of the slots; empty slots are 0.
View in_slots(Lowering& lowering, const RowGroups& groups, const View& rows, int64_t width) {
    View sorted = lowering.allocate({groups.slots(), width}, Storage::f32, "rows by matrix");
    pick(lowering, lowering.contiguous(rows), groups.row_of_slot, sorted);
    return sorted;
}

// Appends p with one token a row, as one product per matrix.
void multiply_groups(Lowering& lowering, const RowProduct& p, graph::ValueId choice) {
    const RowGroups& groups = groups_of(lowering, choice, p.weights.shape[0]);
    const auto in_tiles = [&](View view, int64_t width) {
        view.shape = graph::Shape{groups.tiles, groups.height, width};
        view.strides = view.shape.strides();
        return view;
    };
    const View x = in_slots(lowering, groups, p.x, p.in());
    const View y = lowering.allocate({groups.slots(), p.out()}, Storage::f32, "row_linear by matrix");
    multiply_by_tiles(lowering, in_tiles(x, p.in()), groups.matrix_of_tile, p.weights, !p.input_first,
                      in_tiles(y, p.out()));
    pick(lowering, y, groups.slot_of_row, p.y);
}

Status lower_gradient(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    const View to = make_output(lowering, id, 0);
    if (to.elements() == 0) return {};
    const View &dy = lowering.view(node.inputs[0]), &x = lowering.view(node.inputs[1]);
    if (dy.elements() == 0) {
        lowering.fill_zero(to);
        return {};
    }
    const RowGroups& groups = groups_of(lowering, node.inputs[2], to.shape[0]);
    const View d = in_slots(lowering, groups, dy, dy.shape[1]), inputs = in_slots(lowering, groups, x, x.shape[1]);
    if (node.integer("input_first") != 0)
        multiply_ranges(lowering, inputs, d, groups.first_slot, to);
    else
        multiply_ranges(lowering, d, inputs, groups.first_slot, to);
    return {};
}

} // namespace

Status lower_row_linear(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    if (node.op == graph::Op::row_linear_gradient) return lower_gradient(lowering, id);
    RowProduct p;
    p.input_first = node.integer("input_first") != 0;
    p.y = make_output(lowering, id, 0);
    if (p.y.elements() == 0) return {};
    p.x = lowering.view(node.inputs[0]);
    if (p.x.elements() == 0) {
        lowering.fill_zero(p.y);
        return {};
    }
    // [rows, tokens, width]
    const auto by_token = [](View view, int64_t rows) {
        const int64_t width = view.shape[-1];
        view.shape = graph::Shape{rows, view.elements() / rows / width, width};
        view.strides = view.shape.strides();
        return view;
    };
    const int64_t rows = p.y.shape[0];
    if (p.x.shape.rank() != 3) p.x = by_token(lowering.contiguous(p.x), rows);
    p.y = by_token(p.y, rows);
    p.weights = lowering.contiguous(lowering.view(node.inputs[1]));
    p.choice = lowering.contiguous(lowering.view(node.inputs[2]));
    if (p.tokens() > kFewTokens)
        multiply(lowering, p.x, false, copied_matrices(lowering, p), !p.input_first, p.y, View{});
    else if (p.tokens() == 1 && p.rows() >= kManyRows * p.weights.shape[0])
        multiply_groups(lowering, p, node.inputs[2]);
    else
        multiply_few(lowering, p);
    return {};
}

} // namespace hekla::program
