// Plugins of an exported model: their stored descriptions. No plugin is loaded.
#pragma once

#include "plugin/composition/plugin_set.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// The graphs of one model, for fields of many sizes.
struct GraphFamily {
    struct Size {
        std::string name; // "rows"
        int64_t least = 1, most = 1;
    };
    struct Field {
        std::string name;
        graph::Kind kind = graph::Kind::int32;
        std::vector<std::string> shape; // names of sizes, and numbers
    };
    int32_t mode = HK_MODE_EVALUATE;
    std::vector<Size> sizes;
    std::vector<Field> fields;
    // Text of graph/text_form/sized_text.hpp, with every port as an output "port.NAME". Not owned.
    std::string_view text;

    // Returns the fields at these sizes, in order.
    std::vector<BatchField> fields_at(std::span<const int64_t> at) const;
};

// Converts a family without its text. Reading throws JSON exceptions.
nlohmann::json family_json(const GraphFamily& family);
GraphFamily family_from(const nlohmann::json& json);

struct StoredGraphs {
    std::vector<GraphFamily> families; // their texts must outlive the plugin set
    std::string where;                 // name of the file in messages
    std::string missing;               // message for a missing graph: the existing ones, and how to get others
};

// Creates plugins without an objective. Errors of build(): unsupported for a graph that is not stored, not_found for an
// unknown port, corrupt for a text that is not a graph.
std::unique_ptr<PluginSet> make_stored_plugins(StoredGraphs graphs);

} // namespace hekla::plugin
