// The key layer_types of a configuration: which of two kinds each layer is.
#pragma once

#include "settings.hpp"

#include <string>
#include <vector>

namespace hekla::plugin {

// Returns for each layer whether it is of the type `yes` and not of the type `no`: as layer_types lists them, or
// without the key as otherwise(layer). Errors: a list of another length, another type.
template<class Otherwise>
std::vector<bool> read_layer_types(const Config& c, int64_t layers, const std::string& yes, const std::string& no,
                                   const std::string& expected, const Otherwise& otherwise) {
    const bool listed = c.has("layer_types");
    const auto count = listed ? static_cast<int64_t>(c.count("layer_types")) : layers;
    require(count == layers,
            "layer_types has " + std::to_string(count) + " elements, num_hidden_layers is " + std::to_string(layers));
    std::vector<bool> types;
    for (int64_t i = 0; i < layers; ++i) {
        const std::string key = "layer_types." + std::to_string(i), type = listed ? c.string(key) : "";
        require(!listed || type == yes || type == no, key + " is '" + type + "', expected " + expected);
        types.push_back(listed ? type == yes : otherwise(i));
    }
    return types;
}

} // namespace hekla::plugin
