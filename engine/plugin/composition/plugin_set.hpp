// The plugin instances of one composition: architecture, heads, objective, and those of a teacher and of a value
// function. They run in this
// process (in_process_plugins.hpp) or in another one (out_of_process_plugins.hpp), with the same results.
#pragma once

#include "plugin/composition/adapter_tokens.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/host/joint.hpp"
#include "plugin/host/site.hpp"
#include "plugin/instances/update_graph.hpp"

#include "hekla/plugin/example.h"
#include "hekla/plugin/field.h"
#include "hekla/plugin/head.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace hekla::plugin {

// Prefix of the names of a teacher's parameters and ports.
inline constexpr const char* kTeacher = "teacher.";
// Prefix of the names of the parameters and ports of a value function with a body of its own.
inline constexpr const char* kValueFunction = "value.";
// Whether a name is of a teacher or of a value function with a body of its own, and not of the model that is saved.
inline bool is_of_other_network(std::string_view name) {
    return name.starts_with(kTeacher) || name.starts_with(kValueFunction);
}
// Prefix of the names of an adapter's parameters.
inline constexpr const char* kAdapter = "adapter.";
// The field that chooses the adapter of each row, [rows] int32: its number, or -1 for none.
inline constexpr const char* kAdapterRows = "adapter_rows";
// The field that multiplies what slots add to each row, [rows] float32; without an objective.
inline constexpr const char* kAdapterScales = "adapter_scales";
// The key of an adapter with the tokens from which on it acts in a row, and the field with the place of the first of
// them, [rows] int32, or a place after the row: kAdapterStart, or kAdapterStart + "." + the adapter's name.
inline constexpr const char* kInvocationTokens = "alora_invocation_tokens";
inline constexpr const char* kAdapterStart = "adapter_start";
// Prefix of the outputs of BuildRequest::merged.
inline constexpr const char* kMerged = "merged.";
// Prefixes of the outputs of BuildRequest::merge_pairs.
inline constexpr const char* kAdapted = "adapted.";
inline constexpr const char* kAlone = "alone.";
// Prefix of the outputs of BuildRequest::initial.
inline constexpr const char* kInitial = "initial.";

// A column that an objective reads (hk_column_need).
struct ColumnNeed {
    std::string name;
    int32_t kind = HK_COLUMN_TOKENS;
    bool optional = false, target = false;
};

struct PartsSpec {
    struct Head {
        PartSpec part;
        bool plugin = false;    // false: only the architecture can have this head
        bool asked_for = false; // use the plugin even if the architecture has a head of this name
    };
    std::optional<PartSpec> architecture, objective;
    std::vector<AdapterSpec> adapters;
    std::string combination;          // combination.hpp; "" for one adapter
    std::vector<PartSpec> combiners;  // those of the combination
    std::vector<PartSpec> optimizers; // of a training, which have a set of their own
    std::vector<Head> heads;
    std::shared_ptr<const PartsSpec> teacher, value;
};

// The keys of the configurations that plugins have read.
struct ReadKeys {
    std::set<std::string> architecture, objective;
    std::vector<std::set<std::string>> adapters, combiners, heads, optimizers; // in the order of PartsSpec
    std::shared_ptr<const ReadKeys> teacher, value;
};

// The nodes that one plugin described.
struct GraphPart {
    std::string what;     // "head 'lm'", "teacher: architecture 'bert'"
    std::string manifest; // path of the manifest of the plugin
    std::size_t first = 0, end = 0;
};

struct Described {
    graph::Graph graph;
    std::vector<GraphPart> parts; // in order; together they cover the graph
    std::vector<Site> sites;      // of body and heads, in order, if there are adapters
};

struct BuildRequest {
    int32_t mode = HK_MODE_TRAIN;
    std::vector<BatchField> fields;
    std::vector<std::string> ports; // names of ports that become outputs
    bool all_ports = false;         // every port becomes an output "port.NAME"
    bool body_frozen = false;       // describe the body in evaluation mode, also in mode train
    bool objective = true;          // describe the objective, in modes train and evaluate
    int64_t calls = -1;             // Joint::calls_left
    int64_t cache_capacity = 0;     // Joint::cache_capacity
    // Also describes what the adapter's sites compute with when it is merged: outputs kMerged + name, for every
    // parameter of a site that it acts at. Fails if it cannot be merged.
    bool merged = false;
    // Also describes, for every layer that the adapter acts at, its result with the adapter and that of the layer alone
    // with the merged weight and bias: outputs kAdapted and kAlone + number of the pair + "." + name of the site. Fails
    // if it cannot be merged.
    bool merge_pairs = false;
    // Also describes the initial values of the adapter's parameters that depend on the body: outputs kInitial + name.
    bool initial = false;
};

// The plugins of one composition. Errors name the plugin. Thread: functions that describe, one at a time;
// example_length, collate and decode, any.
class PluginSet {
public:
    virtual ~PluginSet() = default;
    virtual const ReadKeys& read() const = 0;
    // Checks whether build() would succeed.
    virtual Status check(const BuildRequest& request) { return build(request).status(); }
#define HK_PLUGIN_METHOD(value, name, parameters, arguments) virtual Result<value> name parameters = 0;
#define HK_PLUGIN_MEMORY_METHOD(returns, name, parameters, arguments) virtual returns name parameters = 0;
#include "plugin/composition/plugin_methods.inc"
#undef HK_PLUGIN_METHOD
#undef HK_PLUGIN_MEMORY_METHOD
};

} // namespace hekla::plugin
