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

} // namespace hekla::infer
