#include "model/weights.hpp"

#include "base/path_text.hpp"
#include "model/sharded.hpp"
#include "model/stacked_tensors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

// Chooses the file to open in a folder.
Result<fs::path> choose(const fs::path& folder, const std::string& stem) {
    std::vector<std::string> names{stem + ".safetensors", stem + ".safetensors.index.json"};
    if (stem == "model") names.insert(names.end(), {"pytorch_model.bin", "pytorch_model.bin.index.json"});
    for (const std::string& name : names)
        if (fs::path candidate = folder / name; is_there(candidate)) return candidate;
    return not_found(fmt::format("{}: has no weights: none of {} exists", folder.string(), fmt::join(names, ", ")));
}

bool is_pytorch(const fs::path& path) {
    return path.extension() == ".bin" || path.extension() == ".pt" || path.extension() == ".pth";
}

} // namespace

bool names_weights(const fs::path& path) {
    return path.extension() == ".safetensors" || is_pytorch(path) || path.string().ends_with(".index.json");
}

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
        std::vector<OpenedShard> opened;
        for (const std::string& name : index.files) {
            const Status status = weights.open_file(weights.path_.parent_path() / name);
            if (!status.ok())
                return status.code() == Code::not_found ? status.with_context(weights.path_.string()) : status;
            opened.push_back({name, is_pytorch(name) ? std::span(weights.pytorch_files_.back().tensors())
                                                     : std::span(weights.files_.back().tensors())});
        }
        HK_TRY(check_shards(index, opened, weights.path_.string()));
    } else {
        HK_TRY(weights.open_file(weights.path_));
    }
    std::sort(weights.tensors_.begin(), weights.tensors_.end(),
              [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
    return weights;
}

Status Weights::open_file(const fs::path& path) {
    if (is_pytorch(path)) {
        HK_ASSIGN(PytorchFile file, PytorchFile::open(path));
        tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
        pytorch_files_.push_back(std::move(file));
        return {};
    }
    HK_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
    if (files_.empty()) metadata_ = file.metadata();
    tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
    files_.push_back(std::move(file));
    return {};
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
    for (const TensorView& tensor : tensors_) total += tensor.byte_size();
    return total;
}

Status Weights::stack(std::span<const std::string> patterns) {
    HK_ASSIGN(tensors_, with_stacks(tensors_, patterns, path_text(path_)));
    std::ranges::sort(tensors_, {}, &TensorView::name);
    return {};
}

Result<Resolution> Weights::resolve(std::span<const ParameterSpec> parameters, const NameRules& rules) const {
    return resolve_names(parameters, tensors_, rules, path_.string());
}

namespace {

// Converts each piece of a tensor into its part of `out`.
template<class T>
Status load(const TensorView& tensor, std::span<T> out,
            Status (*convert)(DType, std::span<const std::byte>, std::span<T>)) {
    std::size_t done = 0;
    for (const std::span<const std::byte> piece : tensor.pieces()) {
        const std::size_t count = tensor.parts.empty() ? out.size() : piece.size() / size_of(tensor.dtype);
        if (count > out.size() - done)
            return invalid_argument(
                fmt::format("tensor {}: has more than {} elements", in_quotes(tensor.name), out.size()));
        HK_TRY(convert(tensor.dtype, piece, out.subspan(done, count)).with_context("tensor " + in_quotes(tensor.name)));
        done += count;
    }
    if (done == out.size()) return {};
    return invalid_argument(
        fmt::format("tensor {}: has {} elements, {} were expected", in_quotes(tensor.name), done, out.size()));
}

} // namespace

Status load_float32(const TensorView& tensor, std::span<float> out) { return load(tensor, out, to_float32); }
Status load_float64(const TensorView& tensor, std::span<double> out) { return load(tensor, out, to_float64); }
Status load_int32(const TensorView& tensor, std::span<int32_t> out) { return load(tensor, out, to_int32); }

} // namespace hekla::model
