// The container of `hekla export`: a model's tensors under their names, and other content under names that begin with
// "hekla/", in one file of the safetensors layout.
//
//     tensors            as stored in the model's folder
//     hekla/manifest     JSON: the contents (exported_model.cpp), with the hash of every tensor and content
//     hekla/...          graphs, kernels, tokenizer files
//     hekla/hash         of the file's header and of the manifest; comes last
#pragma once

#include "base/file.hpp"
#include "model/safetensors.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::infer {

// A file mapped read-only; its views are valid as long as it exists. Thread: any.
class ExportedFile {
public:
    // Checks everything but the tensors' bytes. Errors contain the file: not_found; corrupt for a damaged file or
    // another kind of file; unsupported for one from a newer version.
    static Result<std::shared_ptr<const ExportedFile>> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    const nlohmann::json& manifest() const { return manifest_; }               // an object
    const std::vector<model::TensorView>& tensors() const { return tensors_; } // in the file's order
    Status check(const model::TensorView& tensor) const;                       // checks that its bytes are unchanged
    Result<std::string_view> content(std::string_view name) const;             // without "hekla/"

private:
    Status read();
    Status damaged(const std::string& what) const;
    std::filesystem::path path_;
    MappedFile map_;
    nlohmann::json manifest_;
    std::vector<model::TensorView> tensors_;
    std::map<std::string, std::string_view, std::less<>> contents_;
};

// Calls read(manifest). A JSON exception is an error: corrupt. Since the manifest's hash was right, someone else made
// it.
template<class F>
auto read_manifest(const ExportedFile& file, F&& read) -> decltype(read(file.manifest())) {
    try {
        return read(file.manifest());
    } catch (const nlohmann::json::exception& e) {
        return corrupt(fmt::format("{}: its manifest: {}", file.path().string(), e.what()));
    }
}

struct ExportedContents {
    nlohmann::json manifest = nlohmann::json::object(); // hashes are added
    std::vector<model::TensorView> tensors;             // their bytes must stay valid until the file is written
    std::map<std::string, std::string> contents;        // by name, without "hekla/"
};

// Writes a file atomically, synced, and removes leftovers of killed exports to `path`. Error: invalid_argument, if a
// tensor's name begins with "hekla/".
Status write_exported_file(const std::filesystem::path& path, ExportedContents contents);

} // namespace hekla::infer
