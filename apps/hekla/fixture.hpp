// A fixture folder: a model of the reference implementation, a batch, and the results of the reference.
#pragma once

#include "generate/recorded_case.hpp"
#include "graph/reference.hpp"
#include "plugin/composition/compose.hpp"
#include "program/lowering/compile_options.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace hekla::app {

using Tensors = std::map<std::string, graph::Tensor, std::less<>>;

struct AdamwSettings {
    double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip_norm = 1.0;
    int64_t steps = 5;
};

struct Fixture {
    std::filesystem::path folder;
    std::string class_name;
    nlohmann::json config;
    Tensors inputs, expected;                  // expected: "out.*", "loss", "grad.*", "adamw.*"
    Tensors merged;                            // with an adapter: parameters of the model after merging it
    std::vector<plugin::AdapterSpec> adapters; // several, with their combination
    std::string combination;
    nlohmann::json combination_config;
    bool has_adamw = false;
    AdamwSettings adamw;
    std::vector<generate::RecordedCase> generation;

    std::vector<plugin::BatchField> fields() const;
};

// `expected` has the names and shapes of the model's parameters, whatever the reference's files divide.
Result<Fixture> read_fixture(const plugin::Registry& registry, const std::filesystem::path& folder);

// The graph of a fixture's model, with the ports of `expected` as outputs "out.*", and the values of its parameters.
struct FixtureModel {
    std::unique_ptr<plugin::Composition> composition;
    const plugin::ReferenceClass* reference = nullptr;
    graph::Graph graph; // mode train (evaluate, and no objective, where nothing expects a loss), not differentiated
    Tensors parameters, buffers; // buffers: those that are stored, which the graph has, too
    std::set<std::string, std::less<>> frozen; // parameters without a gradient: those of an adapter's body
};
Result<FixtureModel> describe_fixture(const plugin::Registry& registry, const Fixture& fixture, const Log& log);

// Returns the graph with gradients, if it has a loss, simplified.
Result<graph::Graph> differentiated(const FixtureModel& model);

// Returns the options of its program: the loss and the outputs "out.*" are read.
program::CompileOptions fixture_options(const graph::Graph& graph);

} // namespace hekla::app
