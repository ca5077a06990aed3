#include "train/run/state_tensor.hpp"

#include "model/finite.hpp"

#include <fmt/format.h>

namespace hekla::train {

namespace fs = std::filesystem;

Result<ResourceArray<float>> values_of(const model::TensorView& stored, const fs::path& folder,
                                       const program::ParameterEntry& entry) {
    if (stored.dims != entry.shape.vector())
        return failed_precondition(
            fmt::format("{}: {} is {}, this model has {}: that folder is of another architecture or size",
                        folder.string(), entry.name, model::format_dims(stored.dims), entry.shape.text()));
    if (const Status finite = model::check_finite(stored); !finite.ok())
        return corrupt(fmt::format("{}: {}; remove this folder to resume from an older checkpoint", folder.string(),
                                   finite.message()));
    ResourceArray<float> values(static_cast<std::size_t>(entry.shape.elements()));
    HK_TRY(model::load_float32(stored, {values.data(), values.size()}));
    return values;
}

StateTensor float_state(const std::string& prefix, const program::ParameterEntry& entry,
                        std::function<Result<ResourceArray<float>>()> read,
                        std::function<Status(std::span<const float>)> write) {
    StateTensor state;
    state.source.name = prefix + entry.name;
    state.source.dtype = model::DType::f32;
    state.source.dims = entry.shape.vector();
    state.source.stream = [read = std::move(read)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceArray<float> values, read());
        return sink(std::as_bytes(std::span(values)));
    };
    state.source = model::finite_source(std::move(state.source));
    state.load = [write = std::move(write), &entry](const model::TensorView& stored, const fs::path& folder) -> Status {
        HK_ASSIGN(const ResourceArray<float> values, values_of(stored, folder, entry));
        return write(values);
    };
    return state;
}

StateTensor bytes_state(std::string name, std::size_t bytes, std::function<Result<std::vector<std::byte>>()> read,
                        std::function<Status(std::span<const std::byte>)> write) {
    StateTensor state;
    state.source.name = std::move(name);
    state.source.dtype = model::DType::u8;
    state.source.dims = {static_cast<int64_t>(bytes)};
    state.source.stream = [read = std::move(read)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const std::vector<std::byte> content, read());
        return sink(content);
    };
    state.load = [write = std::move(write), bytes](const model::TensorView& stored, const fs::path& folder) -> Status {
        if (stored.bytes.size() != bytes)
            return corrupt(fmt::format("{}: '{}' has {} bytes, and {} are expected", folder.string(), stored.name,
                                       stored.bytes.size(), bytes));
        return write(stored.bytes);
    };
    return state;
}

Status write_state(model::CheckpointWriter& writer, const StateFile& file) {
    if (file.tensors.empty()) return {};
    std::vector<model::TensorSource> sources;
    for (const StateTensor& tensor : file.tensors) sources.push_back(tensor.source);
    return writer.add_sharded(file.name, sources);
}

Status load_state(const fs::path& folder, const StateFile& file) {
    if (file.tensors.empty()) return {};
    const Result<model::Weights> stored = model::Weights::open(folder, file.name);
    if (stored.code() == Code::not_found && file.begin_without) return file.begin_without();
    if (!stored.ok()) return stored.status();
    for (const StateTensor& tensor : file.tensors) {
        const std::string& name = tensor.source.name;
        const bool is_there = stored->find(name) != nullptr;
        if (!is_there && tensor.optional) continue;
        if (!is_there && !tensor.missing.empty())
            return failed_precondition(fmt::format("{}: {}", folder.string(), tensor.missing));
        HK_ASSIGN(const model::TensorView* found, stored->get(name));
        HK_TRY(tensor.load(*found, folder));
    }
    return {};
}

} // namespace hekla::train
