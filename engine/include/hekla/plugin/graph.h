// hekla.graph/1: how a plugin describes a computation.
//
// Nothing is computed here: the host records the graph, checks it, differentiates it and executes it later, any
// number of times.
// operations.h has a typed inline function for every operation, based on emit().
//
// - The same inputs give the same graph: it does not depend on a clock, random numbers or state of the plugin.
//   [graph.1]
// - The first error sticks: every later call does nothing and returns 0, and status() or the host's own check after
//   build() reports the first error with its scope and operation. One check at the end is enough. [graph.2]
// - A value is used with the builder that made it, until its build call returns. [graph.3]
// - A shape has at most HK_MAX_RANK dimensions, each 0 or more, and no more than 2^46 elements in all. [graph.4]
// - Names of parameters, buffers, step scalars and offered ports are not empty and UTF-8. [graph.5]
// - Numbers are finite: of initializers and weights of losses. Buffers and constants hold no NaN. [graph.6]
// - Scopes nest and are closed, and regions are closed and do not nest. [graph.7]
// - A builder is not kept after the build call that it was given to. [graph.8]
// - A host takes 262,144 values (2^18) of one build call, or more. [graph.9]
// - Where a build call ends with an error of the graph, its own hk_error contains the place in the author's source;
//   the host shows both. [graph.10]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_GRAPH_H
#define HEKLA_PLUGIN_GRAPH_H

#include "error.h"

// Owned by the host; valid until the build call returns. [graph.8]
typedef struct hk_builder hk_builder;

// The purpose for which the network is described. The plugin describes the same network in each; the host removes
// what is not needed.
#define HK_MODE_TRAIN ((int32_t)0)
#define HK_MODE_EVALUATE ((int32_t)1)
#define HK_MODE_ENCODE ((int32_t)2)
// lengths are chunks of new tokens; attention with a cache name also sees the earlier ones
#define HK_MODE_DECODE ((int32_t)3)

// Initial values of a parameter that no file provides.
#define HK_INITIALIZE_CONSTANT ((int32_t)0) // the constant a
#define HK_INITIALIZE_NORMAL ((int32_t)1) // mean a, deviation b
#define HK_INITIALIZE_UNIFORM ((int32_t)2) // from a to b
#define HK_INITIALIZE_TRUNCATED_NORMAL ((int32_t)3) // mean a, deviation b, truncated at two deviations

// Flags of a parameter.
#define HK_PARAMETER_NO_DECAY ((uint32_t)1u) // no weight decay; by default parameters of rank 2 and more have it

// Types of attributes.
#define HK_ATTRIBUTE_INT ((int32_t)0)
#define HK_ATTRIBUTE_REAL ((int32_t)1)
#define HK_ATTRIBUTE_TEXT ((int32_t)2)
#define HK_ATTRIBUTE_INTS ((int32_t)3)
#define HK_ATTRIBUTE_REALS ((int32_t)4)

// One named attribute of an operation; only the members of its type are read. Copied by emit().
typedef struct hk_attribute {
    uint32_t struct_size;
    int32_t type;   // HK_ATTRIBUTE_*
    hk_string name;
    int64_t integer;
    double real;
    hk_string text;
    const int64_t* integers;
    const double* reals;
    uint64_t count; // number of integers or reals
} hk_attribute;

#define HK_GRAPH_INTERFACE "hekla.graph/1"

