// A model's weights by name, from one safetensors file or from shards with an index.
#pragma once

#include "model/names.hpp"
#include "model/safetensors.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hekla::model {

// Files are mapped, never copied: tensors' bytes stay valid while this lives (moving it keeps them).
class Weights {
public:
    // `path` is a .safetensors file, an .index.json, or a folder, in which `stem`.safetensors is looked for first and
    // then `stem`.safetensors.index.json. Errors: not_found, saying what else is there that cannot be read (a pickle);
    // corrupt.
    static Result<Weights> open(const std::filesystem::path& path, const std::string& stem = "model");

    const std::filesystem::path& path() const { return path_; }            // of the file or the index
    const std::vector<TensorView>& tensors() const { return tensors_; }    // by name
    const TensorView* find(std::string_view name) const;                   // null where there is none
    Result<const TensorView*> get(std::string_view name) const;            // not_found names the nearest
    const Metadata& metadata() const { return files_.front().metadata(); } // of the first file
    uint64_t byte_count() const;                                           // of all tensors

    // The tensor of each parameter, see names.hpp. Pointers are into this.
    Result<Resolution> resolve(std::span<const ParameterSpec> parameters, const NameRules& rules = {}) const;

private:
    std::filesystem::path path_;
    std::vector<SafetensorsFile> files_;
    std::vector<TensorView> tensors_;
};

// A tensor's values converted (dtype.hpp); errors name it.
Status load_float32(const TensorView& tensor, std::span<float> out);
Status load_float64(const TensorView& tensor, std::span<double> out);
Status load_int32(const TensorView& tensor, std::span<int32_t> out);

} // namespace hekla::model
