// An operation of the plugin's own, by name and revision: "acme.swish_gate", 1.
//
// Architectures, objectives and heads of this or any other plugin emit it through hekla.graph/1 like a built-in one.
// It is checked, differentiated, planned, recomputed, scheduled, timed and shown in dumps like one.
// It is data: after the graph is described only the CPU reference is called, by tests and the interpreter. describe()
// gives inputs, attributes, outputs and the kernel; shape() gives, for the shapes and attributes of one use, the
// shapes of the outputs and the cost; gradient() describes, for one use, the gradients of its inputs as a graph of
// other operations; reference() computes one use in double precision.
// The kernel. `glsl` is text without #version, main or any buffer. It defines void operation(uint i), which is called
// once for every i from 0 to the use's invocations - 1, in any order, at the same time, and stores every element of
// every output once. It may define other functions. It can use (x: an input or output):
// float load_x(uint i): element i of input x in row-major order (an int input: int load_x)
// void store_y(uint i, float v): the same for output y (an int32 output: int v)
// uint x_size: elements of x. uint x_rank, x_dim(uint axis): rank and dimensions of x; 1 for axes past the rank
// a: attribute a, int for HK_ATTRIBUTE_INT, float for HK_ATTRIBUTE_REAL. a(uint i), a_size: for lists of them; texts
// are not available
// invocations: the number of invocations
// A load past the end gives the last element (0 of an empty input), a store past the end does nothing; both are
// counted if the host was asked to. A float input may be stored in 16 bits; load_x converts it. Sizes are arguments,
// not part of the text, so that another length needs no compilation. The host sets #line: messages show the lines of
// the author's source.
// With local_size > 0 a workgroup has that many invocations, i / local_size is its number and i % local_size the
// invocation in it; barrier() and `shared` arrays (16 KB at most [operation.9]) may be used.
// SPIR-V, for what GLSL cannot express: a Vulkan 1.2 compute shader, at most SPIR-V 1.5, entry point "main" with a
// local size of local_size x 1 x 1. There are no descriptors: its push constants are 8 bytes, the address of an
// argument block (PhysicalStorageBuffer), little-endian and without gaps, for I inputs and O outputs:
// 0: uint32 first, number of the first workgroup of this part of the dispatch
// 4: uint32 end, one past the last workgroup of the whole dispatch
// 8: uint64 address of each input, then of each output: dense, float32 or int32, row-major
// 8 + 8 (I + O): uint32 invocations
// 12 + 8 (I + O): for each input, then each output, 32 bytes: uint32 elements, rank, dims[6] (1 past the rank); then
// the attributes in their order: int32, float32, or a list: uint32 count and its elements
// The number of a workgroup is first + x + X (y + Y z), of gl_WorkGroupID (x, y, z) and gl_NumWorkGroups (X, Y, .);
// workgroups from `end` on have no work.
//
// - All functions are pure: the same arguments give the same results. [operation.1]
// - The id of an operation has the plugin's name before a dot: "acme.swish_gate". An older revision that is still
//   offered has the id "acme.swish_gate/1". [operation.2]
// - A change of meaning, defaults or result bits is a new revision. [operation.3]
// - Names of inputs, outputs and attributes are a small letter, then small letters, digits and single _; each is used
//   once, and none is a GLSL keyword or function. [operation.4]
// - `invocations` is a multiple of local_size. [operation.5]
// - SPIR-V must stay inside its tensors: its accesses are not clamped. [operation.6]
// - gradient() uses no fields, parameters, ports, losses or random numbers of its builder. [operation.7]
// - Every element of an output is stored once, by one invocation. [operation.8]
// - The `shared` arrays of a workgroup have at most 16,384 bytes together, which every device has. [operation.9]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_OPERATION_H
#define HEKLA_PLUGIN_OPERATION_H

#include "entry.h"
#include "graph.h"

// An input, by position in emit(). [operation.4]
typedef struct hk_operation_input {
    uint32_t struct_size;
    int32_t kind; // HK_KIND_FLOAT (takes float and float32) or HK_KIND_INT32
    hk_string name;
} hk_operation_input;

