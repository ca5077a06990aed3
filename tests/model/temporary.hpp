// Helpers for the tests of this room: small tensors, hand-made safetensors bytes.
#pragma once

#include "base/file.hpp"
#include "model/safetensors.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hekla::test {

using namespace model;

namespace fs = std::filesystem;

inline void put(const fs::path& path, std::string_view content) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline std::string get(const fs::path& path) {
    auto content = read_file(path);
    return content.ok() ? content.take() : "(" + content.message() + ")";
}

// Returns the names in a folder, sorted, joined by spaces.
inline std::string names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
}

// Returns a source that owns its floats and returns them in pieces, as when reading back from a device.
inline TensorSource floats(const std::string& name, std::vector<int64_t> dims, std::vector<float> values) {
    TensorSource source;
    source.name = name;
    source.dtype = DType::f32;
    source.dims = std::move(dims);
    source.stream = [values = std::move(values)](const Sink& sink) -> Status {
        const auto bytes = std::as_bytes(std::span<const float>(values));
        const std::size_t half = bytes.size() / 2;
        HK_TRY(sink(bytes.first(half)));
        return sink(bytes.subspan(half));
    };
    return source;
}

// Returns eight bytes of length, a header, and a buffer of `bytes` bytes.
inline std::string file_of(const std::string& header, std::size_t buffer) {
    const uint64_t size = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    bytes += header;
    for (std::size_t i = 0; i < buffer; ++i) bytes += static_cast<char>(i * 7 + 1);
    return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Optional folders next to the checkout; tests that need them pass without.
inline fs::path shared() { return fs::path(HEKLA_SOURCE_DIR) / ".." / "shared"; }

} // namespace hekla::test
