// What lowering makes of a graph: a list of dispatches over resources, before anything has an address. Kernel families
// append to a Lowering; the memory plan then gives every resource a place, and program.cpp records.
#pragma once

#include "graph/graph.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
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
};

struct Resource {
    std::string name; // the parameter's, field's, output's or state's; for the arena a description
    ResourceKind kind = ResourceKind::arena;
    uint64_t bytes = 0;
    std::vector<std::byte> content; // constants only
};

// A tensor as a kernel sees it: a resource and strides in elements (0 repeats). Shape operations make views, not copies.
struct View {
    ResourceId resource = 0;
    uint64_t offset = 0; // elements
    Storage storage = Storage::f32;
    graph::Shape shape;
    std::array<int64_t, graph::kMaxRank> strides{};

    bool contiguous() const;
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

// An argument record (std430/scalar layout, as the shader declares it) under construction.
class Arguments {
public:
    void address(const View& view);                             // uint64: of element `offset`
    void address(ResourceId resource, uint64_t byte_offset);    // uint64; resource 0: the null address
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
    std::string shader;               // name in the embedded table, eg "matmul/direct", or "generated:HASH"
    std::string source;               // GLSL of a generated shader, else empty
    std::vector<uint32_t> constants;  // specialization constants 0, 1, ...
    uint32_t subgroup_size = 0;       // 0: the device's own
    Arguments arguments;
    uint64_t groups = 1;              // folded into three dimensions when recorded; shaders take group_index() of common.glsl
    std::vector<Access> accesses;
    double flops = 0;
    double bytes = 0;
    graph::NodeId node = 0;           // for names in dumps and timings

    void reads(const View& view);     // the smallest byte range that holds every element of the view
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
    bool cpu = false;                 // the device is a CPU: prefer kernels without shared memory
    bool generated_shaders = true;    // runtime GLSL is available
};

class Lowering {
public:
    const graph::Graph* graph = nullptr;
    Limits limits;
    std::vector<Resource> resources{1};
    std::vector<Dispatch> dispatches;
    std::vector<View> views;          // by graph::ValueId; resource 0: not made yet

    const View& view(graph::ValueId value) const { return views[value]; }
    // A dense arena tensor (scratch, or the place of a value).
    View allocate(const graph::Shape& shape, Storage storage, const std::string& name);
    // The view itself if it is contiguous, else a copy of it (appends a dispatch).
    View contiguous(const View& view);
    Dispatch& append(Dispatch dispatch);
};

} // namespace hekla::program
