// The result of lowering a graph: a list of dispatches over resources, before addresses are assigned. Kernel families
// append to a Lowering; then the memory plan places every resource, and Program records it.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/column_sums.hpp"
#include "program/lowering/compile_options.hpp"
#include "program/lowering/dispatch.hpp"
#include "program/lowering/kernel_problem.hpp"
#include "program/lowering/limits.hpp"
#include "program/lowering/row_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::program {

enum class ResourceKind : uint8_t {
    arena,     // live from its first write to its last read; the memory plan places it
    parameter, // in the parameter store, shared by all programs of a run
    gradient,  // gradients of parameters, in the same order as the parameters
    constant,  // uploaded once when the program is created
    input,     // a field of the batch or a step scalar, written by the host or by a copy before each replay
    output,    // kept after the replay, readable by the host
    state,     // key-value caches and other tensors that live across replays and programs
    moment1,   // AdamW's first moments of parameters, in the same order
    moment2,   // AdamW's second moments
};
// parameter, gradient, moment1 and moment2 have the name of a tensor, or chunk_name() of parameter_table.hpp for a
// whole chunk.

struct Resource {
    std::string name; // the parameter's, field's, output's or state's; for the arena a description
    ResourceKind kind = ResourceKind::arena;
    uint64_t bytes = 0;
    std::vector<std::byte> content; // constants only
};

// A weight by panels [N / W, K, W], for a linear that has it as [N, K] (transposed) or [K, N].
struct PanelWeight {
    View view;
    bool transposed = false;
};

class Lowering {
public:
    const graph::Graph* graph = nullptr; // null: dispatches written by hand
    Limits limits;
    CompileOptions options; // the argument of lower()
    std::vector<Resource> resources{1};
    std::vector<Dispatch> dispatches;
    std::vector<View> views;                      // by graph::ValueId; resource 0: not made yet
    std::vector<bool> needed;                     // by graph::NodeId: whether it is computed
    std::vector<bool> read;                       // by graph::ValueId: whether needed nodes or the caller read it
    std::map<graph::ValueId, PanelWeight> panels; // parameters that are stored so
    std::vector<bool> stored_in_16_bits;          // by graph::ValueId; empty if options.precision is f32
    graph::NodeId current = 0;                    // the node being lowered
    std::map<std::string, std::string> choices; // KernelChoice::text() by KernelProblem::key, with those of the options
    std::vector<KernelProblem> problems;        // for which options.kernel_choices has no entry
    std::optional<KernelChoice> trial;          // of every problem, in place of those: see KernelTrial
    std::map<std::string, float> scalar_initials;
    std::map<std::string, View> outputs;                       // every tensor of kind output, in its original shape
    std::vector<std::pair<graph::NodeId, View>> access_counts; // of access_counters(), in order
    std::map<graph::NodeId, ColumnSums> column_sums;           // by product
    std::map<graph::ValueId, View> packed_masks;               // of attention, as bits
    std::map<std::pair<graph::ValueId, int64_t>, RowGroups> row_groups; // by choice and number of matrices
    std::vector<std::string> ignored_inputs; // fields and step scalars of the graph that no dispatch reads

    const View& view(graph::ValueId value) const { return views[value]; }
    // Returns how a float value of the graph is stored.
    Storage storage_of(graph::ValueId value) const {
        return value < stored_in_16_bits.size() && stored_in_16_bits[value] ? options.precision : Storage::f32;
    }
    // Allocates a dense arena tensor (scratch, or the storage of a value). If the value turns out to be an output or a
    // gradient, the resource is moved there afterwards, so nothing is copied.
    View allocate(const graph::Shape& shape, Storage storage, const std::string& name);
    // Returns the view itself if it is contiguous, otherwise a copy of it (appends a dispatch).
    View contiguous(const View& view);
    // Returns the view, or the same view of a 16-bit copy if options.precision is 16 bits. The copy is of the whole
    // tensor and is created on first use (appends a dispatch). Nothing may write to the tensor afterwards.
    View as_16_bit(const View& view);
    // Sets a copy that another dispatch writes, dense like the whole tensor, for as_16_bit().
    void set_16_bit_copy(const View& tensor, const View& copy) { stored_as_16_bit_[tensor.resource] = copy.resource; }
    // Creates the 16-bit copies of several tensors, by as few dispatches as possible.
    void copy_as_16_bit(std::span<const View> views);
    // Appends a dispatch that converts `from` (float32) to the storage of `to` (16 bits), both dense, with the same
    // number of elements.
    void store_as_16_bit(const View& from, const View& to);
    void store_as_16_bit(std::span<const std::pair<View, View>> from_to);
    // Appends a dispatch that copies `from` (any strides) into `to` (any strides, no element twice), same shape and
    // storage.
    void copy(const View& from, const View& to);
    // Appends a dispatch that fills a dense tensor with zeros.
    void fill_zero(const View& view);
    // The reference is valid until the next append.
    Dispatch& append(Dispatch dispatch);

    // Tensors outside the arena: found by kind and name, created on first use, dense.
    View parameter(const std::string& name, const graph::Shape& shape); // float32, or according to options.parameters
    View named(ResourceKind kind, const std::string& name, const graph::Shape& shape, Storage storage);
    View constant(const std::string& name, const graph::Shape& shape, Storage storage, std::vector<std::byte> content);
    View step_scalar(const std::string& name, float initial); // float32 []
    View stored(const StoreTensor& tensor, const graph::Shape& shape, Storage storage);
    View runtime(); // the RuntimeRecord, as u32 words [8]
    // Returns two counters for the kernel of the current node, zero at the beginning of every replay: loads and stores
    // outside of their tensors (appends a dispatch).
    View access_counters();

    // Moves a dense arena tensor that fills its resource to another kind and name, so that its content needs no copy.
    // Returns false and changes nothing if that is impossible.
    bool move_to(const View& view, ResourceKind kind, const std::string& name);

    // Returns how a problem is computed: the choice in options.kernel_choices for its key, otherwise its first kernel
    // that spills no registers (its first if all do, or if Limits::spills does not know), and then adds the problem to
    // `problems`, that kernel first. A choice never changes after step 0.
    KernelChoice choose(KernelProblem problem);

private:
    std::map<std::pair<ResourceKind, std::string>, ResourceId> names_;
    std::map<ResourceId, ResourceId> stored_as_16_bit_; // tensor -> copy, of as_16_bit()
};

// Returns the name of the parameter store's state for a graph's buffer.
inline std::string buffer_state(std::string_view name) { return "buffer." + std::string(name); }
inline const char* const kRuntimeInput = "hekla.runtime";
inline const char* const kAccessPrefix = "hekla.accesses."; // outputs that count accesses
inline const char* const kScalarPrefix = "hekla.scalar.";   // inputs of kind `input` that are step scalars

} // namespace hekla::program