// An attribute. [operation.4]
typedef struct hk_operation_attribute {
    uint32_t struct_size;
    int32_t type;                 // HK_ATTRIBUTE_*
    hk_string name;
    const hk_attribute* fallback; // default value (its name is not read); null: the attribute is required
} hk_operation_attribute;

// The constant part of a revision. Elements of an array all have the struct_size of the first.
typedef struct hk_operation_description {
    uint32_t struct_size;
    uint32_t revision;        // from 1 [operation.3]
    uint32_t input_count;
    uint32_t attribute_count;
    uint32_t output_count;
    uint32_t local_size;      // 0: the host's choice; else 1 to 256
    const hk_operation_input* inputs;
    const hk_operation_attribute* attributes;
    const hk_string* outputs; // their names
    hk_string glsl;           // or empty, with spirv
    hk_string glsl_file;      // source file of the text, for messages; may be empty
    uint32_t glsl_line;       // line of the text's first line in glsl_file; 0: lines count from 1
    uint32_t reserved;        // zero
    const uint32_t* spirv;    // or null, with glsl
    uint64_t spirv_count;     // words
} hk_operation_description;

// A tensor of one use. In shape() there is no data.
typedef struct hk_operation_tensor {
    uint32_t struct_size;
    int32_t kind;      // HK_KIND_*
    uint32_t rank;
    uint32_t reserved; // zero
    int64_t dims[HK_MAX_RANK];
    double* data;      // row-major; integers are exact. Only an output's may be written to
} hk_operation_tensor;

// One use: the tensors, and every attribute with its value, in their order.
typedef struct hk_operation_use {
    uint32_t struct_size;
    uint32_t input_count;
    uint32_t attribute_count;
    uint32_t output_count;
    const hk_operation_tensor* inputs;
    const hk_attribute* attributes;
    hk_operation_tensor* outputs;
} hk_operation_use;

// Cost of a use. 0 selects the host's default: one invocation per element of the first output (rounded up to
// local_size), one FLOP per element of each output, every tensor read or written once.
typedef struct hk_operation_cost {
    uint32_t struct_size;
    uint32_t reserved;    // zero
    uint64_t invocations; // [operation.5]
    double flops;
    double bytes;
} hk_operation_cost;

// Values in the builder of the gradient's graph. output_gradients: 0 for int32 outputs, zeros for outputs that are
// not used.
typedef struct hk_operation_gradient {
    uint32_t struct_size;
    uint32_t input_count;
    uint32_t attribute_count;
    uint32_t output_count;
    const hk_value* inputs;
    const hk_attribute* attributes;
    const hk_value* outputs;
    const hk_value* output_gradients;
    // written by the plugin: a value of the input's shape, or 0 for no gradient, as after stop_gradient
    hk_value* input_gradients;
} hk_operation_gradient;

#define HK_OPERATION_INTERFACE "hekla.operation/1"

// [operation.1] [operation.2]
typedef struct hk_operation {
    // Valid until deinit() returns.
    // [any-thread]
    const hk_operation_description*(HK_ABI* describe)(void);

    // Writes kind, rank and dims of every output (all are float, rank 0 before), and the cost; or returns an error
    // for the shapes or attributes. Called whenever the operation is emitted, after the host has checked the kinds of
    // inputs and types of attributes.
    // [any-thread]
    int32_t(HK_ABI* shape)(const hk_operation_use* use, hk_operation_cost* cost, hk_error* error);

    // Describes the gradients with operations of `builder`, including plugins' own. Null: the operation has no
    // gradient, and its inputs must not depend on trained parameters. [operation.7]
    // [describe]
    int32_t(HK_ABI* gradient)(hk_builder* builder, const hk_operation_gradient* use, hk_error* error);

    // Computes the outputs, whose data is zeros at first. The kernel is checked against it.
    // [any-thread]
    int32_t(HK_ABI* reference)(const hk_operation_use* use, hk_error* error);
} hk_operation;

#endif
