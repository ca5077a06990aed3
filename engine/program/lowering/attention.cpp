// attention and attention_gradient: maps the node's options to the kernels of shaders/attention.
#include "program/lowering/attention.hpp"

#include "program/lowering/concat.hpp"
#include "program/lowering/half.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

namespace hekla::program {

using graph::Op;

// Returns the view if the rows of [B, H, T, D] are dense, otherwise a copy; other dimensions can have any stride.
View dense_rows(Lowering& lowering, const View& view) {
    bool fits = view.shape[3] == 1 || view.strides[3] == 1;
    for (std::size_t d = 0; d < 3; ++d)
        if (view.shape[static_cast<int>(d)] > 1 && view.strides[d] < 0) fits = false;
    return fits ? view : lowering.contiguous(view);
}

namespace {

// A variant for heads up to a width: the number of rows of the other side that a lane processes together.
struct AttentionVariant {
    int64_t width = 0;
    uint32_t block = 1;
};
constexpr AttentionVariant kVariants[] = {{64, 4}, {128, 2}, {256, 1}};

} // namespace

Result<AttentionSizes> attention_sizes(const graph::Node& node, const View& q, const View& k, const View& v) {
    AttentionSizes sizes;
    sizes.batch = q.shape[0];
    sizes.heads = q.shape[1];
    sizes.queries = q.shape[2];
    sizes.width = q.shape[3];
    sizes.key_heads = k.shape[1];
    sizes.keys = k.shape[2];
    sizes.value_width = v.shape[3];
    const auto* const variant = std::ranges::find_if(
        kVariants, [&](int64_t width) { return std::max(sizes.width, sizes.value_width) <= width; },
        &AttentionVariant::width);
    if (variant == std::end(kVariants))
        return unsupported(fmt::format("attention heads of size {} and {}; the kernels support up to {}", sizes.width,
                                       sizes.value_width, std::end(kVariants)[-1].width));
    sizes.block = variant->block;
    const double scale = node.real("scale");
    sizes.scale = static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(sizes.width)));
    return sizes;
}

View int_table(Lowering& lowering, const std::vector<int64_t>& entries) {
    std::vector<int32_t> words;
    std::string name = "distance table";
    for (const int64_t entry : entries) {
        words.push_back(static_cast<int32_t>(entry));
        name += fmt::format(" {}", entry);
    }
    std::vector<std::byte> content(words.size() * 4);
    std::memcpy(content.data(), words.data(), content.size());
    return lowering.constant(name, {static_cast<int64_t>(words.size())}, Storage::i32, std::move(content));
}

View heads_inside(Lowering& lowering, int64_t b, int64_t h, int64_t t, int64_t d, Storage storage, const char* name) {
    View view = lowering.allocate({b, t, h, d}, storage, name);
    std::swap(view.shape[1], view.shape[2]);
    std::swap(view.strides[1], view.strides[2]);
    return view;
}

namespace {

using namespace kernels::attention; // the options

// Inputs of attention and attention_gradient after q, k and v.
enum Input : std::size_t {
    in_bias = kTensorInputs,
    in_distance_bias,
    in_query_distance,
    in_key_distance,
    in_query_class,
    in_q_class,
    in_k_class,
    in_key_padding,
    in_query_padding,
    in_mask,
    in_q_group,
    in_k_group,
    in_q_position,
    in_k_position,
    in_prefix,
    in_sinks,
    kInputs
};

// Outputs of attention_gradient; bit o of `wanted` requests output o.
enum Output : std::size_t {
    out_q,
    out_k,
    out_v,
    out_bias,
    out_distance_bias,
    out_query_distance,
    out_key_distance,
    out_query_class,
    out_sinks
};

struct Attention : AttentionSizes {
    std::array<View, kInputs> in;
    View table, key_table, runtime;
    int64_t buckets = 0, key_buckets = 0;
    int64_t bias_b = 0, bias_h = 0, mask_b = 0, mask_h = 0;
    int64_t first = 0, key_first = 0;
    int64_t table_length = 1, key_table_length = 1;
    int32_t window = 0, window_after = 0;
    float softcap = 0;
    uint32_t stream = 0, threshold = 0;
    float factor = 1;
    uint32_t options = 0;

