// Pooling: one vector per row from the hidden states of its tokens, for heads on whole texts.
#pragma once

#include "block.hpp"

namespace hekla::plugin {

enum class PoolingKind { first, last, mean, pooler };

inline PoolingKind pooling_kind(const Config& c) {
    const std::string name = c.string("pooling", "first");
    if (name == "first") return PoolingKind::first;
    if (name == "last") return PoolingKind::last;
    if (name == "mean") return PoolingKind::mean;
    if (name == "pooler") return PoolingKind::pooler;
    throw invalid("the pooling '" + name + "' is not first, last, mean or pooler");
}

// Returns attention_mask [B, T], or ones if the batch has none. Choices [B, C, T] become rows.
inline Value token_mask(Graph& g, Value hidden, Location at = Location::here()) {
    const Caller caller(g, at);
    const Dims dims{hidden.dim(0), hidden.dim(1)};
    if (!g.has_field("attention_mask")) return g.fill(dims, 1.0, HK_KIND_INT32);
    const Value mask = g.input("attention_mask");
    return mask.rank() == 3 ? reshape(mask, dims) : mask;
}

// Pools hidden [B, T, D] -> [B, D] without padding. pooler: a linear layer and tanh of the first token, NAME.dense.
inline Value pool_tokens(Graph& g, Value hidden, PoolingKind kind, const std::string& name, Location at = Location::here()) {
    const Caller caller(g, at);
    if (hidden.rank() != 3) return g.fail("a head that pools over tokens needs states [rows, tokens, width]");
    switch (kind) {
    case PoolingKind::first:
    case PoolingKind::pooler: {
        // With padding on the left, the first token is the first that is not padding.
        const Value mask = token_mask(g, hidden);
        const Value before = equal(cumsum(mask, 1), 0.0);
        const Value first = gather(hidden, sum(before, {1}), {.batch_dimensions = 1});
        return kind == PoolingKind::first ? first : tanh(linear_layer(g, first, name + ".dense", hidden.dim(2)));
    }
    case PoolingKind::last: {
        const Value last = max(token_mask(g, hidden) * g.iota(hidden.dim(1)), {1});
        return gather(hidden, last, {.batch_dimensions = 1});
    }
    case PoolingKind::mean: {
        const Value mask = to_float(token_mask(g, hidden));
        const Value total = sum(hidden * reshape(mask, {hidden.dim(0), hidden.dim(1), 1}), {1});
        return total / reshape(sum(mask, {1}), {hidden.dim(0), 1});
    }
    }
    return {};
}

} // namespace hekla::plugin
