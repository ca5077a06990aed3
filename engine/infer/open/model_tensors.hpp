// A model's tensors between its files and the store: parameters, and buffers, which are saved but not trained.
#pragma once

#include "model/safetensors.hpp"
#include "plugin/composition/model_names.hpp"
#include "program/program.hpp"

namespace hekla::infer {

// Uploads a stored tensor's values, converted. Waits for all submitted work.
Status upload(program::ParameterStore& store, const plugin::StoredTensor& tensor);

// Creates the buffers of a graph as described, including those that no program reads.
Status upload_described_buffers(program::ParameterStore& store, const graph::Graph& graph);

// Returns sources of every tensor of the graph's model, which read from the store when they are written. `store` must
// outlive the result. Those of other networks (plugin::is_of_other_network) are not included.
std::vector<model::TensorSource> tensor_sources(program::ParameterStore& store, const graph::Graph& graph);
// Returns those of a value function with a body of its own, with the names of its own model.
std::vector<model::TensorSource> value_tensor_sources(program::ParameterStore& store, const graph::Graph& graph);

} // namespace hekla::infer