    bool has(std::size_t input) const { return in[input].resource != 0; }
};

// Strides of a [b | 1, h | 1, Tq, Tk] tensor; a dimension of 1 repeats.
void matrix_strides(const View& view, int64_t& b, int64_t& h) {
    b = view.shape[0] == 1 ? 0 : view.strides[0];
    h = view.shape[1] == 1 ? 0 : view.strides[1];
}

// Returns a mask [b | 1, h | 1, Tq, Tk] as bits, [b | 1, h | 1, Tq, words]. All attentions with this mask share them.
View packed_mask(Lowering& lowering, graph::ValueId value) {
    View& packed = lowering.packed_masks[value];
    if (packed.resource != 0) return packed;
    const View mask = lowering.contiguous(lowering.view(value));
    graph::Shape shape = mask.shape;
    shape[-1] = divide_up(shape[-1], 32);
    packed = lowering.allocate(shape, Storage::i32, "a mask as bits");
    if (packed.elements() == 0) return packed;
    Dispatch dispatch;
    dispatch.shader = "attention/pack_mask";
    dispatch.record = make_record(kernels::attention::MaskRecord{.mask = mask,
                                                                 .bits = packed,
                                                                 .rows = word(packed.elements() / shape[-1]),
                                                                 .keys = word(mask.shape[-1]),
                                                                 .words = word(shape[-1])});
    dispatch.groups = static_cast<uint64_t>(divide_up(packed.elements(), 64));
    dispatch.bytes = static_cast<double>(mask.bytes() + packed.bytes());
    lowering.append(std::move(dispatch));
    return packed;
}

// Sets the bias by distances, which views of [.., P] share through one table.
void read_table(Lowering& lowering, const graph::Node& node, Attention& a) {
    a.first = node.integer("distance_first");
    a.table = int_table(lowering, node.ints("distance_table"));
    a.table_length = a.table.elements();
}

Result<Attention> read(Lowering& lowering, const graph::Node& node, std::size_t first) {
    Attention a;
    for (std::size_t i = 0; i < kInputs; ++i) {
        if (first + i >= node.inputs.size() || node.inputs[first + i] == graph::kNone) continue;
        const graph::ValueId value = node.inputs[first + i];
        a.in[i] = i <= in_v      ? dense_rows(lowering, lowering.view(value))
                  : i == in_mask ? packed_mask(lowering, value)
                                 : lowering.contiguous(lowering.view(value));
    }
    HK_ASSIGN(static_cast<AttentionSizes&>(a), attention_sizes(node, a.in[in_q], a.in[in_k], a.in[in_v]));
    a.window = static_cast<int32_t>(node.integer("window"));
    a.window_after = static_cast<int32_t>(node.integer("window_after"));
    a.softcap = static_cast<float>(node.real("softcap"));
    a.key_first = node.integer("key_distance_first");
    const auto option = [&](bool on, uint32_t bit) { a.options |= on ? bit : 0u; };
    option(node.integer("causal") != 0, kCausal);
    option(a.window > 0, kWindow);
    option(a.window_after > 0 && (node.integer("causal") == 0 || a.has(in_prefix)), kWindowAfter);
    option(a.softcap > 0, kSoftcap);
    option(a.has(in_sinks), kSinks | kZeroEmpty);
    option(node.integer("empty_row") != 0, kZeroEmpty);
    option(a.has(in_key_padding), kKeyPadding);
    option(a.has(in_query_padding), kQueryPadding);
    option(a.has(in_mask), kMask);
    option(a.has(in_bias), kBias);
    option(a.has(in_distance_bias), kDistanceBias);
    option(a.has(in_query_distance), kQueryDistance);
    option(a.has(in_key_distance), kKeyDistance);
    option(a.has(in_query_class), kQueryClass);
    option(a.has(in_q_group), kGroups);
    option(a.has(in_prefix), kPrefix);
    option(a.has(in_q_position) || a.has(in_k_position), kPositions);
    if (a.has(in_bias)) matrix_strides(a.in[in_bias], a.bias_b, a.bias_h);
    if (a.has(in_mask)) matrix_strides(a.in[in_mask], a.mask_b, a.mask_h);
    if (a.has(in_distance_bias)) a.buckets = a.in[in_distance_bias].shape[-1];
    if (a.has(in_query_distance)) {
        const int64_t p = a.in[in_query_distance].shape[-1];
        if (a.has(in_distance_bias) && p != a.buckets)
            return invalid_argument(fmt::format("distance_bias has {} columns and query_distance {}; both are read "
                                                "through one table and must agree",
                                                a.buckets, p));
        a.buckets = p;
    }
    if (a.has(in_key_distance)) a.key_buckets = a.in[in_key_distance].shape[-1];
    if (a.has(in_distance_bias) || a.has(in_query_distance)) read_table(lowering, node, a);
    if (a.has(in_key_distance)) {
        a.key_table = int_table(lowering, node.ints("key_distance_table"));
        a.key_table_length = a.key_table.elements();
    }
    if (const double p = node.real("dropout"); p > 0) {
        option(true, kDropout);
        a.runtime = lowering.runtime();
        a.stream = static_cast<uint32_t>(node.integer("stream"));
        a.threshold = static_cast<uint32_t>(std::min(std::ceil(p * 4294967296.0), 4294967295.0));
        a.factor = p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0f;
    }
    return a;
}

struct TensorViews {
    View y, lse;
    View dy, delta, dq, dk, dv;
    View bias_gradient, query_distance_gradient, key_distance_gradient, query_class_gradient;
    View part_sums, part_numbers; // of a forward pass that is split over keys
};

// All [B, H, T, D] tensors, in the order of the constant TYPES; those that a kernel does not use have no resource.
std::array<const View*, 8> row_views(const Attention& a, const TensorViews& p) {
    return {&a.in[in_q], &a.in[in_k], &a.in[in_v], &p.y, &p.dy, &p.dq, &p.dk, &p.dv};
}

AttentionProblem problem_of(const Attention& a, const TensorViews& p, AttentionPass pass, uint32_t options) {
    return {.sizes = a, .pass = pass, .options = options, .rows = row_views(a, p)};
}

KernelTrial trial_of(Attention a, AttentionPass pass, const std::array<Storage, 8>& stored, double most_flops,
                     int64_t most_elements);

// Returns the number of scores that are computed.
double pairs(const Attention& a) {
    const double all = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries * a.keys);
    return (a.options & kCausal) != 0 ? all / 2 : all;
}

