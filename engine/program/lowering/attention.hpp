// What the files of the attention family share.
#pragma once

#include "program/lowering/common.hpp"

namespace hekla::program {

// A [B, H, T, D] view whose rows are dense: the view itself or a copy.
View dense_rows(Lowering& lowering, const View& view);

// [B, H, T, D] whose memory is [B, T, H, D]: what follows (joining the heads) is then a view.
View heads_inside(Lowering& lowering, int64_t b, int64_t h, int64_t t, int64_t d, const char* name);

// A table of distances as an int32 constant, shared by all nodes that have the same.
View int_table(Lowering& lowering, const std::vector<int64_t>& entries);

Status lower_attention_cached(Lowering& lowering, graph::NodeId id);

} // namespace hekla::program
