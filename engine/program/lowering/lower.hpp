// From a graph to a list of dispatches, without a device. Shape operations become views; every other operation is given
// to its family, which appends dispatches and sets the views of the node's outputs.
#pragma once

#include "program/lowering/dispatch.hpp"

#include <map>
#include <string>
#include <vector>

namespace hekla::program {

// What becomes of the graph's outputs "grad.NAME".
enum class Gradients : uint8_t {
    ignore,     // not computed
    overwrite,  // written into the gradient arena
    accumulate, // added to it where RunScalars::accumulate is set, else written
};

struct CompileOptions {
    // Names of graph.outputs to compute and keep for read_output(); besides, "loss_sum.I", "loss_count.I" of
    // graph.losses and "metric_sum.NAME", "metric_count.NAME" of graph.metrics. Only what these and the gradients need
    // is computed.
    std::vector<std::string> outputs = {};
    Gradients gradients = Gradients::overwrite;
    // Fields that are read from, and outputs that are written to, states of the parameter store: name -> state. An
    // output is written after everything that reads the state's old content.
    std::map<std::string, std::string> state_inputs = {};
    std::map<std::string, std::string> state_outputs = {};
    std::map<std::string, std::string> kernel_choices = {}; // see Lowering::choose()
    // f16 or bf16: how the factors of matmul and linear are stored, and those of their results that nothing needs in 32
    // bits; sums are float32 whatever it is. Values of kind float32 stay so.
    Storage precision = Storage::f32;
    // By name, parameters that lie in 16 bits: a program takes it from its store.
    std::map<std::string, Storage> parameters = {};
    bool fused = true;       // pointwise groups in one kernel each (the bits are the same)
    bool serialized = false; // a barrier after every dispatch (the bits are the same)
    // Accessors of plugins' own GLSL count what is clamped (Program::access_counts()); the bits are the same.
    bool count_accesses = false;
    // Invocations of plugins' own GLSL run in the opposite order; the bits are the same, unless one of them depends on
    // what another does.
    bool reversed_invocations = false;
    bool timings = false; // a timestamp after every dispatch; serialized, so that each is timed alone
};

// The error names the first operation that cannot be lowered, and its scope. `graph` must outlive the result's use.
Result<Lowering> lower(const graph::Graph& graph, const Limits& limits, const CompileOptions& options = {});

// The parameter store's state that holds a graph's buffer.
inline std::string buffer_state(std::string_view name) { return "buffer." + std::string(name); }

// A family lowers one node: reads lowering.view(input), appends dispatches, sets lowering.views[output] of every output
// that is not hidden, and of the hidden ones. Optional inputs are graph::kNone. `unsupported` or `invalid_argument` say
// what about the node cannot be done; lower() adds where.
using LowerNode = Status (*)(Lowering& lowering, graph::NodeId node);

Status lower_shape(Lowering& lowering, graph::NodeId node); // reshape transpose slice concat pad broadcast flip unslice
Status lower_leaf(Lowering& lowering, graph::NodeId node);  // input parameter buffer constant fill iota positions ...
Status lower_pointwise(Lowering& lowering, graph::NodeId node); // one operation; groups: pointwise.hpp
Status lower_own(Lowering& lowering, graph::NodeId node);       // a plugin's own operation
Status lower_random(Lowering& lowering, graph::NodeId node);    // random_uniform random_normal

Status lower_matmul(Lowering& lowering, graph::NodeId node);        // matmul linear
Status lower_attention(Lowering& lowering, graph::NodeId node);     // attention attention_gradient attention_cached
Status lower_norm(Lowering& lowering, graph::NodeId node);          // layer_norm rms_norm and their gradients
Status lower_softmax(Lowering& lowering, graph::NodeId node);       // softmax log_softmax softmax_gradient
Status lower_cross_entropy(Lowering& lowering, graph::NodeId node); // cross_entropy cross_entropy_gradient
Status lower_linear_cross_entropy(Lowering& lowering, graph::NodeId node); // and its gradient
Status lower_reduce(Lowering& lowering, graph::NodeId node);               // sum mean max logsumexp argmax
Status lower_embedding(Lowering& lowering, graph::NodeId node);            // embedding embedding_gradient
Status lower_gather(Lowering& lowering, graph::NodeId node);               // gather gather_gradient
Status lower_scan(Lowering& lowering, graph::NodeId node);                 // cumsum top_k
Status lower_rotary(Lowering& lowering, graph::NodeId node);               // rotary
Status lower_recurrent(Lowering& lowering, graph::NodeId node);            // gru lstm and their gradients

} // namespace hekla::program