// Returns floating-point operations of a pass per score.
double flops_per_pair(const AttentionSizes& s, AttentionPass pass, uint32_t outputs) {
    const int64_t products = pass == AttentionPass::forward          ? s.width + s.value_width
                             : pass == AttentionPass::gradient_query ? 2 * s.width + s.value_width
                             : outputs == kDk                        ? 2 * s.width + s.value_width
                             : outputs == kDv                        ? s.width + s.value_width
                                                                     : 2 * s.width + 2 * s.value_width;
    return 2.0 * static_cast<double>(products);
}

KernelChoice choose(Lowering& lowering, const Attention& a, const AttentionProblem& problem) {
    constexpr const char* kPasses[] = {"forward", "dq", "dk dv"}; // by AttentionPass
    std::vector<KernelOption> options = attention_options(lowering.limits, problem);
    if (options.size() == 1 && options[0].lanes.empty()) return {options[0].kernel};
    std::string types;
    for (const View* view : problem.rows)
        if (view->resource != 0) types += fmt::format("{}{}", types.empty() ? "" : " ", storage_name(view->storage));
    const char* pass = kPasses[static_cast<std::size_t>(problem.pass)];
    const auto up = [](int64_t size) { return std::bit_ceil(static_cast<uint64_t>(size)); };
    KernelProblem alone;
    alone.key = fmt::format("attention {} {} [{}x {} {}, {} {}, {} {}] options {:x} {}", pass, types, a.batch, a.heads,
                            a.key_heads, a.queries, a.keys, a.width, a.value_width, problem.options,
                            options[0].kernel); // which depends on alignment
    alone.bucket = fmt::format("attention {} {} [{}x {} {}, {} {}, {} {}]{}{}", pass, types, up(a.batch), a.heads,
                               a.key_heads, up(a.queries), up(a.keys), a.width, a.value_width,
                               (problem.options & kCausal) != 0 ? " causal" : "",
                               (problem.options & kDropout) != 0 ? " dropout" : "");
    alone.forms = attention_forms(lowering.limits, problem);
    alone.plainest = options.back().kernel;
    alone.kernels = std::move(options);
    alone.units = lowering.limits.matrix_unit(problem.rows[0]->storage) ? problem.rows[0]->storage : Storage::f32;
    alone.flops = pairs(a) * flops_per_pair(a, problem.pass, problem.outputs);
    std::array<Storage, 8> stored{};
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = problem.rows[i]->storage;
    alone.trial = [a, pass = problem.pass, stored](double most_flops, int64_t most_elements) {
        return trial_of(a, pass, stored, most_flops, most_elements);
    };
    return lowering.choose(std::move(alone));
}

