// The safetensors format: 8 bytes of header length, a JSON header, one buffer that the tensors fill without gaps.
// Format: github.com/huggingface/safetensors. The header is at most 100 MB, as in the reference.
#pragma once

#include "base/file.hpp"
#include "model/hashed_file.hpp"
#include "model/tensor.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace hekla::model {

inline constexpr uint64_t kHeaderSizeLimit = 100'000'000;
inline constexpr std::size_t kRankLimit = 64;
inline constexpr std::size_t kTensorNameLimit = 4096; // bytes

using Metadata = std::map<std::string, std::string>;

struct ParsedSafetensors {
    std::vector<TensorView> tensors; // in the buffer's order
    Metadata metadata;               // empty if the file has none
};

// Checks and describes a whole file's bytes; the views point into them. `where` begins every message (the path). Treats
// the file as hostile: no number in it determines an allocation, only existing text does. Refuses: a header longer than
// the file or the limit, not a JSON object, with unknown or repeated keys; names repeated, empty or too long; other
// types than the ten; negative, fractional or overflowing shapes; offsets outside the buffer, backwards, not matching
// shape and type, overlapping, leaving gaps; bytes after the last tensor; metadata that is not text. Errors: corrupt,
// with file, tensor, the value found and the one expected; unsupported for a known type that is not supported.
Result<ParsedSafetensors> parse_safetensors(std::span<const std::byte> bytes, const std::string& where);

// A file mapped read-only; views are valid as long as it exists, also after a move. The file must not shrink meanwhile;
// Hekla replaces files only by rename. Thread: any, once opened.
class SafetensorsFile {
public:
    static Result<SafetensorsFile> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const std::vector<TensorView>& tensors() const { return parsed_.tensors; } // in the file's order
    const Metadata& metadata() const { return parsed_.metadata; }
    const TensorView* find(std::string_view name) const;        // null if there is none
    Result<const TensorView*> get(std::string_view name) const; // not_found suggests the nearest

private:
    std::filesystem::path path_;
    MappedFile map_;
    ParsedSafetensors parsed_;
    std::unordered_map<std::string_view, std::size_t> by_name_; // into parsed_.tensors' names
};

// The order of tensors in the buffer: that of Hugging Face's writer (larger types first, names ascending), or as given.
enum class TensorOrder { huggingface, given };

// Writes to `sink`. With `huggingface`, the same tensors and metadata give the same bytes in any order, which are those
// of the reference's writer. Errors: invalid_argument (a name that is empty, repeated or "__metadata__"; a shape that
// overflows; a source whose number of bytes does not match its shape), and errors of sources and sink.
Status write_safetensors(const Sink& sink, std::span<const TensorSource> tensors, const Metadata& metadata = {},
                         TensorOrder order = TensorOrder::huggingface);

// Writes the same to a file, atomically and synced.
Result<FileRecord> write_safetensors_file(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                                          const Metadata& metadata = {{"format", "pt"}},
                                          TensorOrder order = TensorOrder::huggingface);

} // namespace hekla::model
