// The tensors of a model under the names and in the layouts of llama.cpp.
#pragma once

#include "model/dtype.hpp"
#include "model/weights.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hekla::app {

// How a stored matrix is converted to the layout that llama.cpp expects.
enum class Form {
    as_is,
    transposed,  // GPT-2 stores [in, out]
    query_heads, // llama.cpp's rotary positions rotate neighbors, ours the halves of a head: rows are interleaved
    key_heads,
    plus_one,       // a gain that is stored as its difference from 1
    even_columns,   // of [experts, in, out] as [experts, out, in]; of biases [experts, out] without that
    odd_columns,    // the others
    all_columns,    // [experts, in, out] as [experts, out, in]
    without_middle, // [channels, 1, taps] as [channels, taps]
};

struct Mapping {
    const char* from; // '#' is the number of a layer
    const char* to;
    Form form = Form::as_is;
};

// Returns the GGUF name of the tensor `name`, if the mapping applies to it.
std::optional<std::string> mapped_name(const Mapping& mapping, std::string_view name);

// The model's configuration as its architecture writes it; every key is present.
class GgufSettings {
public:
    explicit GgufSettings(nlohmann::ordered_json config) : config_(std::move(config)) {}
    uint32_t count(const char* key) const { return config_.at(key).get<uint32_t>(); }
    float real(const char* key) const { return config_.at(key).get<float>(); }
    const nlohmann::ordered_json& json() const { return config_; }
    nlohmann::ordered_json get(const char* key, nlohmann::ordered_json otherwise = {}) const {
        return config_.value(key, std::move(otherwise));
    }

private:
    nlohmann::ordered_json config_;
};

// llama.cpp hard-codes some values; a model with others is unsupported.
Status require_key(bool same, const char* key, const std::string& expected);

// Returns whether a GGUF tensor is always float32: vectors, norms, biases, routers, positions, short convolutions.
bool is_always_float32(std::string_view name, std::size_t rank);

// Returns the bytes of a tensor after `change`, with the new shape.
model::TensorSource changed_source(const model::TensorInfo& info, const model::TensorView& view,
                                   std::function<void(std::span<const float>, std::span<float>)> change);

// In each head, row i of the first half becomes row 2 i, and row i of the second half row 2 i + 1.
void interleave_halves(std::size_t heads, std::size_t rows, std::size_t columns, std::span<const float> in,
                       std::span<float> out);

// Returns a tensor in a form; the heads are those of num_attention_heads and num_key_value_heads.
model::TensorSource source_for(const std::string& name, Form form, const model::TensorView& view, model::DType dtype,
                               const GgufSettings& s);

} // namespace hekla::app