// Returns the record of a pass. Views that its kernel does not access are left out of `p`.
kernels::attention::Record record_of(const Attention& a, const TensorViews& p, AttentionPass pass,
                                     const AttentionKernel& kernel) {
    const bool forward = pass == AttentionPass::forward, of_keys = pass == AttentionPass::gradient_key;
    return {.q = a.in[in_q],
            .k = a.in[in_k],
            .v = a.in[in_v],
            .y = forward ? writes(p.y) : reads(p.y),
            .lse = forward ? writes(p.lse) : reads(p.lse),
            .dy = p.dy,
            .delta = of_keys ? reads(p.delta) : writes(p.delta),
            .dq = p.dq,
            .dk = p.dk,
            .dv = p.dv,
            .bias = a.in[in_bias],
            .distance_bias = a.in[in_distance_bias],
            .query_distance = a.in[in_query_distance],
            .key_distance = a.in[in_key_distance],
            .query_class = a.in[in_query_class],
            .bias_gradient = p.bias_gradient,
            .query_distance_gradient = p.query_distance_gradient,
            .key_distance_gradient = p.key_distance_gradient,
            .query_class_gradient = p.query_class_gradient,
            .table = a.table,
            .key_table = a.key_table,
            .q_class = a.in[in_q_class],
            .k_class = a.in[in_k_class],
            .key_padding = a.in[in_key_padding],
            .query_padding = a.in[in_query_padding],
            .mask = a.in[in_mask],
            .q_group = a.in[in_q_group],
            .k_group = a.in[in_k_group],
            .q_position = a.in[in_q_position],
            .k_position = a.in[in_k_position],
            .prefix = a.in[in_prefix],
            .sinks = forward ? a.in[in_sinks] : View{},
            .runtime = a.runtime,
            .part_sums = writes(p.part_sums),
            .part_numbers = writes(p.part_numbers),
            .parts = word(kernel.parts),
            .part_keys = word(kernel.part_keys),
            .rows = word(a.batch * a.heads * a.queries),
            .heads = word(a.heads),
            .key_heads = word(a.key_heads),
            .queries = word(a.queries),
            .keys = word(a.keys),
            .blocks = word(divide_up(of_keys ? a.keys : a.queries, kernel.rows)),
            .q_b = stride_of(a.in[in_q], 0),
            .q_h = stride_of(a.in[in_q], 1),
            .q_t = stride_of(a.in[in_q], 2),
            .k_b = stride_of(a.in[in_k], 0),
            .k_h = stride_of(a.in[in_k], 1),
            .k_t = stride_of(a.in[in_k], 2),
            .v_b = stride_of(a.in[in_v], 0),
            .v_h = stride_of(a.in[in_v], 1),
            .v_t = stride_of(a.in[in_v], 2),
            .y_b = stride_of(p.y, 0),
            .y_h = stride_of(p.y, 1),
            .y_t = stride_of(p.y, 2),
            .dy_b = stride_of(p.dy, 0),
            .dy_h = stride_of(p.dy, 1),
            .dy_t = stride_of(p.dy, 2),
            .dq_b = stride_of(p.dq, 0),
            .dq_h = stride_of(p.dq, 1),
            .dq_t = stride_of(p.dq, 2),
            .dk_b = stride_of(p.dk, 0),
            .dk_h = stride_of(p.dk, 1),
            .dk_t = stride_of(p.dk, 2),
            .dv_b = stride_of(p.dv, 0),
            .dv_h = stride_of(p.dv, 1),
            .dv_t = stride_of(p.dv, 2),
            .bias_b = word(a.bias_b),
            .bias_h = word(a.bias_h),
            .mask_b = word(a.mask_b),
            .mask_h = word(a.mask_h),
            .buckets = word(a.buckets),
            .key_buckets = word(a.key_buckets),
            .distance_first = static_cast<int32_t>(a.first),
            .key_distance_first = static_cast<int32_t>(a.key_first),
            .table_length = word(a.table_length),
            .key_table_length = word(a.key_table_length),
            .scale = a.scale,
            .softcap = a.softcap,
            .window = a.window,
            .window_after = a.window_after,
            .stream = a.stream,
            .threshold = a.threshold,
            .dropout_factor = a.factor};
}