// dims: `rank` dimensions. [graph.4]
typedef struct hk_graph_interface {
    // HK_MODE_*.
    // [describe]
    int32_t(HK_ABI* mode)(hk_builder* builder);

    // 1 if the batch has this field, else 0.
    // [describe]
    int32_t(HK_ABI* has_field)(hk_builder* builder, hk_string field);

    // A field of the batch, with the kind and shape that the batch gives it (see shape()). A missing field is an
    // error that lists the existing ones.
    // [describe]
    hk_value(HK_ABI* input)(hk_builder* builder, hk_string field);

    // A trained tensor by its name in the files of the reference implementation. The same name gives the same
    // parameter; shape and flags must agree, and the first initializer is used. initializer: HK_INITIALIZE_*, with
    // its numbers a and b. flags: HK_PARAMETER_*.
    // [describe]
    hk_value(HK_ABI* parameter)(hk_builder* builder, hk_string name, const int64_t* dims, uint32_t rank,
                                int32_t initializer, double a, double b, uint32_t flags);

    // A tensor that is saved with the model and not trained. values: row-major, as many as the shape holds; copied.
    // [describe]
    hk_value(HK_ABI* buffer)(hk_builder* builder, hk_string name, int32_t kind, const int64_t* dims, uint32_t rank,
                             const double* values);

    // A tensor that the plugin computes (sinusoids, tables). values: row-major, as many as the shape holds; copied.
    // [describe]
    hk_value(HK_ABI* constant)(hk_builder* builder, int32_t kind, const int64_t* dims, uint32_t rank,
                               const double* values);

    // A tensor filled with one number.
    // [describe]
    hk_value(HK_ABI* fill)(hk_builder* builder, int32_t kind, const int64_t* dims, uint32_t rank, double value);

    // int32 [length]: start, start + step, ...
    // [describe]
    hk_value(HK_ABI* iota)(hk_builder* builder, int64_t length, int64_t start, int64_t step);

    // int32 [batch, length]: the position of each token in its row: 0, 1, ...; in decode mode counted from the tokens
    // in the cache.
    // [describe]
    hk_value(HK_ABI* positions)(hk_builder* builder, int64_t batch, int64_t length);

    // A float32 scalar [] that a schedule of the recipe or the host sets at each step, without describing the graph
    // again. Since minor 1, a training sets two names itself unless a schedule does: "train.step", the number of the
    // step from 0, and "train.progress", that number divided by the steps of the run; an evaluation has the values of
    // the last step.
    // [describe]
    hk_value(HK_ABI* step_scalar)(hk_builder* builder, hk_string name, double initial);

    // One operation by name and revision. Optional inputs may be 0; trailing ones may be left out. Attributes that
    // are left out have the defaults of that revision. Writes output_count values, 0 after an error. Returns HK_OK,
    // or the code of the sticky error.
    // [describe]
    int32_t(HK_ABI* emit)(hk_builder* builder, hk_string name, uint32_t revision, const hk_value* inputs,
                          uint32_t input_count, const hk_attribute* attributes, uint32_t attribute_count,
                          hk_value* outputs, uint32_t output_count);

    // The newest revision of an operation that this host supports; 0 if it does not support the operation.
    // [describe]
    uint32_t(HK_ABI* operation_revision)(hk_builder* builder, hk_string name);

    // Kind and shape of a value: writes *rank and that many of the HK_MAX_RANK elements of dims. Returns the kind, or
    // -1 after an error with nothing written.
    // [describe]
    int32_t(HK_ABI* shape)(hk_builder* builder, hk_value value, int64_t* dims, uint32_t* rank);

    // Opens a scope, whose name is used in messages, dumps and random streams: "block.3", "attention". [graph.7]
    // [describe]
    void(HK_ABI* scope_begin)(hk_builder* builder, hk_string name);

    // Closes the innermost scope.
    // [describe]
    void(HK_ABI* scope_end)(hk_builder* builder);

    // Opens a region whose activations may be dropped after use and recomputed for the gradient. [graph.7]
    // [describe]
    void(HK_ABI* recompute_begin)(hk_builder* builder);

    // Closes the region.
    // [describe]
    void(HK_ABI* recompute_end)(hk_builder* builder);

    // Offers a value as a port. An architecture offers values by name, eg: "hidden", "layer.3.hidden",
    // "encoder.hidden"; a head asks for them and offers others, eg: "logits"; an objective asks for both. A name can
    // be offered once.
    // [describe]
    void(HK_ABI* offer)(hk_builder* builder, hk_string port, hk_value value);

    // 1 if the port was offered, else 0.
    // [describe]
    int32_t(HK_ABI* has_port)(hk_builder* builder, hk_string port);

    // The value of a port. A port that was not offered is an error that lists the existing ones.
    // [describe]
    hk_value(HK_ABI* ask)(hk_builder* builder, hk_string port);

    // Adds weight * sum / count to the loss. sum and count are scalars []; count must depend on fields alone (number
    // of labels, rows), so that it is known for all micro-batches in advance: gradient accumulation then equals one
    // large batch. Where count is 0 the term is 0.
    // [describe]
    void(HK_ABI* loss)(hk_builder* builder, hk_string name, hk_value sum, hk_value count, double weight);

    // A number to report, sum / count over all batches of an evaluation, eg: "accuracy". Never differentiated.
    // [describe]
    void(HK_ABI* metric)(hk_builder* builder, hk_string name, hk_value sum, hk_value count);

    // Sets the plugin's own error as the sticky error. The message is copied.
    // [describe]
    void(HK_ABI* fail)(hk_builder* builder, int32_t code, hk_string message);

    // HK_OK or the code of the first error; error (may be null) gets its message.
    // [describe]
    int32_t(HK_ABI* status)(hk_builder* builder, hk_error* error);

#if HK_TARGET_ABI_MINOR >= 2
    // All positions that positions() has in rows of this length are less than this number, so that tables of
    // positions need no more rows: in decode mode the tokens that the cache holds, otherwise the length, both with
    // the positions of virtual tokens; INT64_MAX if the host does not know it. The field "position_ids" may have
    // others.
    // Since minor 2.
    // [describe]
    int64_t(HK_ABI* position_count)(hk_builder* builder, int64_t length);
#endif
} hk_graph_interface;

#endif
