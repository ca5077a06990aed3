// Real trained models, if a checkout has them in ../shared/data/pretrained, and functions to read them.
#pragma once

#include "model/folder.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::test {

namespace fs = std::filesystem;

struct StoredTensor {
    std::vector<int64_t> dims;
    model::DType dtype = model::DType::f32;
    std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, StoredTensor>;

inline StoredTensor tensor_of(const std::vector<int64_t>& dims, const std::vector<float>& values) {
    StoredTensor t{dims, model::DType::f32, std::vector<std::byte>(values.size() * 4)};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
}

inline StoredTensor ids_of(const std::vector<int64_t>& dims, const std::vector<int32_t>& values) {
    StoredTensor t{dims, model::DType::i32, std::vector<std::byte>(values.size() * 4)};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
}

inline std::vector<float> floats(const model::TensorView& view) {
    int64_t count = 1;
    for (const int64_t d : view.dims) count *= d;
    std::vector<float> values(static_cast<std::size_t>(count));
    const Status status = model::load_float32(view, values);
    REQUIRE_MESSAGE(status.ok(), status.message());
    return values;
}

inline model::SafetensorsFile open(const fs::path& path) {
    auto file = model::SafetensorsFile::open(path);
    REQUIRE_MESSAGE(file.ok(), file.message());
    return file.take();
}

inline const model::TensorView& get(const model::SafetensorsFile& file, std::string_view name) {
    const model::TensorView* found = file.find(name);
    REQUIRE_MESSAGE(found != nullptr, std::string(name));
    return *found;
}

inline void write(const fs::path& path, const Tensors& tensors) {
    std::vector<model::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
        model::TensorView view;
        view.name = name;
        view.dtype = tensor.dtype;
        view.dims = tensor.dims;
        view.bytes = tensor.bytes;
        views.push_back(std::move(view));
    }
    const auto written = model::write_safetensors_file(path, model::sources_of(views));
    REQUIRE_MESSAGE(written.ok(), written.message());
}

inline std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline fs::path pretrained() { return fs::path(HEKLA_SOURCE_DIR).parent_path() / "shared" / "data" / "pretrained"; }

// Converts minGPT's weights to GPT-2's files: minGPT's projections are [out, in], GPT-2's [in, out].
inline Tensors gpt2_from_mingpt(const model::SafetensorsFile& weights) {
    Tensors ours;
    for (const model::TensorView& view : weights.tensors()) {
        std::vector<float> values = floats(view);
        std::vector<int64_t> dims = view.dims;
        const bool projection = view.name.ends_with("c_attn.weight") || view.name.ends_with("c_proj.weight") ||
                                view.name.ends_with("c_fc.weight");
        if (projection) {
            const auto rows = static_cast<std::size_t>(dims[0]), columns = static_cast<std::size_t>(dims[1]);
            std::vector<float> turned(values.size());
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
            values = std::move(turned);
            std::swap(dims[0], dims[1]);
        }
        ours.emplace(view.name, tensor_of(dims, values));
    }
    return ours;
}

inline nlohmann::json nano_sort_config() {
    return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", 3},      {"n_positions", 11},
            {"n_embd", 48},         {"n_layer", 3},
            {"n_head", 3},          {"tie_word_embeddings", false}};
}

} // namespace hekla::test