Dispatch make_dispatch(const Attention& a, const TensorViews& p, AttentionPass pass, const AttentionKernel& kernel) {
    const kernels::attention::Record record = record_of(a, p, pass, kernel);
    Dispatch dispatch;
    dispatch.shader = kernel.shader;
    dispatch.constants = kernel.constants;
    dispatch.subgroup_size = kernel.subgroup_size;
    dispatch.record = make_record(record);
    const int64_t heads = pass == AttentionPass::gradient_key ? a.key_heads : a.heads;
    dispatch.groups = static_cast<uint64_t>(a.batch * heads * record.blocks * kernel.parts);
    return dispatch;
}

// Combines the parts of a forward pass with this kernel.
Dispatch sum_of_parts(const Attention& a, const TensorViews& p, const AttentionKernel& kernel) {
    Dispatch dispatch;
    const bool has_16_bit = std::ranges::any_of(
        row_views(a, p), [](const View* view) { return view->resource != 0 && view->storage != Storage::f32; });
    dispatch.shader = has_16_bit ? "attention/forward_sum.16" : "attention/forward_sum";
    dispatch.constants = kernel.constants;
    Attention values = a; // with the inputs that are read
    values.in = {};
    values.in[in_v] = a.in[in_v];
    values.in[in_sinks] = a.in[in_sinks];
    values.table = values.key_table = values.runtime = {};
    kernels::attention::Record record = record_of(values, p, AttentionPass::forward, kernel);
    record.part_sums = reads(p.part_sums);
    record.part_numbers = reads(p.part_numbers);
    dispatch.record = make_record(record);
    dispatch.groups = static_cast<uint64_t>(divide_up(p.y.elements(), 64));
    dispatch.bytes = static_cast<double>(p.part_sums.bytes() + p.y.bytes());
    return dispatch;
}

Status append_forward(Lowering& lowering, const Attention& a, TensorViews p) {
    if (p.y.elements() == 0) return {};
    if (a.keys == 0) return invalid_argument("attention over no keys");
    const AttentionProblem problem = problem_of(a, p, AttentionPass::forward, a.options);
    const AttentionKernel kernel = attention_kernel(lowering.limits, problem, choose(lowering, a, problem));
    const bool split = kernel.parts > 1;
    if (split) {
        p.part_sums = lowering.allocate({a.batch, a.heads, kernel.parts, a.queries, a.value_width}, Storage::f32,
                                        "sums of an attention's parts");
        p.part_numbers = lowering.allocate({a.batch, a.heads, kernel.parts, a.queries, 2}, Storage::f32,
                                           "numbers of an attention's parts");
    }
    TensorViews own = p;
    Attention of_part = a;
    if (split) own.y = own.lse = of_part.in[in_sinks] = {};
    Dispatch dispatch = make_dispatch(of_part, own, problem.pass, kernel);
    dispatch.flops = pairs(a) * flops_per_pair(a, problem.pass, 0);
    dispatch.bytes = static_cast<double>(a.in[in_q].bytes() + a.in[in_k].bytes() + a.in[in_v].bytes() +
                                         (split ? p.part_sums : p.y).bytes());
    lowering.append(std::move(dispatch));
    if (split) lowering.append(sum_of_parts(a, p, kernel));
    return {};
}

Status forward(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    HK_ASSIGN(const Attention a, read(lowering, node, 0));
    TensorViews p;
    p.y = heads_inside(lowering, a.batch, a.heads, a.queries, a.value_width, lowering.storage_of(node.outputs[0]),
                       "attention");
    lowering.views[node.outputs[0]] = p.y;
    p.lse = make_output(lowering, id, 1);
    return append_forward(lowering, a, p);
}

