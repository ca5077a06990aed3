// A model's tensors between its files and the store: parameters, and buffers, which are saved but not trained.
#pragma once

#include "model/safetensors.hpp"
#include "plugin/model_names.hpp"
#include "program/program.hpp"

namespace hekla::infer {

// A stored tensor's values, converted. Waits for everything submitted.
Status upload(program::ParameterStore& store, const plugin::StoredTensor& tensor);

// The buffers of a graph as they are described, also those that no program reads.
Status upload_described_buffers(program::ParameterStore& store, const graph::Graph& graph);

// Every tensor that the graph's model keeps, read from the store as it is written. `store` must outlive the result.
// A teacher's (plugin::kTeacher) are another model's.
std::vector<model::TensorSource> tensor_sources(program::ParameterStore& store, const graph::Graph& graph);

} // namespace hekla::infer
