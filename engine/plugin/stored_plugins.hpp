// PluginSet of a model whose descriptions were written down: what its plugins said then, and nothing else. No plugin is
// opened.
#pragma once

#include "plugin/plugin_set.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// The graphs of one model for fields of many sizes.
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
    // Of graph/sized_text.hpp, with every port as an output "port.NAME". Someone else's.
    std::string_view text;

    // The fields at these sizes, in their order.
    std::vector<BatchField> fields_at(std::span<const int64_t> at) const;
};

// Without its text. The other way: a JSON exception for what is none.
nlohmann::json family_json(const GraphFamily& family);
GraphFamily family_from(const nlohmann::json& json);

struct StoredGraphs {
    std::vector<GraphFamily> families; // whose texts outlive the parts
    std::string where;                 // what messages call it
    std::string missing; // what to say where something is not among them: which there are, and how to get others
};

// There is no objective. Errors of build(): unsupported for what is not among the graphs, not_found for a port that
// none has, corrupt for a text that is no graph.
std::unique_ptr<PluginSet> make_stored_plugins(StoredGraphs graphs);

} // namespace hekla::plugin