// Computes dq and delta.
void append_query_gradient(Lowering& lowering, const Attention& a, const TensorViews& p, uint32_t options) {
    const AttentionProblem problem = problem_of(a, p, AttentionPass::gradient_query, options);
    TensorViews own = p;
    own.dk = own.dv = own.key_distance_gradient = {};
    Dispatch dq =
        make_dispatch(a, own, problem.pass, attention_kernel(lowering.limits, problem, choose(lowering, a, problem)));
    dq.flops = pairs(a) * flops_per_pair(a, problem.pass, 0);
    dq.bytes = 2.0 * static_cast<double>(a.in[in_q].bytes() + a.in[in_k].bytes() + a.in[in_v].bytes());
    lowering.append(std::move(dq));
}

// Computes dk and dv, by one dispatch or two.
void append_key_gradient(Lowering& lowering, const Attention& a, const TensorViews& p, uint32_t options) {
    AttentionProblem problem = problem_of(a, p, AttentionPass::gradient_key, options);
    const KernelChoice choice = choose(lowering, a, problem);
    const bool together = attention_kernel(lowering.limits, problem, choice).together;
    for (const uint32_t outputs : together ? std::vector<uint32_t>{kDk | kDv} : std::vector<uint32_t>{kDk, kDv}) {
        problem.outputs = outputs;
        TensorViews own = p;
        own.y = own.dq = own.bias_gradient = own.query_distance_gradient = own.query_class_gradient = {};
        if ((outputs & kDk) == 0) own.dk = own.key_distance_gradient = {};
        if ((outputs & kDv) == 0) own.dv = {};
        Dispatch dkv = make_dispatch(a, own, problem.pass, attention_kernel(lowering.limits, problem, choice));
        dkv.flops = pairs(a) * flops_per_pair(a, problem.pass, outputs);
        dkv.bytes = 2.0 * static_cast<double>(a.in[in_q].bytes() + a.in[in_k].bytes() + a.in[in_v].bytes());
        lowering.append(std::move(dkv));
    }
}

// Returns a pass alone, with the options that matter most to its speed. `stored` is in the order of row_views().
KernelTrial trial_of(Attention a, AttentionPass pass, const std::array<Storage, 8>& stored, double most_flops,
                     int64_t most_elements) {
    const auto flops = [&] { return pairs(a) * flops_per_pair(a, pass, kDk | kDv); };
    const auto elements = [&] {
        return a.batch * (a.width + a.value_width) * (2 * a.heads * a.queries + 2 * a.key_heads * a.keys);
    };
    const auto large = [&] { return flops() > most_flops || elements() > most_elements; };
    while (large() && a.batch > 1) a.batch = divide_up(a.batch, 2);
    while (large() && a.key_heads > 1 && a.key_heads % 2 == 0) a.heads /= 2, a.key_heads /= 2;
    for (int64_t* size : {&a.queries, &a.keys})
        while (large() && *size > 512) *size = divide_up(*size, 2);
    a.in = {};
    a.table = a.key_table = a.runtime = {};
    a.options &= kCausal | kWindow | kWindowAfter | kSoftcap | kDropout;
    const bool gradient = pass != AttentionPass::forward, of_keys = pass == AttentionPass::gradient_key;
    const int64_t rows_q = a.batch * a.heads * a.queries, rows_k = a.batch * a.key_heads * a.keys;
    KernelTrial trial;
    trial.flops = flops();
    trial.inputs = {{"q", rows_q * a.width, stored[0]},
                    {"k", rows_k * a.width, stored[1]},
                    {"v", rows_k * a.value_width, stored[2]}};
    const TrialTensor y{"y", rows_q * a.value_width, stored[3]}, dy{"dy", y.elements, stored[4]};
    const TrialTensor lse{"lse", 2 * rows_q, Storage::f32}, delta{"delta", rows_q, Storage::f32};
    if (gradient) trial.inputs.insert(trial.inputs.end(), {y, dy, lse});
    if (of_keys) {
        trial.inputs.push_back(delta);
        trial.outputs = {{"dk", rows_k * a.width, stored[6]}, {"dv", rows_k * a.value_width, stored[7]}};
    } else if (gradient) {
        trial.outputs = {{"dq", rows_q * a.width, stored[5]}, delta};
    } else {
        trial.outputs = {y};
    }
    // With matrix units, probabilities are rounded too.
    trial.tolerance = stored[0] == Storage::f32 ? 1e-5 : stored[0] == Storage::f16 ? 0x1p-8 : 0x1p-5;
    trial.lower = [a, pass, stored](Lowering& lowering) {
        Attention alone = a;
        const auto rows = [&](const char* name, int64_t heads, int64_t count, int64_t width, Storage storage) {
            View view = lowering.named(ResourceKind::state, name, {a.batch, count, heads, width}, storage);
            std::swap(view.shape[1], view.shape[2]);
            std::swap(view.strides[1], view.strides[2]);
            return view;
        };
        alone.in[in_q] = rows("q", a.heads, a.queries, a.width, stored[0]);
        alone.in[in_k] = rows("k", a.key_heads, a.keys, a.width, stored[1]);
        alone.in[in_v] = rows("v", a.key_heads, a.keys, a.value_width, stored[2]);
        if ((a.options & kDropout) != 0) alone.runtime = lowering.runtime();
        TensorViews p;
        p.y = rows("y", a.heads, a.queries, a.value_width, stored[3]);
        p.lse = lowering.named(ResourceKind::state, "lse", {a.batch, a.heads, a.queries, 2}, Storage::f32);
        if (pass != AttentionPass::forward) {
            p.dy = rows("dy", a.heads, a.queries, a.value_width, stored[4]);
            p.delta = lowering.named(ResourceKind::state, "delta", {a.batch, a.heads, a.queries}, Storage::f32);
            p.dq = rows("dq", a.heads, a.queries, a.width, stored[5]);
            p.dk = rows("dk", a.key_heads, a.keys, a.width, stored[6]);
            p.dv = rows("dv", a.key_heads, a.keys, a.value_width, stored[7]);
        }
        switch (pass) {
        case AttentionPass::forward: static_cast<void>(append_forward(lowering, alone, p)); break;
        case AttentionPass::gradient_query: append_query_gradient(lowering, alone, p, alone.options); break;
        case AttentionPass::gradient_key: append_key_gradient(lowering, alone, p, alone.options); break;
        }
    };
    return trial;
}

