// The plugins of one composition with their instances: architecture, heads, objective, and those of a teacher. They
// live in this process (parts_here.hpp) or in one of their own (parts_apart.hpp); what they say is the same.
#pragma once

#include "plugin/host_graph.hpp"

#include "hekla/plugin/example.h"
#include "hekla/plugin/field.h"
#include "hekla/plugin/head.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::plugin {

// Before the names of an adapter's parameters.
inline constexpr const char* kAdapter = "adapter.";

// A column that an objective reads (hk_column_need).
struct ColumnNeed {
    std::string name;
    int32_t kind = HK_COLUMN_TOKENS;
    bool optional = false, target = false;
};

// A plugin's id, and its configuration with every default.
struct PartSpec {
    std::string id;
    nlohmann::json config = nlohmann::json::object();
};

struct PartsSpec {
    struct Head {
        PartSpec part;
        bool plugin = false;    // false: only the architecture may have it
        bool asked_for = false; // the plugin's, also where the architecture has one of that name
    };
    std::optional<PartSpec> architecture, adapter, objective;
    std::vector<Head> heads;
    std::shared_ptr<const PartsSpec> teacher;
};

// The keys of the configurations that were asked for.
struct ReadKeys {
    std::set<std::string> architecture, adapter, objective;
    std::vector<std::set<std::string>> heads; // as PartsSpec's
    std::shared_ptr<const ReadKeys> teacher;
};

// The nodes that one plugin described, in a graph of several.
struct GraphPart {
    std::string what;     // "head 'lm'", "teacher: architecture 'bert'"
    std::string manifest; // the file, of the plugin that said it
    std::size_t first = 0, end = 0;
};

struct Described {
    graph::Graph graph;
    std::vector<GraphPart> parts; // in their order: they are all of the graph
};

struct BuildRequest {
    int32_t mode = HK_MODE_TRAIN;
    std::vector<BatchField> fields;
    std::vector<std::string> ports; // that become outputs
    bool all_ports = false;         // every one does, as "port.NAME"
    bool body_frozen = false;       // the body is described as it is evaluated, also in mode train
    bool objective = true;          // and the objective, in modes train and evaluate
    int64_t calls = -1;             // Joint::calls_left
};

// Errors name the plugin. Thread: what describes, one at a time; example_length, collate and decode, many at once.
class PluginSet {
public:
    virtual ~PluginSet() = default;
    virtual const ReadKeys& read() const = 0;
    virtual Result<Described> build(const BuildRequest& request) = 0;
    // Whether it can be described.
    virtual Status check(const BuildRequest& request) { return build(request).status(); }
    // Of the body alone, without what an adapter adds.
    virtual Result<std::set<std::string>> parameters(const std::vector<BatchField>& fields) = 0;
    // The architecture's own config.json, as JSON in its order.
    virtual Result<nlohmann::ordered_json> write_config() = 0;
    virtual Result<std::vector<std::string>> decode_ports() = 0; // of the first head; none where it has no decode

    // All of these: there is an objective.
    virtual Result<int32_t> example_kind() = 0;
    virtual Result<bool> can_collate() = 0;
    virtual Result<int64_t> tokens_per_example(int64_t length) = 0;
    virtual Result<std::vector<ColumnNeed>> columns() = 0;
    virtual Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) = 0;

    virtual int64_t example_length(const hk_example& example) = 0; // 0: it does not say
    virtual Status collate(const hk_batch& batch, std::span<hk_field> fields) = 0;
    virtual Result<std::vector<std::string>> decode(const hk_decode_input& input) = 0; // there is a head with one
};

} // namespace hekla::plugin
