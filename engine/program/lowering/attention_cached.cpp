// attention in decode mode: writes new keys and values to the cache (states "NAME.k" and "NAME.v" of the parameter
// store), and queries attend to the whole cache.
#include "program/lowering/attention.hpp"

#include "program/lowering/loop.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace hekla::program {

namespace {

using kernels::attention::CachedRecord;
using kernels::attention::kKeysPerPart;

// After q, k and v.
enum Input : std::size_t { in_start = kTensorInputs, in_count, in_cache_row, in_distance_bias, in_sinks, kInputs };

// How the kernel for GPUs divides its work; see cached_part.comp.
struct Parts {
    uint32_t invocations = 0;
    uint32_t lanes = 0; // that take a key together
    uint32_t heads = 0; // queries of a workgroup
    int64_t count = 0;  // of the capacity
};

class CachedAttention {
public:
    explicit CachedAttention(Lowering& lowering, const graph::Node& node) : lowering_(lowering), node_(node) {}

    Status lower() {
        HK_TRY(read());
        if (s_.batch == 0 || s_.queries == 0) return {};
        // Rows that begin attend to their new keys only, which need not come from the cache.
        if (node_.integer("first") != 0 && node_.integer("causal") != 0) {
            append_store();
            return attend_to_new_keys(lowering_, node_, in_[in_q], in_[in_k], in_[in_v], in_[in_distance_bias],
                                      in_[in_sinks], y_);
        }
        if (const Parts parts = divide(); parts.count > 0)
            append_parts(parts);
        else
            append_whole();
        return {};
    }

private:
    Status read() {
        for (std::size_t i = 0; i < kInputs && i < node_.inputs.size(); ++i) {
            if (node_.inputs[i] == graph::kNone) continue;
            const View view = lowering_.view(node_.inputs[i]);
            in_[i] = i <= in_v ? dense_rows(lowering_, view) : lowering_.contiguous(view);
        }
        HK_ASSIGN(s_, attention_sizes(node_, in_[in_q], in_[in_k], in_[in_v]));
        capacity_ = node_.integer("capacity");
        const std::string& name = node_.text("cache");
        const std::map<std::string, StoredAs>& parameters = lowering_.options.parameters;
        const auto in_16_bits = std::ranges::find_if(
            parameters, [](const auto& parameter) { return bytes_of(parameter.second.storage) == 2; });
        const Storage storage = lowering_.options.cache.value_or(
            in_16_bits == parameters.end() ? Storage::f32 : in_16_bits->second.storage);
        keys_ =
            lowering_.named(ResourceKind::state, name + ".k", {s_.batch, s_.key_heads, capacity_, s_.width}, storage);
        values_ = lowering_.named(ResourceKind::state, name + ".v", {s_.batch, s_.key_heads, capacity_, s_.value_width},
                                  storage);
        y_ = heads_inside(lowering_, s_.batch, s_.heads, s_.queries, s_.value_width, Storage::f32,
                          "attention over a cache");
        lowering_.views[node_.outputs[0]] = y_;
        if (has_distance()) table_ = int_table(lowering_, node_.ints("distance_table"));
        return {};
    }

    bool has_distance() const { return in_[in_distance_bias].resource != 0; }
    bool has_sinks() const { return in_[in_sinks].resource != 0; }
    double softcap() const { return node_.real("softcap"); }
    uint32_t type() const { return static_cast<uint32_t>(keys_.storage); }
    uint32_t load_width() const { return attention_load_width(s_, {&in_[in_q], &in_[in_k], &in_[in_v]}); }

    // Returns no parts where the other kernel is needed: on CPUs, for several tokens per row, or for rows that are not
    // of whole quads.
    Parts divide() const {
        const Limits& limits = lowering_.limits;
        const int64_t width = std::max(s_.width, s_.value_width);
        Parts parts;
        if (limits.cpu || s_.queries != 1 || !attention_rows_of_fours(s_, {&in_[in_q], &in_[in_k], &in_[in_v]}))
            return parts;
        const auto quads = static_cast<uint32_t>(width / 4);
        parts.invocations = std::min(128u, 4 * limits.subgroup_size);
        parts.lanes = std::min(limits.subgroup_size, std::bit_floor(quads));
        const uint32_t of_lane = (quads + parts.lanes - 1) / parts.lanes;
        // As many queries as a lane has registers for.
        const int64_t most = std::max<int64_t>(1, (limits.many_registers ? 8 : 4) / of_lane);
        const int64_t sharing = s_.heads / s_.key_heads;
        for (int64_t heads = 1; heads <= std::min(most, sharing); ++heads)
            if (sharing % heads == 0) parts.heads = static_cast<uint32_t>(heads);
        parts.count = divide_up(capacity_, kKeysPerPart);
        return parts;
    }

    Dispatch dispatch(const char* shader) const {
        Dispatch dispatch;
        dispatch.shader = shader;
        if (type() != 0 && dispatch.shader != "attention/cached_sum") dispatch.shader += ".16";
        dispatch.subgroup_size = lanes(lowering_);
        return dispatch;
    }

