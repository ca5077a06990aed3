// Finds the tensors of a graph in a model's files, by the name rules of its architecture's manifest.
#pragma once

#include "graph/graph.hpp"
#include "model/weights.hpp"
#include "plugin/registry/manifest.hpp"

#include <functional>
#include <memory>
#include <span>

namespace hekla::plugin {

// A tensor that is saved with a model: a parameter or a buffer (saved, not trained).
struct ModelTensor {
    std::string name;
    graph::NodeId leaf = 0;
    bool buffer = false;
    graph::Kind kind = graph::Kind::float_;
    graph::Shape shape;
};

// Returns the parameters of a graph, then its buffers.
std::vector<ModelTensor> model_tensors(const graph::Graph& graph);

// Returns a buffer's described values; zeros if it has none.
std::vector<double> described_values(const graph::Graph& graph, const ModelTensor& buffer);

// Converts the rules for the model room; more can be added to the result.
// body: of a model without a head, whose files may hold an output layer of its own, which is then not tied to anything
// but ignored.
model::NameRules model_rules(const NameRules& manifest, bool body = false);

struct StoredTensor {
    ModelTensor tensor;
    const model::TensorView* stored = nullptr; // into `weights`, or `stack`
    std::shared_ptr<const model::TensorView> stack = nullptr;
};

// Finds the stored tensor of every tensor of the graph. A buffer that is not stored is omitted and keeps its described
// values. `ignored`, if given: stored tensors that are known not to belong to it. Errors: see model::resolve_names.
Result<std::vector<StoredTensor>> find_tensors(const graph::Graph& graph, const model::Weights& weights,
                                               const model::NameRules& rules,
                                               std::vector<std::string>* ignored = nullptr);

// Overload for those tensors of the graph for which `wanted` is true. `where`: name of the stored tensors in messages.
// They must outlive the result.
struct FoundTensors {
    std::vector<StoredTensor> tensors;
    std::vector<std::string> ignored; // stored tensors that do not belong to it
};
Result<FoundTensors> find_some_tensors(const graph::Graph& graph, std::span<const model::TensorView> stored,
                                       const std::string& where, model::NameRules rules,
                                       const std::function<bool(const std::string&)>& wanted);

} // namespace hekla::plugin
