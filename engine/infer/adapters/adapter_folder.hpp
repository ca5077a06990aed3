// An adapter as another library saved it, with the configuration of Hekla's plugin.
#pragma once

#include "graph/tensor.hpp"
#include "model/weights.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::infer {

inline constexpr const char* kAdapterHub = "AdapterHub";

struct AdapterFolder {
    std::string library;   // "PEFT" or "AdapterHub"
    std::string id;        // of Hekla's plugin
    nlohmann::json config; // its configuration
    std::string base;      // the body's folder or name, "" if it is not named
    model::Weights weights;
    std::vector<model::TensorView> tensors;         // of the weights, with Hekla's names
    std::vector<std::vector<std::byte>> parts = {}; // of tensors that were divided
};

// Returns a configuration's value as text, for messages.
std::string as_text(const nlohmann::json& value);

// Adds `columns` columns from `first` on of a tensor, read as [rows, ...], to the adapter's tensors. The column's place
// must be inside the tensor.
void add_columns(AdapterFolder& adapter, const model::TensorView& all, int64_t rows, int64_t first, int64_t columns,
                 std::string name);

} // namespace hekla::infer
