// Weights in several files with an index, in Hugging Face's layout: model-00001-of-00003.safetensors, ...,
// model.safetensors.index.json with "weight_map": tensor -> file.
#pragma once

#include "model/safetensors.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hekla::model {

inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;
inline constexpr uint64_t kIndexSizeLimit = 64'000'000;

struct ShardIndex {
    std::map<std::string, std::string> weight_map; // tensor -> file name within the index's folder
    std::vector<std::string> files;                // each once, sorted
};

// Reads an index. Errors: corrupt for a file that is not an index, and for a file name outside the folder or with
// another extension than that of the index (NAME.bin.index.json: .bin, otherwise .safetensors).
Result<ShardIndex> read_shard_index(const std::filesystem::path& path);

// One opened file of an index.
struct OpenedShard {
    std::string name;
    std::span<const TensorView> tensors;
};

// Checks the index's files, `opened`: each tensor must be in its file of the index, and in no other.
Status check_shards(const ShardIndex& index, std::span<const OpenedShard> opened, const std::string& where);

// Writes `stem`.safetensors into the folder if all tensors fit `max_shard_bytes`, otherwise shards in the given order
// and the index last. A tensor larger than the limit is a separate shard. Returns the files written.
Result<std::vector<FileRecord>> write_sharded(const std::filesystem::path& folder, const std::string& stem,
                                              std::span<const TensorSource> tensors,
                                              const Metadata& metadata = {{"format", "pt"}},
                                              uint64_t max_shard_bytes = kDefaultShardBytes);

} // namespace hekla::model
