// Batches whose rows hold several examples each, made of those of an objective that has a row for each example.
#pragma once

#include "base/status.hpp"
#include "plugin/host/joint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::plugin {

// Fields of such a batch, int32 [rows, length]: the number of each token's example in its row, from 1, and 0 for
// padding; and the token's position in its example.
inline constexpr const char* kSegmentIds = "segment_ids";
inline constexpr const char* kPositionIds = "position_ids";
// The field of an objective that tells which tokens of a row belong to its example; kSegmentIds replaces it.
inline constexpr const char* kAttentionMask = "attention_mask";

// Returns the most examples that a row of this length holds.
int64_t most_segments(int64_t length);

// Returns the fields of a batch whose rows hold several examples. fields: those that the objective has for this many
// rows of this length. Fields [n batch, length] stay, n being that of kAttentionMask, which is replaced; fields
// [n batch], of which each example has one number, become [n batch, most_segments()]. what: "objective 'chat'". Errors:
// other fields.
Result<std::vector<BatchField>> packed_fields(const std::vector<BatchField>& fields, int64_t batch, int64_t length,
                                              const std::string& what);

} // namespace hekla::plugin
