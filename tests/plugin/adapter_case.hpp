// A small GPT-2 with adapters, and its values, for tests of adapters and combiners.
#pragma once

#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "hekla/plugin/adapter.h"
#include "plugin/composition/compose.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <set>

namespace adapter_case {

using namespace hekla;
using namespace hekla::plugin;
using nlohmann::json;

inline Registry adapters(Processes::Describe how = Processes::Describe::in_process) {
    Registry registry = Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_ADAPTERS_FOLDER});
    Processes processes;
    processes.describe = how;
    processes.program = HEKLA_DESCRIBE_PROGRAM;
    registry.set_processes(processes);
    return registry;
}

inline CompositionSpec small_gpt2(const std::string& adapter, const json& config = json::object()) {
    CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", 11}, {"n_positions", 11}, {"n_embd", 8}, {"n_layer", 2}, {"n_head", 2}};
    if (!adapter.empty()) spec.adapters = {{"", {adapter, config}}};
    spec.head = "lm";
    spec.objective = "clm";
    return spec;
}

inline Result<graph::Graph> described(const Registry& registry, const CompositionSpec& spec,
                                      int32_t mode = HK_MODE_EVALUATE) {
    HK_ASSIGN(const std::unique_ptr<Composition> composition, Composition::create(registry, spec, nullptr));
    HK_ASSIGN(const std::vector<BatchField> fields, composition->batch_fields(2, 5));
    const std::vector<std::string> ports{"logits"};
    return composition->build(mode, fields, ports);
}

inline std::set<std::string> of_adapter(const graph::Graph& graph) {
    std::set<std::string> names;
    for (const auto& [name, value] : graph.parameters())
        if (name.starts_with(kAdapter)) names.insert(name);
    return names;
}

// Returns a batch, and parameter values that depend only on the parameters' names; up: those that are zeros before
// training.
inline graph::Feeds feeds_of(const graph::Graph& graph, double up) {
    graph::Feeds feeds;
    for (const auto& [name, value] : graph.parameters()) {
        graph::Tensor tensor{graph::Kind::float32, graph.shape(value), {}};
        std::size_t state = std::hash<std::string>{}(name);
        for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const bool second = name.ends_with("lora_B.weight") || name.ends_with("lora_embedding_A");
            tensor.data.push_back(second ? up : static_cast<double>(state >> 40) / (1 << 24) - 0.5);
        }
        feeds.parameters[name] = std::move(tensor);
    }
    feeds.fields["input_ids"] = {graph::Kind::int32, graph::Shape{2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    feeds.fields["next_ids"] = {graph::Kind::int32, graph::Shape{2, 5}, {2, 3, 4, 5, 6, 7, 8, 9, 10, 0}};
    return feeds;
}

inline std::vector<double> logits_of(const graph::Graph& graph, double up) {
    const std::vector<graph::ValueId> wanted{graph.outputs.at("logits")};
    auto values = graph::evaluate(graph, feeds_of(graph, up), wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    return values.value()[0].data;
}

struct Fault {
    explicit Fault(const char* name) { ::setenv("HEKLA_FAULT", name, 1); }
    ~Fault() { ::unsetenv("HEKLA_FAULT"); }
    Fault(const Fault&) = delete;
    Fault& operator=(const Fault&) = delete;
};

} // namespace adapter_case
