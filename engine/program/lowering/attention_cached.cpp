// attention in decode mode: writes new keys and values to the cache (states "NAME.k" and "NAME.v" of the parameter
// store), and queries attend to the whole cache.
#include "program/lowering/attention.hpp"

#include <array>

namespace hekla::program {

namespace {

using Views = std::initializer_list<const View*>;

// After q, k and v.
enum Input : std::size_t { in_start = kTensorInputs, in_count, in_cache_row, in_distance_bias, kInputs };

} // namespace

Status lower_attention_cached(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    std::array<View, kInputs> in;
    for (std::size_t i = 0; i < kInputs && i < node.inputs.size(); ++i) {
        if (node.inputs[i] == graph::kNone) continue;
        const View view = lowering.view(node.inputs[i]);
        in[i] = i <= in_v ? dense_rows(lowering, view) : lowering.contiguous(view);
    }
    HK_ASSIGN(const AttentionSizes sizes, attention_sizes(node, in[in_q], in[in_k], in[in_v]));
    const int64_t batch = sizes.batch, heads = sizes.heads, key_heads = sizes.key_heads, chunk = sizes.queries;
    const int64_t width = sizes.width, value_width = sizes.value_width;
    const int64_t capacity = node.integer("capacity");
    const std::string& name = node.text("cache");
    const View keys =
        lowering.named(ResourceKind::state, name + ".k", {batch, key_heads, capacity, width}, Storage::f32);
    const View values =
        lowering.named(ResourceKind::state, name + ".v", {batch, key_heads, capacity, value_width}, Storage::f32);
    const View y = heads_inside(lowering, batch, heads, chunk, value_width, Storage::f32, "attention over a cache");
    lowering.views[node.outputs[0]] = y;
    if (batch == 0 || chunk == 0) return {};
    const bool has_distance = in[in_distance_bias].resource != 0;
    const View table = has_distance ? int_table(lowering, node.ints("distance_table")) : View{};
    const uint32_t w = attention_load_width(sizes, {&in[in_q], &in[in_k], &in[in_v]});
    Dispatch dispatch;
    dispatch.shader = "attention/cached";
    dispatch.constants = {
        lanes(lowering),       word(width), word(value_width), w, node.integer("causal") != 0 ? 1u : 0u,
        has_distance ? 1u : 0u};
    dispatch.subgroup_size = lanes(lowering);
    dispatch.record = make_record(
        kernels::attention::CachedRecord{.q = in[in_q],
                                         .k = in[in_k],
                                         .v = in[in_v],
                                         .y = y,
                                         .key_cache = keys,
                                         .value_cache = values,
                                         .start = in[in_start],
                                         .count = in[in_count],
                                         .cache_row = in[in_cache_row],
                                         .distance_bias = in[in_distance_bias],
                                         .table = table,
                                         .heads = word(heads),
                                         .key_heads = word(key_heads),
                                         .chunk = word(chunk),
                                         .capacity = word(capacity),
                                         .cache_rows = word(batch),
                                         .q_b = stride_of(in[in_q], 0),
                                         .q_h = stride_of(in[in_q], 1),
                                         .q_t = stride_of(in[in_q], 2),
                                         .k_b = stride_of(in[in_k], 0),
                                         .k_h = stride_of(in[in_k], 1),
                                         .k_t = stride_of(in[in_k], 2),
                                         .v_b = stride_of(in[in_v], 0),
                                         .v_h = stride_of(in[in_v], 1),
                                         .v_t = stride_of(in[in_v], 2),
                                         .y_b = stride_of(y, 0),
                                         .y_h = stride_of(y, 1),
                                         .y_t = stride_of(y, 2),
                                         .buckets = has_distance ? word(in[in_distance_bias].shape[-1]) : 0,
                                         .table_length = has_distance ? word(table.elements()) : 1,
                                         .distance_first = static_cast<int32_t>(node.integer("distance_first")),
                                         .window = static_cast<int32_t>(node.integer("window")),
                                         .scale = sizes.scale});
    dispatch.groups = static_cast<uint64_t>(batch * heads * chunk);
    for (const View* view : Views{&in[in_q], &in[in_k], &in[in_v], &keys, &values, &in[in_start], &in[in_count],
                                  &in[in_cache_row], &in[in_distance_bias], &table})
        dispatch.reads(*view);
    dispatch.writes(keys);
    dispatch.writes(values);
    dispatch.writes(y);
    dispatch.flops =
        2.0 * static_cast<double>(batch * heads * chunk) * static_cast<double>(capacity * (width + value_width)) / 2;
    dispatch.bytes = static_cast<double>(keys.bytes() + values.bytes()) / 2;
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace hekla::program
