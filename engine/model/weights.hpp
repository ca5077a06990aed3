// A model's weights by name, from one safetensors or PyTorch file or from shards with an index.
#pragma once

#include "model/parameter_names.hpp"
#include "model/pytorch_file.hpp"
#include "model/safetensors.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hekla::model {

// Returns whether a file's name is that of weights: .safetensors, PyTorch's .bin, .pt or .pth, or .index.json.
bool names_weights(const std::filesystem::path& path);

// A model's weights by name. Safetensors files are mapped, never copied; PyTorch's archives are read into memory.
// Tensors' bytes are valid as long as this object, also after a move.
class Weights {
public:
    // Opens a .safetensors file, a PyTorch file (.bin, .pt, .pth), an .index.json of either, or a folder, which is
    // searched for `stem`.safetensors and its index, then, if the stem is "model", for pytorch_model.bin and its index.
    // Errors: not_found; corrupt; unsupported (pytorch_file.hpp).
    static Result<Weights> open(const std::filesystem::path& path, const std::string& stem = "model");

    const std::filesystem::path& path() const { return path_; }         // the file or the index
    const std::vector<TensorView>& tensors() const { return tensors_; } // by name
    const TensorView* find(std::string_view name) const;                // null if there is none
    Result<const TensorView*> get(std::string_view name) const;         // not_found suggests the nearest
    const Metadata& metadata() const { return metadata_; }              // of the first file; a PyTorch file has none
    uint64_t byte_count() const;                                        // of all tensors

    // Replaces tensors by the stacks that they are parts of (stacked_tensors.hpp). Errors: as stack_tensors().
    Status stack(std::span<const std::string> patterns);

    // Returns the tensor of each parameter, see parameter_names.hpp. Pointers are into this object.
    Result<Resolution> resolve(std::span<const ParameterSpec> parameters, const NameRules& rules = {}) const;

private:
    std::filesystem::path path_;
    Status open_file(const std::filesystem::path& path);
    std::vector<SafetensorsFile> files_;
    std::vector<PytorchFile> pytorch_files_;
    Metadata metadata_;
    std::vector<TensorView> tensors_;
};

// Convert a tensor's values (dtype.hpp); errors contain the tensor's name.
Status load_float32(const TensorView& tensor, std::span<float> out);
Status load_float64(const TensorView& tensor, std::span<double> out);
Status load_int32(const TensorView& tensor, std::span<int32_t> out);

} // namespace hekla::model