// Sums `from` over the dimensions that are 1 in `to`.
void sum_over(Lowering& lowering, const View& from, const View& to) {
    std::vector<bool> reduced;
    for (int d = 0; d < from.shape.rank(); ++d) reduced.push_back(from.shape[d] != to.shape[d]);
    reduce_sum(lowering, from, reduced, to);
}

// Sums the gradients of rows' sinks into `output` [H].
void append_sinks_gradient(Lowering& lowering, const Attention& a, const TensorViews& p, const View& output) {
    const View rows = lowering.allocate({a.batch, a.heads, a.queries}, Storage::f32, "gradient of sinks");
    Dispatch dispatch;
    dispatch.shader = "attention/sinks_gradient";
    dispatch.record = make_record(kernels::attention::SinksRecord{.sinks = a.in[in_sinks],
                                                                  .lse = p.lse,
                                                                  .delta = p.delta,
                                                                  .gradient = rows,
                                                                  .rows = word(rows.elements()),
                                                                  .heads = word(a.heads),
                                                                  .queries = word(a.queries)});
    dispatch.groups = static_cast<uint64_t>(divide_up(rows.elements(), 64));
    dispatch.bytes = static_cast<double>(p.lse.bytes() + p.delta.bytes() + rows.bytes());
    lowering.append(std::move(dispatch));
    reduce_sum(lowering, rows, {true, false, true}, output);
}

