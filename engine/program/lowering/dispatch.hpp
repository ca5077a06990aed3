// What lowering makes of a graph: a list of dispatches over resources, before anything has an address. Kernel families
// append to a Lowering; the memory plan then gives every resource a place, and program.cpp records.
#pragma once

#include "graph/graph.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::program {

// How elements lie in memory. A `float` value may be any of the first three, `float32` is f32, `int32` is i32.
enum class Storage : uint32_t { f32 = 0, f16 = 1, bf16 = 2, i32 = 3 };
uint64_t bytes_of(Storage storage);

using ResourceId = uint32_t; // index into Lowering::resources; 0 is none

enum class ResourceKind : uint8_t {
    arena,     // lives from its first write to its last read; the memory plan places it
    parameter, // in the parameter store, shared by all programs of a run
    gradient,  // gradients of parameters, beside the parameters in the same order
    constant,  // uploaded once when the program is made
    input,     // a field of the batch or a runtime scalar: written by the host or a copy before each replay
    output,    // kept after the replay, readable by the host
    state,     // key-value caches and other tensors that live across replays and programs
    moment1,   // AdamW's first moments of parameters, in the same order
    moment2,   // and its second
};
// parameter, gradient, moment1 and moment2 are named by a tensor, or by chunk_name() of program.hpp for a whole chunk.

struct Resource {
    std::string name; // the parameter's, field's, output's or state's; for the arena a description
    ResourceKind kind = ResourceKind::arena;
    uint64_t bytes = 0;
    std::vector<std::byte> content; // constants only
};

// A tensor as a kernel sees it: a resource and strides in elements (0 repeats). Shape operations make views, not
// copies.
struct View {
    ResourceId resource = 0;
    uint64_t offset = 0; // elements
    Storage storage = Storage::f32;
    graph::Shape shape;
    graph::Strides strides;

    bool contiguous() const; // elements follow each other in row-major order; dimensions of 1 may have any stride
    int64_t elements() const { return shape.elements(); }
    uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * bytes_of(storage); }
};

// Bytes [begin, end) of a resource that a dispatch may read or write: every address it computes lies inside.
struct Access {
    ResourceId resource = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool write = false;
};

// A place in an argument record that will hold the address of a resource plus an offset in bytes.
struct Relocation {
    uint32_t at = 0;
    ResourceId resource = 0;
    uint64_t offset = 0;
};

// An argument record (scalar layout, as the shader declares it) under construction. Every record begins with
// HEKLA_RECORD of shaders/common.glsl: two u32, the dispatch's first group and its end. They are there from the start
// and filled when the dispatch is recorded, perhaps split. Addresses need 8-byte alignment: put them first.
class Arguments {
public:
    Arguments() : bytes_(8) {}
    void address(const View& view);                          // uint64: of element `offset`
    void address(ResourceId resource, uint64_t byte_offset); // uint64; resource 0: the null address
    void u32(uint32_t value) { put(&value, sizeof value); }
    void i32(int32_t value) { put(&value, sizeof value); }
    void f32(float value) { put(&value, sizeof value); }
    const std::vector<std::byte>& bytes() const { return bytes_; }
    const std::vector<Relocation>& relocations() const { return relocations_; }

private:
    void put(const void* data, std::size_t size);
    std::vector<std::byte> bytes_;
    std::vector<Relocation> relocations_;
};

struct Dispatch {
    std::string
        shader; // name in the embedded table, eg "matmul/direct", or "generated:HASH" or "own:NAME/REVISION:HASH"
    std::string source;                                 // GLSL of a generated shader, else empty
    std::shared_ptr<const std::vector<uint32_t>> words; // SPIR-V of a plugin's own operation, else null
    std::vector<uint32_t> constants;                    // specialization constants 0, 1, ...
    uint32_t subgroup_size = 0;                         // 0: the device's own
    Arguments arguments;
    uint64_t groups = 1; // folded into three dimensions when recorded; shaders take HEKLA_GROUP of common.glsl
    std::vector<Access> accesses;
    double flops = 0;
    double bytes = 0;
    std::string label;      // for names in dumps and timings; empty: made of the node
    graph::NodeId node = 0; // append() sets it to Lowering::current

    void reads(const View& view); // the smallest byte range that holds every element of the view
    void writes(const View& view);
    void reads(ResourceId resource, uint64_t begin, uint64_t end) { accesses.push_back({resource, begin, end, false}); }
    void writes(ResourceId resource, uint64_t begin, uint64_t end) { accesses.push_back({resource, begin, end, true}); }
};

// What lowering may use; plain numbers, so that lowering runs (and is tested) without a device.
struct Limits {
    uint32_t subgroup_size = 8;
    uint32_t max_group_invocations = 256;
    uint32_t shared_memory = 16384;
    bool storage16 = false;
    bool cpu = false;              // the device is a CPU: prefer kernels without shared memory
    bool uniform_loads = false;    // capability of that name: kernels that load so are preferred
    bool generated_shaders = true; // runtime GLSL is available
};

