// Writer of the GGUF format, version 3: 24 bytes of counts, keys with typed values, descriptions of tensors, then the
// tensors themselves, each at a multiple of 32 bytes. Format: github.com/ggml-org/ggml, docs/gguf.md.
#pragma once

#include "model/hashed_file.hpp"
#include "model/tensor.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hekla::model {

inline constexpr uint64_t kGgufAlignment = 32;

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<int32_t>, std::vector<std::string>,
                               std::vector<float>, std::vector<uint32_t>, std::vector<bool>>;
using GgufKeys = std::vector<std::pair<std::string, GgufValue>>;

// Writes a file atomically, synced, with tensors in their order. Types: f32, f16, bf16, and integers of 8 to 64 bits.
// Errors: invalid_argument (another type, more than 4 dimensions, a source whose number of bytes does not match its
// shape), and those of the sources.
Result<FileRecord> write_gguf_file(const std::filesystem::path& path, const GgufKeys& keys,
                                   std::span<const TensorSource> tensors);

} // namespace hekla::model
