// row_linear: a product with a matrix of its own for every row of the batch.
#include "program/lowering/common.hpp"

namespace hekla::program {

namespace {

// Up to this many tokens a row, each token reads the matrix where it is; for more, rows get copies of their matrices,
// and the product is one of batches. Measured in shaders/TRIED.md.
constexpr int64_t kFewTokens = 4;

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
    Dispatch dispatch;
    dispatch.shader = "row_linear/few";
    dispatch.constants = {lanes(lowering), width, layout};
    set_variant(dispatch, width, false);
    dispatch.subgroup_size = lanes(lowering);
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
    dispatch.reads(x.view);
    dispatch.reads(p.weights);
    dispatch.reads(p.choice);
    dispatch.writes(p.y);
    const auto products = static_cast<double>(p.rows() * p.tokens() * p.in()) * static_cast<double>(p.out());
    dispatch.flops = 2.0 * products;
    dispatch.bytes = 4.0 * products + static_cast<double>(x.view.bytes() + p.y.bytes());
    lowering.append(std::move(dispatch));
}

// Returns the matrix of every row: [rows, out, in] or [rows, in, out].
View pick(Lowering& lowering, const RowProduct& p) {
    graph::Shape shape = p.weights.shape;
    shape[0] = p.rows();
    const View picked = lowering.allocate(shape, Storage::f32, "matrices of rows");
    const int64_t size = p.in() * p.out();
    const Rows from{p.weights, 0, size, size};
    const uint32_t width = load_width(lowering, size, {&from}, {&picked});
    const int64_t block = int64_t{lanes(lowering)} * width * 16;
    const int64_t blocks = divide_up(size, block);
    Dispatch dispatch;
    dispatch.shader = "row_linear/pick";
    dispatch.constants = {lanes(lowering), width};
    set_variant(dispatch, width, false);
    dispatch.subgroup_size = lanes(lowering);
    dispatch.record = make_record(kernels::row_linear::PickRecord{.weights = p.weights,
                                                                  .choice = p.choice,
                                                                  .to = picked,
                                                                  .size = word(size),
                                                                  .matrices = word(p.weights.shape[0]),
                                                                  .blocks = word(blocks),
                                                                  .block = word(block)});
    dispatch.groups = static_cast<uint64_t>(p.rows() * blocks);
    dispatch.reads(p.weights);
    dispatch.reads(p.choice);
    dispatch.writes(picked);
    dispatch.bytes = 2.0 * static_cast<double>(picked.bytes());
    lowering.append(std::move(dispatch));
    return picked;
}

} // namespace

Status lower_row_linear(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
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
    if (p.tokens() <= kFewTokens)
        multiply_few(lowering, p);
    else
        multiply(lowering, p.x, false, pick(lowering, p), !p.input_first, p.y, View{});
    return {};
}

} // namespace hekla::program