// A product for which several kernels would do: what a tuner needs to measure them.
struct KernelProblem {
    std::string key;                     // "matmul NT f32 [1x 512, 512, 512]": Lowering::choices has it
    std::vector<std::string> candidates; // the preferred one first; all give the same result but for rounding
    bool transpose_a = false, transpose_b = false;
    int64_t batches = 1, m = 0, n = 0, k = 0;
    Storage a = Storage::f32, b = Storage::f32, c = Storage::f32;
};

// What every replay finds in the resource runtime(): shaders declare the same struct (scalar layout, 4-byte words).
struct RuntimeRecord {
    uint32_t seed_low = 0;
    uint32_t seed_high = 0;
    uint32_t step = 0;
    uint32_t first_example = 0; // of this micro-batch in the step
    uint32_t accumulate = 0;    // gradients are added to what is there
    uint32_t reserved[3] = {};
};

class Lowering {
public:
    const graph::Graph* graph = nullptr; // null: dispatches made by hand
    Limits limits;
    std::vector<Resource> resources{1};
    std::vector<Dispatch> dispatches;
    std::vector<View> views;                             // by graph::ValueId; resource 0: not made yet
    std::map<std::string, std::string> fixed_choices;    // CompileOptions::kernel_choices
    std::map<std::string, std::string> choices;          // kernel choices made, fixed ones too
    std::map<std::string, Storage> parameter_storage;    // CompileOptions::parameters
    Storage precision = Storage::f32;                    // CompileOptions::precision
    std::vector<bool> readable_in_16;                    // by graph::ValueId, where precision is 16 bits
    graph::NodeId current = 0;                           // the node being lowered
    std::map<std::string, std::string> states_of_inputs; // fields that are states: CompileOptions::state_inputs

    const View& view(graph::ValueId value) const { return views[value]; }
    // A dense arena tensor (scratch, or the place of a value). Where the value turns out to be an output or a gradient,
    // the resource is moved there afterwards, so nothing is copied.
    View allocate(const graph::Shape& shape, Storage storage, const std::string& name);
    // The view itself if it is contiguous, else a copy of it (appends a dispatch).
    View contiguous(const View& view);
    // The view, or the same view of a copy in 16 bits where the program's precision says so: of its whole tensor, made
    // when it is first asked for (appends a dispatch). Nothing may write to the tensor afterwards.
    View in_precision(const View& view);
    // Appends a dispatch that stores `from` (float32) in the storage of `to` (16 bits), both dense, of as many
    // elements.
    void narrow(const View& from, const View& to);
    // Appends a dispatch that copies `from` (any strides) into `to` (any strides, no element twice), same shape and
    // storage.
    void copy(const View& from, const View& to);
    // Valid until the next append.
    Dispatch& append(Dispatch dispatch);

    // Tensors that are not the arena's: found by kind and name, made on first use, dense.
    View parameter(const std::string& name, const graph::Shape& shape); // float32, or as parameter_storage says
    View named(ResourceKind kind, const std::string& name, const graph::Shape& shape, Storage storage);
    View constant(const std::string& name, const graph::Shape& shape, Storage storage, std::vector<std::byte> content);
    View step_scalar(const std::string& name, float initial); // float32 []
    View runtime();                                           // the RuntimeRecord, as u32 words [8]
    // Two words for the kernel of the current node, zero at the beginning of every replay: loads and stores outside of
    // their tensors (appends a dispatch).
    View access_counters();

    // Moves a dense arena tensor that fills its resource to another kind and name, so that what was written there needs
    // no copy. False, and nothing changed, where that cannot be.
    bool move_to(const View& view, ResourceKind kind, const std::string& name);

    // Which kernel, where several would do: what a run, a tuner or a test has fixed for the problem's key, else the
    // first candidate, which is noted. Never changes after step 0.
    const std::string& choose(KernelProblem problem);
    std::vector<KernelProblem> problems; // that nothing was fixed for

    std::map<std::string, float> scalar_initials;
    std::map<std::string, View> outputs;                       // every tensor of kind output, as its maker shaped it
    bool count_accesses = false;                               // CompileOptions::count_accesses
    bool reversed_invocations = false;                         // CompileOptions::reversed_invocations
    std::vector<std::pair<graph::NodeId, View>> access_counts; // of access_counters(), in order
    std::vector<std::string> ignored_inputs; // fields and step scalars of the graph that nothing here reads

private:
    std::map<std::pair<ResourceKind, std::string>, ResourceId> names_;
    std::map<ResourceId, ResourceId> narrowed_; // in_precision()
};

inline const char* const kRuntimeInput = "hekla.runtime";
inline const char* const kAccessPrefix = "hekla.accesses."; // outputs that count accesses
inline const char* const kScalarPrefix = "hekla.scalar.";   // inputs of kind `input` that are step scalars

} // namespace hekla::program