Status gradient(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    HK_ASSIGN(const Attention a, read(lowering, node, 3));
    const int64_t wanted = node.integer("wanted");
    const auto wants = [&](std::size_t output) { return (wanted >> output & 1) != 0; };
    TensorViews p;
    p.dy = dense_rows(lowering, lowering.view(node.inputs[0]));
    p.y = dense_rows(lowering, lowering.view(node.inputs[1]));
    p.lse = lowering.contiguous(lowering.view(node.inputs[2]));
    p.delta = lowering.allocate({a.batch, a.heads, a.queries}, Storage::f32, "delta of attention");
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        if (!wants(o)) make_output(lowering, id, o); // empty
    }
    // A gradient that is part of a concat, as of a joint projection of q, k and v, is written there.
    const auto place = [&](std::size_t output, int64_t heads, int64_t rows, int64_t width, const char* name) {
        const graph::ValueId value = node.outputs[output];
        const Storage storage = wants(output) ? lowering.storage_of(value) : Storage::f32;
        std::optional<View> view;
        if (wants(output)) view = place_in_concat(lowering, value);
        if (!view || (view->shape[3] > 1 && view->strides[3] != 1))
            view = heads_inside(lowering, a.batch, heads, rows, width, storage, name);
        if (wants(output)) lowering.views[value] = *view;
        return *view;
    };
    p.dq = place(out_q, a.heads, a.queries, a.width, "dq");
    p.dk = place(out_k, a.key_heads, a.keys, a.width, "dk");
    p.dv = place(out_v, a.key_heads, a.keys, a.value_width, "dv");
    uint32_t query_options = a.options & ~kSinks; // which the sums of rows have
    uint32_t key_options = query_options;

    // Terms of the scores. Those that a lane cannot sum alone are stored completely and reduced afterwards, in order.
    const graph::Shape scores{a.batch, a.heads, a.queries, a.keys};
    if (wants(out_bias)) {
        query_options |= kBiasGradient;
        const View output = make_output(lowering, id, out_bias);
        p.bias_gradient =
            output.shape == scores ? output : lowering.allocate(scores, Storage::f32, "gradient of scores");
    }
    if (wants(out_distance_bias) || wants(out_query_distance)) {
        query_options |= kQueryDistanceGradient;
        p.query_distance_gradient =
            wants(out_query_distance)
                ? make_output(lowering, id, out_query_distance)
                : lowering.allocate({a.batch, a.heads, a.queries, a.buckets}, Storage::f32, "gradient of distances");
        lowering.fill_zero(p.query_distance_gradient);
    }
    if (wants(out_key_distance)) {
        key_options |= kKeyDistanceGradient;
        p.key_distance_gradient = make_output(lowering, id, out_key_distance);
        lowering.fill_zero(p.key_distance_gradient);
    }
    if (wants(out_query_class)) {
        query_options |= kQueryClassGradient;
        p.query_class_gradient = make_output(lowering, id, out_query_class);
    }
    if (a.queries == 0 || a.keys == 0 || a.batch == 0 || a.heads == 0)
        return unsupported("the gradient of an attention without queries or keys");

    append_query_gradient(lowering, a, p, query_options);
    append_key_gradient(lowering, a, p, key_options);

    if (wants(out_bias)) {
        const View output = lowering.view(node.outputs[out_bias]);
        if (output.resource != p.bias_gradient.resource) sum_over(lowering, p.bias_gradient, output);
    }
    if (wants(out_sinks)) append_sinks_gradient(lowering, a, p, make_output(lowering, id, out_sinks));
    if (wants(out_distance_bias)) {
        const View output = make_output(lowering, id, out_distance_bias); // [H, P]
        reduce_sum(lowering, p.query_distance_gradient, {true, false, true, false}, output);
    }
    return {};
}

} // namespace

Status attend_to_new_keys(Lowering& lowering, const graph::Node& node, const View& q, const View& k, const View& v,
                          const View& distance_bias, const View& sinks, const View& y) {
    Attention a;
    a.in[in_q] = q;
    a.in[in_k] = k;
    a.in[in_v] = v;
    HK_ASSIGN(static_cast<AttentionSizes&>(a), attention_sizes(node, q, k, v));
    a.window = static_cast<int32_t>(node.integer("window"));
    a.softcap = static_cast<float>(node.real("softcap"));
    a.options = kCausal | (a.window > 0 ? kWindow : 0u) | (a.softcap > 0 ? kSoftcap : 0u);
    if (sinks.resource != 0) {
        a.options |= kSinks | kZeroEmpty;
        a.in[in_sinks] = sinks;
    }
    if (distance_bias.resource != 0) {
        a.options |= kDistanceBias;
        a.in[in_distance_bias] = distance_bias;
        a.buckets = distance_bias.shape[-1];
        read_table(lowering, node, a);
    }
    TensorViews p;
    p.y = y;
    p.lse = lowering.allocate({a.batch, a.heads, a.queries, 2}, Storage::f32, "sums of attention");
    return append_forward(lowering, a, p);
}

Status lower_attention(Lowering& lowering, graph::NodeId id) {
    switch (lowering.graph->nodes[id].op) {
    case Op::attention: return forward(lowering, id);
    case Op::attention_gradient: return gradient(lowering, id);
    default: return lower_attention_cached(lowering, id);
    }
}

} // namespace hekla::program
