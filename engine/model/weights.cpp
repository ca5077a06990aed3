#include "model/weights.hpp"

#include "model/sharded.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

// What to open in a folder.
Result<fs::path> choose(const fs::path& folder, const std::string& stem) {
    for (const char* ending : {".safetensors", ".safetensors.index.json"})
        if (fs::path candidate = folder / (stem + ending); is_there(candidate)) return candidate;
    for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth"})
        if (is_there(folder / pickle))
            return not_found(
                fmt::format("{}: has no {}.safetensors, only {}: that is a Python pickle, which runs code when "
                            "it is read and is not read here; save the model as safetensors first "
                            "(save_pretrained of transformers does)",
                            folder.string(), stem, pickle));
    return not_found(
        fmt::format("{}: has neither {}.safetensors nor {}.safetensors.index.json", folder.string(), stem, stem));
}

} // namespace

Result<Weights> Weights::open(const fs::path& path, const std::string& stem) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return not_found(fmt::format("{}: does not exist", path.string()));
    Weights weights;
    weights.path_ = path;
    if (fs::is_directory(status)) { HK_ASSIGN(weights.path_, choose(path, stem)); }
    if (weights.path_.extension() == ".json") {
        HK_ASSIGN(const ShardIndex index, read_shard_index(weights.path_));
        if (index.files.empty()) return corrupt(weights.path_.string() + ": its weight_map is empty");
        for (const std::string& name : index.files) {
            auto file = SafetensorsFile::open(weights.path_.parent_path() / name);
            if (!file.ok())
                return file.code() == Code::not_found ? file.status().with_context(weights.path_.string())
                                                      : file.status();
            weights.files_.push_back(file.take());
        }
        HK_TRY(check_shards(index, weights.files_, weights.path_.string()));
    } else {
        HK_ASSIGN(SafetensorsFile file, SafetensorsFile::open(weights.path_));
        weights.files_.push_back(std::move(file));
    }
    for (const SafetensorsFile& file : weights.files_)
        weights.tensors_.insert(weights.tensors_.end(), file.tensors().begin(), file.tensors().end());
    std::sort(weights.tensors_.begin(), weights.tensors_.end(),
              [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
    return weights;
}

const TensorView* Weights::find(std::string_view name) const {
    const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                        [](const TensorView& a, std::string_view b) { return a.name < b; });
    return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

Result<const TensorView*> Weights::get(std::string_view name) const {
    if (const TensorView* view = find(name)) return view;
    return missing_tensor(path_.string(), name, tensors_);
}

uint64_t Weights::byte_count() const {
    uint64_t total = 0;
    for (const TensorView& tensor : tensors_) total += tensor.bytes.size();
    return total;
}

Result<Resolution> Weights::resolve(std::span<const ParameterSpec> parameters, const NameRules& rules) const {
    return resolve_names(parameters, tensors_, rules, path_.string());
}

Status load_float32(const TensorView& tensor, std::span<float> out) {
    return to_float32(tensor.dtype, tensor.bytes, out).with_context("tensor " + in_quotes(tensor.name));
}
Status load_float64(const TensorView& tensor, std::span<double> out) {
    return to_float64(tensor.dtype, tensor.bytes, out).with_context("tensor " + in_quotes(tensor.name));
}
Status load_int32(const TensorView& tensor, std::span<int32_t> out) {
    return to_int32(tensor.dtype, tensor.bytes, out).with_context("tensor " + in_quotes(tensor.name));
}

} // namespace hekla::model
