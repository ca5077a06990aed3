// Shared by the files of the attention family.
#pragma once

#include "program/lowering/attention_kernels.hpp"
#include "program/lowering/common.hpp"

#include <cstddef>
#include <vector>

namespace hekla::program {

// The first inputs of all attention operations (in attention_gradient after three of its own).
enum AttentionInput : std::size_t { in_q, in_k, in_v, kTensorInputs };

// unsupported if heads are larger than the kernels'.
Result<AttentionSizes> attention_sizes(const graph::Node& node, const View& q, const View& k, const View& v);

// Returns the stride of a [B, H, T, D] view for the records.
inline uint32_t stride_of(const View& view, int dimension) { return word(view.strides[dimension]); }

// Returns a [B, H, T, D] view whose rows are dense: the view itself or a copy.
View dense_rows(Lowering& lowering, const View& view);

// Allocates a [B, H, T, D] tensor whose memory is [B, T, H, D], so that joining the heads afterwards is a view.
View heads_inside(Lowering& lowering, int64_t b, int64_t h, int64_t t, int64_t d, Storage storage, const char* name);

// Returns a table of distances as an int32 constant, shared by all nodes with the same table.
View int_table(Lowering& lowering, const std::vector<int64_t>& entries);

// Appends causal attention of queries to keys of the same positions, all [B, H, T, D], into y; the options are those of
// a node attention_cached. distance_bias, sinks: without a resource if there are none.
Status attend_to_new_keys(Lowering& lowering, const graph::Node& node, const View& q, const View& k, const View& v,
                          const View& distance_bias, const View& sinks, const View& y);

Status lower_attention_cached(Lowering& lowering, graph::NodeId id);

} // namespace hekla::program
