// Options for compiling a graph.
#pragma once

#include "program/lowering/view.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hekla::program {

// How the graph's outputs "grad.NAME" are handled.
enum class Gradients : uint8_t {
    ignore,     // not computed
    overwrite,  // written into the gradient arena
    accumulate, // added to it if RunScalars::accumulate is set, otherwise written
};

// The fields of a decoding step that a replay writes for the next one, each [rows].
struct ChooseFields {
    std::string tokens, start, count;
};

// A tensor of the parameter store that a graph reads as a field, or writes as an output.
struct StoreTensor {
    enum class Kind : uint8_t { parameter, gradient, state } kind = Kind::state;
    std::string name;
    // Of a state that is a record: the number of its 32-bit words, and the first one that is read. 0: the whole tensor.
    int64_t words = 0;
    uint64_t first = 0;
};

// An output that replaces a parameter or a state.
struct StoreUpdate {
    std::string output;
    StoreTensor tensor;
    // The last node (graph::NodeId) that depends on the old content. It is replaced when the nodes up to this one are
    // computed; updates with the same one are written together.
    uint32_t after = 0;
};

struct CompileOptions {
    // Names of graph.outputs to compute and keep for read_output(); in addition "loss_sum.I", "loss_count.I" of
    // graph.losses and "metric_sum.NAME", "metric_count.NAME" of graph.metrics. Only what these and the gradients need
    // is computed.
    std::vector<std::string> outputs = {};
    Gradients gradients = Gradients::overwrite;
    // Fields that are read from, and outputs that are written to, states of the parameter store: name -> state. An
    // output is written after everything that reads the old content of the state.
    std::map<std::string, std::string> state_inputs = {};
    std::map<std::string, std::string> state_outputs = {};
    // Outputs that are added to states if RunScalars::accumulate is set, otherwise written, as gradients are: output ->
    // state. float32.
    std::map<std::string, std::string> state_sums = {};
    // Fields that are read from the store, and outputs that replace its tensors, in the order of `after`.
    std::map<std::string, StoreTensor> store_inputs = {};
    std::vector<StoreUpdate> store_updates = {};
    // States that each replay copies to the host at its end, for Program::read_state(). Small ones.
    std::vector<std::string> read_states = {};
    std::map<std::string, std::string> kernel_choices = {}; // see Lowering::choose()
    // f16 or bf16: storage of the factors of matmul and linear, and of their results if nothing needs them in 32 bits;
    // sums are always float32. Values of kind float32 are not affected.
    Storage precision = Storage::f32;
    // Parameters that are stored in 16 bits or by panels, by name. Program::compile takes them from its store.
    std::map<std::string, StoredAs> parameters = {};
    // Storage of the keys and values of attention over a cache. Empty: that of the store's matrices.
    std::optional<Storage> cache = {};
    // No matrix product is cut into two that split K differently, so that a row of a batch has the same bits in every
    // place.
    bool equal_rows = false;
    bool fused = true; // pointwise groups in one kernel each (the bits are the same)
    // The graph is a decoding step: its output "logits" [rows, 1, vocabulary] is also read by a kernel that chooses
    // each row's next token and writes it to the fields of the next replay; see choose.hpp.
    std::optional<ChooseFields> choose = {};
    bool chained = false;    // small dispatches in one, on CPUs (the bits are the same); see chain.hpp
    bool serialized = false; // a barrier after every dispatch (the bits are the same)
    // Whether accessors of plugins' own GLSL count clamped accesses (Program::access_counts()); the bits are the same.
    bool count_accesses = false;
    // Run invocations of plugins' own GLSL in the opposite order; the bits are the same, unless one of them depends on
    // the effects of another.
    bool reversed_invocations = false;
    bool timings = false; // a timestamp after every dispatch; serialized, so that each is timed alone
};

} // namespace hekla::program
