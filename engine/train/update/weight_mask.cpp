#include "train/update/weight_mask.hpp"

#include "base/nearest_name.hpp"
#include "model/safetensors.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {

int64_t WeightMask::Tensor::kept_count() const {
    return std::ranges::count_if(kept, [](uint8_t one) { return one != 0; });
}

Result<WeightMask> WeightMask::read(const std::filesystem::path& file) {
    HK_ASSIGN(const model::SafetensorsFile stored, model::SafetensorsFile::open(file));
    WeightMask mask;
    for (const model::TensorView& tensor : stored.tensors()) {
        if (tensor.dtype != model::DType::u8)
            return invalid_argument(fmt::format("{}: {} is {}; a mask has u8 tensors of 0 (pruned) and 1 (kept)",
                                                file.string(), model::in_quotes(tensor.name), model::describe(tensor)));
        Tensor& one = mask.tensors_[tensor.name];
        one.dims = tensor.dims;
        one.kept.reserve(tensor.bytes.size());
        for (const std::byte byte : tensor.bytes) {
            if (std::to_integer<uint8_t>(byte) > 1)
                return invalid_argument(fmt::format("{}: element {} of {} is {}; expected 0 (pruned) or 1 (kept)",
                                                    file.string(), one.kept.size(), model::in_quotes(tensor.name),
                                                    std::to_integer<int>(byte)));
            one.kept.push_back(std::to_integer<uint8_t>(byte));
        }
    }
    if (mask.weights() == 0)
        return invalid_argument(
            fmt::format("{}: has no masks; expected a u8 tensor of 0 (pruned) and 1 (kept) for each "
                        "pruned parameter",
                        file.string()));
    if (mask.kept() == 0)
        return invalid_argument(fmt::format("{}: all of its {} weights are pruned; expected one or more that are kept",
                                            file.string(), mask.weights()));
    return mask;
}

Status WeightMask::write(const std::filesystem::path& file) const {
    std::vector<model::TensorSource> sources;
    for (const auto& [name, tensor] : tensors_) {
        model::TensorView view;
        view.name = name;
        view.dtype = model::DType::u8;
        view.dims = tensor.dims;
        view.bytes = std::as_bytes(std::span(tensor.kept));
        sources.push_back(model::source_of(view));
    }
    return model::write_safetensors_file(file, sources).status();
}

void WeightMask::keep_all(std::string name, std::vector<int64_t> dims) {
    std::size_t elements = 1;
    for (const int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
    tensors_[std::move(name)] = {std::move(dims), std::vector<uint8_t>(elements, 1)};
}

const WeightMask::Tensor* WeightMask::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found != tensors_.end() ? &found->second : nullptr;
}

int64_t WeightMask::weights() const {
    int64_t count = 0;
    for (const auto& [name, tensor] : tensors_) count += std::ssize(tensor.kept);
    return count;
}

int64_t WeightMask::kept() const {
    int64_t count = 0;
    for (const auto& [name, tensor] : tensors_) count += tensor.kept_count();
    return count;
}

Hash128 WeightMask::hash() const {
    std::string all;
    for (const auto& [name, tensor] : tensors_)
        all += fmt::format("{} {} {}\n", name, model::format_dims(tensor.dims),
                           to_hex(hash128(std::as_bytes(std::span(tensor.kept)))));
    return hash128(all);
}

Status WeightMask::check(std::span<const program::ParameterEntry> table, const std::string& where) const {
    for (const auto& [name, tensor] : tensors_) {
        const auto entry = std::ranges::find(table, name, &program::ParameterEntry::name);
        if (entry == table.end()) {
            std::vector<std::string> names;
            for (const program::ParameterEntry& one : table) names.push_back(one.name);
            const std::string_view near = nearest_name(name, std::span<const std::string>(names));
            return invalid_argument(fmt::format("{}: tensor {} {} matches no parameter of the model{}", where,
                                                model::in_quotes(name), model::format_dims(tensor.dims),
                                                near.empty() ? "; `hekla inspect` lists their names"
                                                             : fmt::format("; the nearest is '{}'", near)));
        }
        if (entry->shape.vector() != tensor.dims)
            return invalid_argument(
                fmt::format("{}: the mask of '{}' is {}, and the parameter is {}: make the mask from a model of this "
                            "size",
                            where, name, model::format_dims(tensor.dims), entry->shape.text()));
        if (!entry->trained)
            return invalid_argument(fmt::format("{}: '{}' is frozen, and only trained parameters can be masked: remove "
                                                "it from the mask, or from train.freeze",
                                                where, name));
    }
    return {};
}

std::vector<std::span<const uint8_t>> WeightMask::by_entry(std::span<const program::ParameterEntry> table) const {
    std::vector<std::span<const uint8_t>> all;
    for (const program::ParameterEntry& entry : table) {
        const Tensor* tensor = find(entry.name);
        all.push_back(tensor != nullptr ? std::span<const uint8_t>(tensor->kept) : std::span<const uint8_t>());
    }
    return all;
}

Status WeightMask::apply(program::ParameterStore& store, program::StoreArena arena) const {
    for (const auto& [name, tensor] : tensors_) {
        HK_ASSIGN(const ResourceArray<float> values, store.download(name, arena));
        std::vector<float> masked(values.begin(), values.end());
        if (masked.size() != tensor.kept.size())
            return internal_error(fmt::format("the mask of '{}' has {} elements, and the parameter has {}", name,
                                              tensor.kept.size(), masked.size()));
        for (std::size_t i = 0; i < masked.size(); ++i)
            if (tensor.kept[i] == 0) masked[i] = 0.0f;
        HK_TRY(store.upload(name, masked, arena));
    }
    return {};
}

} // namespace hekla::train