    // Returns the record with the addresses that all kernels read.
    CachedRecord record() const {
        return {.start = in_[in_start],
                .count = in_[in_count],
                .heads = word(s_.heads),
                .key_heads = word(s_.key_heads),
                .chunk = word(s_.queries),
                .rows = word(s_.batch * s_.key_heads * s_.queries),
                .capacity = word(capacity_),
                .cache_rows = word(s_.batch),
                .q_b = stride_of(in_[in_q], 0),
                .q_h = stride_of(in_[in_q], 1),
                .q_t = stride_of(in_[in_q], 2),
                .k_b = stride_of(in_[in_k], 0),
                .k_h = stride_of(in_[in_k], 1),
                .k_t = stride_of(in_[in_k], 2),
                .v_b = stride_of(in_[in_v], 0),
                .v_h = stride_of(in_[in_v], 1),
                .v_t = stride_of(in_[in_v], 2),
                .y_b = stride_of(y_, 0),
                .y_h = stride_of(y_, 1),
                .y_t = stride_of(y_, 2),
                .buckets = has_distance() ? word(in_[in_distance_bias].shape[-1]) : 0,
                .table_length = has_distance() ? word(table_.elements()) : 1,
                .distance_first = static_cast<int32_t>(node_.integer("distance_first")),
                .window = static_cast<int32_t>(node_.integer("window")),
                .scale = s_.scale,
                .softcap = static_cast<float>(softcap())};
    }

    // Returns the record of a kernel that stores.
    CachedRecord storing() const {
        CachedRecord r = record();
        r.k = in_[in_k];
        r.v = in_[in_v];
        r.key_cache = keys_;
        r.value_cache = values_;
        return r;
    }

    // Returns the record of a kernel that stores and attends, without its results.
    CachedRecord attending() const {
        CachedRecord r = storing();
        r.q = in_[in_q];
        r.cache_row = in_[in_cache_row];
        r.distance_bias = in_[in_distance_bias];
        r.table = table_;
        return r;
    }

    // Sets the cost of attending to the whole cache: half of the capacity on average.
    void set_cost(Dispatch& dispatch) const {
        dispatch.flops = static_cast<double>(s_.batch * s_.heads * s_.queries) *
                         static_cast<double>(capacity_ * (s_.width + s_.value_width));
        dispatch.bytes = static_cast<double>(keys_.bytes() + values_.bytes()) / 2;
    }

    void append_store() {
        Dispatch store = dispatch("attention/store");
        store.constants = {lanes(lowering_), word(s_.width), word(s_.value_width), load_width(), type()};
        store.record = make_record(storing());
        store.groups = row_groups(lowering_.limits, s_.batch * s_.key_heads * s_.queries);
        store.bytes = 2.0 * static_cast<double>(in_[in_k].bytes() + in_[in_v].bytes());
        lowering_.append(std::move(store));
    }

    void append_whole() {
        Dispatch whole = dispatch("attention/cached");
        whole.constants = {lanes(lowering_),
                           word(s_.width),
                           word(s_.value_width),
                           load_width(),
                           node_.integer("causal") != 0 ? 1u : 0u,
                           has_distance() ? 1u : 0u,
                           type(),
                           softcap() > 0 ? 1u : 0u,
                           has_sinks() ? 1u : 0u};
        CachedRecord arguments = attending();
        arguments.y = y_;
        arguments.sinks = in_[in_sinks];
        whole.record = make_record(arguments);
        whole.groups = static_cast<uint64_t>(s_.batch * s_.heads * s_.queries);
        set_cost(whole);
        lowering_.append(std::move(whole));
    }

    void append_parts(const Parts& parts) {
        CachedRecord arguments = attending();
        View sums, numbers;
        if (parts.count > 1) {
            sums = lowering_.allocate({s_.batch, s_.heads, parts.count, s_.value_width}, Storage::f32,
                                      "parts of attention");
            numbers =
                lowering_.allocate({s_.batch, s_.heads, parts.count, 2}, Storage::f32, "maxima and sums of parts");
        }
        if (parts.count == 1) {
            arguments.y = y_;
            arguments.sinks = in_[in_sinks];
        }
        arguments.sums = writes(sums);
        arguments.numbers = writes(numbers);
        arguments.parts = word(parts.count);
        Dispatch attend = dispatch("attention/cached_part");
        attend.constants = {
            lanes(lowering_), parts.invocations,        word(s_.width), word(s_.value_width),    parts.lanes,
            parts.heads,      has_distance() ? 1u : 0u, type(),         softcap() > 0 ? 1u : 0u, has_sinks() ? 1u : 0u};
        attend.record = make_record(arguments);
        attend.groups = static_cast<uint64_t>(s_.batch * s_.heads / parts.heads * parts.count);
        set_cost(attend);
        lowering_.append(std::move(attend));
        if (parts.count == 1) return;
        Dispatch sum = dispatch("attention/cached_sum");
        sum.constants = {lanes(lowering_), word(s_.value_width), has_sinks() ? 1u : 0u};
        arguments = record();
        arguments.sinks = in_[in_sinks];
        arguments.y = y_;
        arguments.sums = reads(sums);
        arguments.numbers = reads(numbers);
        arguments.parts = word(parts.count);
        sum.record = make_record(arguments);
        sum.groups = static_cast<uint64_t>(s_.batch * s_.heads);
        sum.bytes = static_cast<double>(sums.bytes()) / 2;
        lowering_.append(std::move(sum));
    }

    Lowering& lowering_;
    const graph::Node& node_;
    std::array<View, kInputs> in_;
    AttentionSizes s_;
    int64_t capacity_ = 0;
    View keys_, values_, y_, table_;
};

} // namespace

Status lower_attention_cached(Lowering& lowering, graph::NodeId id) {
    return CachedAttention(lowering, lowering.graph->nodes[id]).lower();
}

} // namespace hekla::program
