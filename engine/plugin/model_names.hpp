// Which tensors a model's files hold for a graph, by what its architecture's manifest says of names.
#pragma once

#include "graph/graph.hpp"
#include "model/weights.hpp"
#include "plugin/manifest.hpp"

#include <functional>
#include <span>

namespace hekla::plugin {

// A tensor that a model's files keep: a parameter, or a buffer (saved, not trained).
struct ModelTensor {
    std::string name;
    graph::NodeId leaf = 0;
    bool buffer = false;
    graph::Kind kind = graph::Kind::float_;
    graph::Shape shape;
};

// The parameters of a graph, then its buffers.
std::vector<ModelTensor> model_tensors(const graph::Graph& graph);

// A buffer's values as it was described: zeros where none were.
std::vector<double> described_values(const graph::Graph& graph, const ModelTensor& buffer);

// The model room's rules, which may be added to.
model::NameRules model_rules(const NameRules& manifest);

struct StoredTensor {
    ModelTensor tensor;
    const model::TensorView* stored = nullptr; // into `weights`
};

// Every tensor of the graph with the stored one. A buffer that no file holds is left out: it stays as it is described.
// `ignored`, if given: the stored tensors that are known to be no part of it. Errors: see model::resolve_names.
Result<std::vector<StoredTensor>> find_tensors(const graph::Graph& graph, const model::Weights& weights,
                                               const NameRules& names, std::vector<std::string>* ignored = nullptr);

// The same for a part of the graph's tensors: those that `wanted` takes. `where`: what messages call the stored ones,
// which must outlive the result.
struct FoundTensors {
    std::vector<StoredTensor> tensors;
    std::vector<std::string> ignored; // stored ones that are no part of it
};
Result<FoundTensors> find_some_tensors(const graph::Graph& graph, std::span<const model::TensorView> stored,
                                       const std::string& where, model::NameRules rules,
                                       const std::function<bool(const std::string&)>& wanted);

} // namespace hekla::plugin
