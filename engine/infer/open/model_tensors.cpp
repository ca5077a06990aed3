#include "infer/open/model_tensors.hpp"

#include "plugin/composition/compose.hpp"
#include "plugin/composition/model_names.hpp"
#include "program/parameter_store.hpp"

namespace hekla::infer {
namespace {

template<class T>
Status upload_buffer(program::ParameterStore& store, const plugin::ModelTensor& tensor, std::span<const T> values) {
    const std::string state = program::buffer_state(tensor.name);
    HK_TRY(store.make_state(state, std::max<uint64_t>(values.size_bytes(), sizeof(T))));
    return store.upload_state(state, std::as_bytes(values));
}

std::size_t elements(const plugin::ModelTensor& tensor) { return static_cast<std::size_t>(tensor.shape.elements()); }

model::TensorSource source_of(program::ParameterStore& store, const plugin::ModelTensor& tensor) {
    model::TensorSource source;
    source.name = tensor.name;
    source.dtype = tensor.kind == graph::Kind::int32 ? model::DType::i32 : model::DType::f32;
    source.dims = tensor.shape.vector();
    source.stream = [&store, tensor](const model::Sink& sink) -> Status {
        if (!tensor.buffer) {
            HK_ASSIGN(const ResourceArray<float> values, store.download(tensor.name));
            return sink(std::as_bytes(std::span(values)));
        }
        HK_ASSIGN(const ResourceArray<std::byte> bytes, store.download_state(program::buffer_state(tensor.name)));
        return sink(std::span(bytes).first(elements(tensor) * 4));
    };
    return source;
}

} // namespace

Status upload(program::ParameterStore& store, const plugin::StoredTensor& found) {
    const plugin::ModelTensor& tensor = found.tensor;
    std::pmr::memory_resource* memory = store.host_memory();
    if (tensor.kind == graph::Kind::int32) {
        std::pmr::vector<int32_t> values(elements(tensor), memory);
        HK_TRY(model::load_int32(*found.stored, values));
        return upload_buffer<int32_t>(store, tensor, values);
    }
    std::pmr::vector<float> values(elements(tensor), memory);
    HK_TRY(model::load_float32(*found.stored, values));
    return tensor.buffer ? upload_buffer<float>(store, tensor, values) : store.upload(tensor.name, values);
}

Status upload_described_buffers(program::ParameterStore& store, const graph::Graph& graph) {
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(graph)) {
        if (!tensor.buffer) continue;
        const std::vector<double> values = plugin::described_values(graph, tensor);
        if (tensor.kind == graph::Kind::int32)
            HK_TRY(upload_buffer<int32_t>(store, tensor, std::vector<int32_t>(values.begin(), values.end())));
        else
            HK_TRY(upload_buffer<float>(store, tensor, std::vector<float>(values.begin(), values.end())));
    }
    return {};
}

std::vector<model::TensorSource> tensor_sources(program::ParameterStore& store, const graph::Graph& graph) {
    std::vector<model::TensorSource> sources;
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(graph))
        if (!plugin::is_of_other_network(tensor.name)) sources.push_back(source_of(store, tensor));
    return sources;
}

std::vector<model::TensorSource> value_tensor_sources(program::ParameterStore& store, const graph::Graph& graph) {
    constexpr std::string_view kPrefix = plugin::kValueFunction;
    std::vector<model::TensorSource> sources;
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(graph)) {
        if (!tensor.name.starts_with(kPrefix)) continue;
        sources.push_back(source_of(store, tensor));
        sources.back().name.erase(0, kPrefix.size());
    }
    return sources;
}

} // namespace hekla::infer
