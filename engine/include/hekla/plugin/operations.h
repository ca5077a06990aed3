// Made by tools/generate_abi from engine/graph/operations.json. Edit that instead.
// A typed call for every operation; each is emit() of hekla.graph/1 and nothing else. Optional inputs and attributes
// are in an options struct: start from hk_NAME_defaults(), or pass null for the defaults.
#ifndef HEKLA_PLUGIN_OPERATIONS_H
#define HEKLA_PLUGIN_OPERATIONS_H

#include "graph.h"

#include <string.h>

static inline hk_string hk_text(const char* text) {
    hk_string s;
    s.data = text;
    s.size = strlen(text);
    return s;
}

static inline hk_attribute hk_attribute_int(const char* name, int64_t value) {
    hk_attribute a;
    memset(&a, 0, sizeof a);
    a.struct_size = (uint32_t)sizeof a;
    a.type = HK_ATTRIBUTE_INT;
    a.name = hk_text(name);
    a.integer = value;
    return a;
}

static inline hk_attribute hk_attribute_real(const char* name, double value) {
    hk_attribute a = hk_attribute_int(name, 0);
    a.type = HK_ATTRIBUTE_REAL;
    a.real = value;
    return a;
}

static inline hk_attribute hk_attribute_text(const char* name, hk_string value) {
    hk_attribute a = hk_attribute_int(name, 0);
    a.type = HK_ATTRIBUTE_TEXT;
    a.text = value;
    return a;
}

static inline hk_attribute hk_attribute_ints(const char* name, const int64_t* values, uint64_t count) {
    hk_attribute a = hk_attribute_int(name, 0);
    a.type = HK_ATTRIBUTE_INTS;
    a.integers = values;
    a.count = count;
    return a;
}

// The same elements in row-major order under another shape.
static inline hk_value hk_reshape(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* shape, uint64_t shape_count) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_ints("shape", shape, shape_count);
    hk_value output = 0;
    graph->emit(builder, hk_text("reshape"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// y's dimension i is x's dimension permutation[i].
static inline hk_value hk_transpose(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* permutation, uint64_t permutation_count) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_ints("permutation", permutation, permutation_count);
    hk_value output = 0;
    graph->emit(builder, hk_text("transpose"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_slice_options {
    int64_t stride;
} hk_slice_options;

static inline hk_slice_options hk_slice_defaults(void) {
    hk_slice_options options;
    memset(&options, 0, sizeof options);
    options.stride = 1;
    return options;
}

// Elements start, start+stride, ... (length of them) of one axis.
static inline hk_value hk_slice(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, int64_t start, int64_t length, const hk_slice_options* options) {
    const hk_slice_options chosen = options ? *options : hk_slice_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("start", start);
    attributes[2] = hk_attribute_int("length", length);
    attributes[3] = hk_attribute_int("stride", chosen.stride);
    hk_value output = 0;
    graph->emit(builder, hk_text("slice"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}

// Joins values along an axis; the other dimensions agree.
static inline hk_value hk_concat(const hk_graph_interface* graph, hk_builder* builder, const hk_value* parts, uint32_t parts_count, int64_t axis) {
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("concat"), 1, parts, parts_count, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_pad_options {
    int64_t before;
    int64_t after;
    double value;
} hk_pad_options;

static inline hk_pad_options hk_pad_defaults(void) {
    hk_pad_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Adds before and after elements of a value to one axis.
static inline hk_value hk_pad(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, const hk_pad_options* options) {
    const hk_pad_options chosen = options ? *options : hk_pad_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("before", chosen.before);
    attributes[2] = hk_attribute_int("after", chosen.after);
    attributes[3] = hk_attribute_real("value", chosen.value);
    hk_value output = 0;
    graph->emit(builder, hk_text("pad"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}

// Repeats x to a shape by NumPy's rule (dimensions align at the end, 1 repeats).
static inline hk_value hk_broadcast(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* shape, uint64_t shape_count) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_ints("shape", shape, shape_count);
    hk_value output = 0;
    graph->emit(builder, hk_text("broadcast"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// Reverses one axis.
static inline hk_value hk_flip(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("flip"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// a + b; shapes broadcast by NumPy's rule, as in every pointwise operation.
static inline hk_value hk_add(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("add"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// a - b.
static inline hk_value hk_sub(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("sub"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// a * b.
static inline hk_value hk_mul(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("mul"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// a / b; for integers the quotient rounded to zero.
static inline hk_value hk_div(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("div"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// a to the power b.
static inline hk_value hk_pow(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("pow"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// The smaller of a and b; at a tie each gets half the gradient.
static inline hk_value hk_minimum(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("minimum"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// The larger of a and b; at a tie each gets half the gradient.
static inline hk_value hk_maximum(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b) {
    hk_value inputs[] = {a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("maximum"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}

// 1 where the relation holds, else 0, as int32. relation: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5
// greater or equal.
static inline hk_value hk_compare(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b, int64_t relation) {
    hk_value inputs[] = {a, b};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("relation", relation);
    hk_value output = 0;
    graph->emit(builder, hk_text("compare"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}

// a where condition is not 0, else b.
static inline hk_value hk_where(const hk_graph_interface* graph, hk_builder* builder, hk_value condition, hk_value a, hk_value b) {
    hk_value inputs[] = {condition, a, b};
    hk_value output = 0;
    graph->emit(builder, hk_text("where"), 1, inputs, 3, NULL, 0, &output, 1);
    return output;
}

// -x.
static inline hk_value hk_neg(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("neg"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// |x|; gradient 0 at 0.
static inline hk_value hk_abs(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("abs"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// -1, 0 or 1; no gradient.
static inline hk_value hk_sign(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("sign"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// The largest integer not above x; no gradient.
static inline hk_value hk_floor(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("floor"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// The nearest integer, ties to even; no gradient.
static inline hk_value hk_round(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("round"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// e to the x.
static inline hk_value hk_exp(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("exp"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// Natural logarithm.
static inline hk_value hk_log(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("log"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// log(1 + x), exact near 0.
static inline hk_value hk_log1p(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("log1p"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// Square root.
static inline hk_value hk_sqrt(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("sqrt"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// 1 / sqrt(x).
static inline hk_value hk_rsqrt(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("rsqrt"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// Sine of radians.
static inline hk_value hk_sin(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("sin"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// Cosine of radians.
static inline hk_value hk_cos(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("cos"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// The error function.
static inline hk_value hk_erf(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("erf"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// Hyperbolic tangent.
static inline hk_value hk_tanh(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("tanh"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// 1 / (1 + exp(-x)).
static inline hk_value hk_sigmoid(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("sigmoid"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// log(1 + exp(x)).
static inline hk_value hk_softplus(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("softplus"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// -log(1 + exp(-x)).
static inline hk_value hk_log_sigmoid(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("log_sigmoid"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// max(x, 0); gradient 0 at 0.
static inline hk_value hk_relu(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("relu"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

typedef struct hk_gelu_options {
    int64_t tanh_approximation;
} hk_gelu_options;

static inline hk_gelu_options hk_gelu_defaults(void) {
    hk_gelu_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// x times the normal distribution function (Hendrycks and Gimpel 2016): exact by erf, or the tanh approximation that
// GPT-2 uses.
static inline hk_value hk_gelu(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_gelu_options* options) {
    const hk_gelu_options chosen = options ? *options : hk_gelu_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("tanh_approximation", chosen.tanh_approximation);
    hk_value output = 0;
    graph->emit(builder, hk_text("gelu"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// x * sigmoid(x).
static inline hk_value hk_silu(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("silu"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

// x limited to [low, high]; gradient passes between the bounds, not at them.
static inline hk_value hk_clamp(const hk_graph_interface* graph, hk_builder* builder, hk_value x, double low, double high) {
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_real("low", low);
    attributes[1] = hk_attribute_real("high", high);
    hk_value output = 0;
    graph->emit(builder, hk_text("clamp"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

// Another kind: 0 float, 1 float32, 2 int32 (rounded to zero; no gradient).
static inline hk_value hk_cast(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t kind) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("kind", kind);
    hk_value output = 0;
    graph->emit(builder, hk_text("cast"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_dropout_options {
    int64_t stream;
} hk_dropout_options;

static inline hk_dropout_options hk_dropout_defaults(void) {
    hk_dropout_options options;
    memset(&options, 0, sizeof options);
    options.stream = -1;
    return options;
}

// 0 with the given probability, else x / (1 - probability), drawn by (seed, step, stream, example). In modes other
// than train it is x itself. stream -1: the builder derives it from the scope.
static inline hk_value hk_dropout(const hk_graph_interface* graph, hk_builder* builder, hk_value x, double probability, const hk_dropout_options* options) {
    const hk_dropout_options chosen = options ? *options : hk_dropout_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_real("probability", probability);
    attributes[1] = hk_attribute_int("stream", chosen.stream);
    hk_value output = 0;
    graph->emit(builder, hk_text("dropout"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

// x, without a gradient.
static inline hk_value hk_stop_gradient(const hk_graph_interface* graph, hk_builder* builder, hk_value x) {
    hk_value inputs[] = {x};
    hk_value output = 0;
    graph->emit(builder, hk_text("stop_gradient"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}

typedef struct hk_sum_options {
    int64_t keep;
} hk_sum_options;

static inline hk_sum_options hk_sum_defaults(void) {
    hk_sum_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Sum over axes; the axes are removed, or kept as 1 with keep.
static inline hk_value hk_sum(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* axes, uint64_t axes_count, const hk_sum_options* options) {
    const hk_sum_options chosen = options ? *options : hk_sum_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("axes", axes, axes_count);
    attributes[1] = hk_attribute_int("keep", chosen.keep);
    hk_value output = 0;
    graph->emit(builder, hk_text("sum"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_mean_options {
    int64_t keep;
} hk_mean_options;

static inline hk_mean_options hk_mean_defaults(void) {
    hk_mean_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Mean over axes.
static inline hk_value hk_mean(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* axes, uint64_t axes_count, const hk_mean_options* options) {
    const hk_mean_options chosen = options ? *options : hk_mean_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("axes", axes, axes_count);
    attributes[1] = hk_attribute_int("keep", chosen.keep);
    hk_value output = 0;
    graph->emit(builder, hk_text("mean"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_max_options {
    int64_t keep;
} hk_max_options;

static inline hk_max_options hk_max_defaults(void) {
    hk_max_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Maximum over axes; at ties the gradient is shared evenly.
static inline hk_value hk_max(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* axes, uint64_t axes_count, const hk_max_options* options) {
    const hk_max_options chosen = options ? *options : hk_max_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("axes", axes, axes_count);
    attributes[1] = hk_attribute_int("keep", chosen.keep);
    hk_value output = 0;
    graph->emit(builder, hk_text("max"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_logsumexp_options {
    int64_t keep;
} hk_logsumexp_options;

static inline hk_logsumexp_options hk_logsumexp_defaults(void) {
    hk_logsumexp_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// log of the sum of exp over axes, without overflow.
static inline hk_value hk_logsumexp(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* axes, uint64_t axes_count, const hk_logsumexp_options* options) {
    const hk_logsumexp_options chosen = options ? *options : hk_logsumexp_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("axes", axes, axes_count);
    attributes[1] = hk_attribute_int("keep", chosen.keep);
    hk_value output = 0;
    graph->emit(builder, hk_text("logsumexp"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_argmax_options {
    int64_t axis;
} hk_argmax_options;

static inline hk_argmax_options hk_argmax_defaults(void) {
    hk_argmax_options options;
    memset(&options, 0, sizeof options);
    options.axis = -1;
    return options;
}

// int32 index of the first maximum along an axis, which is removed.
static inline hk_value hk_argmax(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_argmax_options* options) {
    const hk_argmax_options chosen = options ? *options : hk_argmax_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", chosen.axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("argmax"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_cumsum_options {
    int64_t reverse;
} hk_cumsum_options;

static inline hk_cumsum_options hk_cumsum_defaults(void) {
    hk_cumsum_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Running sum along an axis, from the other end with reverse.
static inline hk_value hk_cumsum(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, const hk_cumsum_options* options) {
    const hk_cumsum_options chosen = options ? *options : hk_cumsum_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("cumsum"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_cumprod_options {
    int64_t reverse;
} hk_cumprod_options;

static inline hk_cumprod_options hk_cumprod_defaults(void) {
    hk_cumprod_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Running product along an axis, from the other end with reverse.
static inline hk_value hk_cumprod(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, const hk_cumprod_options* options) {
    const hk_cumprod_options chosen = options ? *options : hk_cumprod_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("cumprod"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_cummax_options {
    int64_t reverse;
} hk_cummax_options;

static inline hk_cummax_options hk_cummax_defaults(void) {
    hk_cummax_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Running maximum along an axis, from the other end with reverse, and the int32 index of the element that holds it:
// the latest one at ties. That element gets the gradient.
static inline int32_t hk_cummax(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, const hk_cummax_options* options, hk_value outputs[2]) {
    const hk_cummax_options chosen = options ? *options : hk_cummax_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    return graph->emit(builder, hk_text("cummax"), 1, inputs, 1, attributes, 2, outputs, 2);
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_logcumsumexp_options {
    int64_t reverse;
} hk_logcumsumexp_options;

static inline hk_logcumsumexp_options hk_logcumsumexp_defaults(void) {
    hk_logcumsumexp_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// log of the running sum of exp along an axis, from the other end with reverse, without overflow.
static inline hk_value hk_logcumsumexp(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t axis, const hk_logcumsumexp_options* options) {
    const hk_logcumsumexp_options chosen = options ? *options : hk_logcumsumexp_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("logcumsumexp"), 1, inputs, 1, attributes, 2, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_scan_linear_options {
    hk_value initial;
    int64_t reverse;
} hk_scan_linear_options;

static inline hk_scan_linear_options hk_scan_linear_defaults(void) {
    hk_scan_linear_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// A linear recurrence along an axis, from the other end with reverse (minGRU, RetNet, state spaces): y[i] = a[i] y[i
// - 1] + x[i]. a has the shape of x. initial is y before the first element, of the shape of x without the axis;
// without it the first a is not read.
static inline hk_value hk_scan_linear(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value a, int64_t axis, const hk_scan_linear_options* options) {
    const hk_scan_linear_options chosen = options ? *options : hk_scan_linear_defaults();
    hk_value inputs[] = {x, a, chosen.initial};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("axis", axis);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("scan_linear"), 1, inputs, 3, attributes, 2, &output, 1);
    return output;
}
#endif

// The k largest of the last axis, descending, first index first at ties, and their int32 indices.
static inline int32_t hk_top_k(const hk_graph_interface* graph, hk_builder* builder, hk_value x, int64_t k, hk_value outputs[2]) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("k", k);
    return graph->emit(builder, hk_text("top_k"), 1, inputs, 1, attributes, 1, outputs, 2);
}

typedef struct hk_random_uniform_options {
    int64_t stream;
} hk_random_uniform_options;

static inline hk_random_uniform_options hk_random_uniform_defaults(void) {
    hk_random_uniform_options options;
    memset(&options, 0, sizeof options);
    options.stream = -1;
    return options;
}

// Uniform in [0, 1), drawn by (seed, step, stream, example). stream as in dropout.
static inline hk_value hk_random_uniform(const hk_graph_interface* graph, hk_builder* builder, const int64_t* shape, uint64_t shape_count, const hk_random_uniform_options* options) {
    const hk_random_uniform_options chosen = options ? *options : hk_random_uniform_defaults();
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("shape", shape, shape_count);
    attributes[1] = hk_attribute_int("stream", chosen.stream);
    hk_value output = 0;
    graph->emit(builder, hk_text("random_uniform"), 1, NULL, 0, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_random_normal_options {
    int64_t stream;
} hk_random_normal_options;

static inline hk_random_normal_options hk_random_normal_defaults(void) {
    hk_random_normal_options options;
    memset(&options, 0, sizeof options);
    options.stream = -1;
    return options;
}

// Standard normal, drawn by (seed, step, stream, example).
static inline hk_value hk_random_normal(const hk_graph_interface* graph, hk_builder* builder, const int64_t* shape, uint64_t shape_count, const hk_random_normal_options* options) {
    const hk_random_normal_options chosen = options ? *options : hk_random_normal_defaults();
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_ints("shape", shape, shape_count);
    attributes[1] = hk_attribute_int("stream", chosen.stream);
    hk_value output = 0;
    graph->emit(builder, hk_text("random_normal"), 1, NULL, 0, attributes, 2, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_truncated_normal_options {
    double low;
    double high;
    int64_t stream;
} hk_truncated_normal_options;

static inline hk_truncated_normal_options hk_truncated_normal_defaults(void) {
    hk_truncated_normal_options options;
    memset(&options, 0, sizeof options);
    options.low = -2.0;
    options.high = 2.0;
    options.stream = -1;
    return options;
}

// Standard normal within [low, high], as if numbers outside were drawn again (torch.nn.init.trunc_normal_ with mean 0
// and deviation 1), by the inverse of the distribution function of one number for each element, drawn by (seed, step,
// stream, example).
static inline hk_value hk_truncated_normal(const hk_graph_interface* graph, hk_builder* builder, const int64_t* shape, uint64_t shape_count, const hk_truncated_normal_options* options) {
    const hk_truncated_normal_options chosen = options ? *options : hk_truncated_normal_defaults();
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("shape", shape, shape_count);
    attributes[1] = hk_attribute_real("low", chosen.low);
    attributes[2] = hk_attribute_real("high", chosen.high);
    attributes[3] = hk_attribute_int("stream", chosen.stream);
    hk_value output = 0;
    graph->emit(builder, hk_text("truncated_normal"), 1, NULL, 0, attributes, 4, &output, 1);
    return output;
}
#endif

typedef struct hk_matmul_options {
    int64_t transpose_a;
    int64_t transpose_b;
} hk_matmul_options;

static inline hk_matmul_options hk_matmul_defaults(void) {
    hk_matmul_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// a [..., M, K] x b [..., K, N] -> [..., M, N]; leading dimensions broadcast; a transpose flag: the last two
// dimensions are swapped in memory.
static inline hk_value hk_matmul(const hk_graph_interface* graph, hk_builder* builder, hk_value a, hk_value b, const hk_matmul_options* options) {
    const hk_matmul_options chosen = options ? *options : hk_matmul_defaults();
    hk_value inputs[] = {a, b};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("transpose_a", chosen.transpose_a);
    attributes[1] = hk_attribute_int("transpose_b", chosen.transpose_b);
    hk_value output = 0;
    graph->emit(builder, hk_text("matmul"), 1, inputs, 2, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_linear_options {
    hk_value bias;
    int64_t input_first;
} hk_linear_options;

static inline hk_linear_options hk_linear_defaults(void) {
    hk_linear_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// x [..., in] -> [..., out]: x W + bias. weight is [out, in], or [in, out] with input_first (GPT-2's Conv1D). A
// linear whose weight is a parameter is a site under that name.
static inline hk_value hk_linear(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value weight, const hk_linear_options* options) {
    const hk_linear_options chosen = options ? *options : hk_linear_defaults();
    hk_value inputs[] = {x, weight, chosen.bias};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("input_first", chosen.input_first);
    hk_value output = 0;
    graph->emit(builder, hk_text("linear"), 1, inputs, 3, attributes, 1, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_row_linear_options {
    int64_t input_first;
} hk_row_linear_options;

static inline hk_row_linear_options hk_row_linear_defaults(void) {
    hk_row_linear_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// linear with a weight of its own for every row of the batch: x [B, ..., in], weights [E, out, in] ([E, in, out] with
// input_first), rows [B] int32 -> y [B, ..., out]. Row b uses weights[rows[b]]; where rows[b] is -1, y is 0.
static inline hk_value hk_row_linear(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value weights, hk_value rows, const hk_row_linear_options* options) {
    const hk_row_linear_options chosen = options ? *options : hk_row_linear_defaults();
    hk_value inputs[] = {x, weights, rows};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("input_first", chosen.input_first);
    hk_value output = 0;
    graph->emit(builder, hk_text("row_linear"), 1, inputs, 3, attributes, 1, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_conv2d_options {
    hk_value bias;
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    const int64_t* dilation;
    uint64_t dilation_count;
    int64_t groups;
} hk_conv2d_options;

static inline hk_conv2d_options hk_conv2d_defaults(void) {
    hk_conv2d_options options;
    memset(&options, 0, sizeof options);
    options.groups = 1;
    return options;
}

// x [B, H, W, C], weight [O, C / groups, kh, kw] as PyTorch stores it, bias [O] -> [B, H', W', O]: y[b, i, j, o] =
// bias[o] + sum over c, u, v of weight[o, c, u, v] x[b, i stride + u dilation - padding, j stride + v dilation -
// padding, c], where x is 0 outside. H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down.
// Channels are the last dimension, as in linear: transpose PyTorch's [B, C, H, W] by {0, 2, 3, 1}. stride, padding
// and dilation are one number, or one for H and one for W; [] is 1, 0 and 1. Output channel o reads the channels of
// its group, o / (O / groups).
static inline hk_value hk_conv2d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value weight, const hk_conv2d_options* options) {
    const hk_conv2d_options chosen = options ? *options : hk_conv2d_defaults();
    hk_value inputs[] = {x, weight, chosen.bias};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[1] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[2] = hk_attribute_ints("dilation", chosen.dilation, chosen.dilation_count);
    attributes[3] = hk_attribute_int("groups", chosen.groups);
    hk_value output = 0;
    graph->emit(builder, hk_text("conv2d"), 1, inputs, 3, attributes, 4, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_conv1d_options {
    hk_value bias;
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    const int64_t* dilation;
    uint64_t dilation_count;
    int64_t groups;
} hk_conv1d_options;

static inline hk_conv1d_options hk_conv1d_defaults(void) {
    hk_conv1d_options options;
    memset(&options, 0, sizeof options);
    options.groups = 1;
    return options;
}

// conv2d along one dimension: x [B, T, C], weight [O, C / groups, K], bias [O] -> [B, T', O]. Without later tokens (a
// causal convolution): pad x at the front instead of padding.
static inline hk_value hk_conv1d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value weight, const hk_conv1d_options* options) {
    const hk_conv1d_options chosen = options ? *options : hk_conv1d_defaults();
    hk_value inputs[] = {x, weight, chosen.bias};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[1] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[2] = hk_attribute_ints("dilation", chosen.dilation, chosen.dilation_count);
    attributes[3] = hk_attribute_int("groups", chosen.groups);
    hk_value output = 0;
    graph->emit(builder, hk_text("conv1d"), 1, inputs, 3, attributes, 4, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_max_pool2d_options {
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    const int64_t* dilation;
    uint64_t dilation_count;
} hk_max_pool2d_options;

static inline hk_max_pool2d_options hk_max_pool2d_defaults(void) {
    hk_max_pool2d_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// The largest element of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d.
// Padding is never the largest. kernel, stride, padding and dilation are one number, or one for H and one for W;
// stride [] is the kernel. The first of equal elements gets the gradient; NaN is larger than every number.
static inline hk_value hk_max_pool2d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* kernel, uint64_t kernel_count, const hk_max_pool2d_options* options) {
    const hk_max_pool2d_options chosen = options ? *options : hk_max_pool2d_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("kernel", kernel, kernel_count);
    attributes[1] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[2] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[3] = hk_attribute_ints("dilation", chosen.dilation, chosen.dilation_count);
    hk_value output = 0;
    graph->emit(builder, hk_text("max_pool2d"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_max_pool1d_options {
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    const int64_t* dilation;
    uint64_t dilation_count;
} hk_max_pool1d_options;

static inline hk_max_pool1d_options hk_max_pool1d_defaults(void) {
    hk_max_pool1d_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// max_pool2d along one dimension: x [B, T, C] -> [B, T', C].
static inline hk_value hk_max_pool1d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* kernel, uint64_t kernel_count, const hk_max_pool1d_options* options) {
    const hk_max_pool1d_options chosen = options ? *options : hk_max_pool1d_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("kernel", kernel, kernel_count);
    attributes[1] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[2] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[3] = hk_attribute_ints("dilation", chosen.dilation, chosen.dilation_count);
    hk_value output = 0;
    graph->emit(builder, hk_text("max_pool1d"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_avg_pool2d_options {
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    int64_t count_padding;
} hk_avg_pool2d_options;

static inline hk_avg_pool2d_options hk_avg_pool2d_defaults(void) {
    hk_avg_pool2d_options options;
    memset(&options, 0, sizeof options);
    options.count_padding = 1;
    return options;
}

// The mean of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d. Padding counts
// as zeros; with count_padding = 0 the mean is over the elements of x alone. stride [] is the kernel.
static inline hk_value hk_avg_pool2d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* kernel, uint64_t kernel_count, const hk_avg_pool2d_options* options) {
    const hk_avg_pool2d_options chosen = options ? *options : hk_avg_pool2d_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("kernel", kernel, kernel_count);
    attributes[1] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[2] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[3] = hk_attribute_int("count_padding", chosen.count_padding);
    hk_value output = 0;
    graph->emit(builder, hk_text("avg_pool2d"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_avg_pool1d_options {
    const int64_t* stride;
    uint64_t stride_count;
    const int64_t* padding;
    uint64_t padding_count;
    int64_t count_padding;
} hk_avg_pool1d_options;

static inline hk_avg_pool1d_options hk_avg_pool1d_defaults(void) {
    hk_avg_pool1d_options options;
    memset(&options, 0, sizeof options);
    options.count_padding = 1;
    return options;
}

// avg_pool2d along one dimension: x [B, T, C] -> [B, T', C].
static inline hk_value hk_avg_pool1d(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const int64_t* kernel, uint64_t kernel_count, const hk_avg_pool1d_options* options) {
    const hk_avg_pool1d_options chosen = options ? *options : hk_avg_pool1d_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[4];
    attributes[0] = hk_attribute_ints("kernel", kernel, kernel_count);
    attributes[1] = hk_attribute_ints("stride", chosen.stride, chosen.stride_count);
    attributes[2] = hk_attribute_ints("padding", chosen.padding, chosen.padding_count);
    attributes[3] = hk_attribute_int("count_padding", chosen.count_padding);
    hk_value output = 0;
    graph->emit(builder, hk_text("avg_pool1d"), 1, inputs, 1, attributes, 4, &output, 1);
    return output;
}
#endif

typedef struct hk_layer_norm_options {
    hk_value gain;
    hk_value bias;
    double epsilon;
} hk_layer_norm_options;

static inline hk_layer_norm_options hk_layer_norm_defaults(void) {
    hk_layer_norm_options options;
    memset(&options, 0, sizeof options);
    options.epsilon = 1e-05;
    return options;
}

// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba et al. 2016); statistics in float32.
static inline hk_value hk_layer_norm(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_layer_norm_options* options) {
    const hk_layer_norm_options chosen = options ? *options : hk_layer_norm_defaults();
    hk_value inputs[] = {x, chosen.gain, chosen.bias};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_real("epsilon", chosen.epsilon);
    hk_value output = 0;
    graph->emit(builder, hk_text("layer_norm"), 1, inputs, 3, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_rms_norm_options {
    hk_value gain;
    double epsilon;
} hk_rms_norm_options;

static inline hk_rms_norm_options hk_rms_norm_defaults(void) {
    hk_rms_norm_options options;
    memset(&options, 0, sizeof options);
    options.epsilon = 1e-06;
    return options;
}

// x / sqrt(mean(x^2) + epsilon) * gain over the last axis (Zhang and Sennrich 2019).
static inline hk_value hk_rms_norm(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_rms_norm_options* options) {
    const hk_rms_norm_options chosen = options ? *options : hk_rms_norm_defaults();
    hk_value inputs[] = {x, chosen.gain};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_real("epsilon", chosen.epsilon);
    hk_value output = 0;
    graph->emit(builder, hk_text("rms_norm"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_softmax_options {
    int64_t axis;
} hk_softmax_options;

static inline hk_softmax_options hk_softmax_defaults(void) {
    hk_softmax_options options;
    memset(&options, 0, sizeof options);
    options.axis = -1;
    return options;
}

// exp(x) / sum exp(x) along an axis.
static inline hk_value hk_softmax(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_softmax_options* options) {
    const hk_softmax_options chosen = options ? *options : hk_softmax_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", chosen.axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("softmax"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_log_softmax_options {
    int64_t axis;
} hk_log_softmax_options;

static inline hk_log_softmax_options hk_log_softmax_defaults(void) {
    hk_log_softmax_options options;
    memset(&options, 0, sizeof options);
    options.axis = -1;
    return options;
}

// x - logsumexp(x) along an axis.
static inline hk_value hk_log_softmax(const hk_graph_interface* graph, hk_builder* builder, hk_value x, const hk_log_softmax_options* options) {
    const hk_log_softmax_options chosen = options ? *options : hk_log_softmax_defaults();
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", chosen.axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("log_softmax"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_rotary_options {
    hk_value positions;
    int64_t interleaved;
    int64_t inverse;
} hk_rotary_options;

static inline hk_rotary_options hk_rotary_defaults(void) {
    hk_rotary_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// Rotates pairs of x [B, H, T, D] by position (Su et al. 2021): cosine and sine are tables [P, R/2], R <= D; the
// first R elements are rotated, pairs are (i, i + R/2), or (2i, 2i + 1) with interleaved. positions [B, T] int32
// picks the row (default: the token's position, cache included). inverse: rotates back.
static inline hk_value hk_rotary(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value cosine, hk_value sine, const hk_rotary_options* options) {
    const hk_rotary_options chosen = options ? *options : hk_rotary_defaults();
    hk_value inputs[] = {x, cosine, sine, chosen.positions};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("interleaved", chosen.interleaved);
    attributes[1] = hk_attribute_int("inverse", chosen.inverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("rotary"), 1, inputs, 4, attributes, 2, &output, 1);
    return output;
}

typedef struct hk_embedding_options {
    int64_t no_gradient_id;
} hk_embedding_options;

static inline hk_embedding_options hk_embedding_defaults(void) {
    hk_embedding_options options;
    memset(&options, 0, sizeof options);
    options.no_gradient_id = -1;
    return options;
}

// table [V, D], ids [...] int32 -> [..., D]. The row no_gradient_id gets no gradient through the lookup.
static inline hk_value hk_embedding(const hk_graph_interface* graph, hk_builder* builder, hk_value table, hk_value ids, const hk_embedding_options* options) {
    const hk_embedding_options chosen = options ? *options : hk_embedding_defaults();
    hk_value inputs[] = {table, ids};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("no_gradient_id", chosen.no_gradient_id);
    hk_value output = 0;
    graph->emit(builder, hk_text("embedding"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}

typedef struct hk_gather_options {
    int64_t batch_dimensions;
} hk_gather_options;

static inline hk_gather_options hk_gather_defaults(void) {
    hk_gather_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// x [B..., N, R...], indices [B..., K...] int32 -> [B..., K..., R...], with batch_dimensions leading dimensions in
// common.
static inline hk_value hk_gather(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value indices, const hk_gather_options* options) {
    const hk_gather_options chosen = options ? *options : hk_gather_defaults();
    hk_value inputs[] = {x, indices};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("batch_dimensions", chosen.batch_dimensions);
    hk_value output = 0;
    graph->emit(builder, hk_text("gather"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_scatter_add_options {
    int64_t batch_dimensions;
} hk_scatter_add_options;

static inline hk_scatter_add_options hk_scatter_add_defaults(void) {
    hk_scatter_add_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// x [B..., N, R...] with values [B..., K..., R...] added to the rows that indices [B..., K...] int32 name, with
// batch_dimensions leading dimensions in common, as gather reads them. What is added to one row is summed in the
// order of the indices, so that every run gives the same bits. Indices are 0 to N - 1; kernels leave out the values
// of others.
static inline hk_value hk_scatter_add(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value indices, hk_value values, const hk_scatter_add_options* options) {
    const hk_scatter_add_options chosen = options ? *options : hk_scatter_add_defaults();
    hk_value inputs[] = {x, indices, values};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("batch_dimensions", chosen.batch_dimensions);
    hk_value output = 0;
    graph->emit(builder, hk_text("scatter_add"), 1, inputs, 3, attributes, 1, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_scatter_options {
    int64_t batch_dimensions;
} hk_scatter_options;

static inline hk_scatter_options hk_scatter_defaults(void) {
    hk_scatter_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// As scatter_add, but the values replace the rows. The indices of a batch must differ: duplicates are refused in a
// constant and by the interpreter, and kernels take the last one.
static inline hk_value hk_scatter(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value indices, hk_value values, const hk_scatter_options* options) {
    const hk_scatter_options chosen = options ? *options : hk_scatter_defaults();
    hk_value inputs[] = {x, indices, values};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("batch_dimensions", chosen.batch_dimensions);
    hk_value output = 0;
    graph->emit(builder, hk_text("scatter"), 1, inputs, 3, attributes, 1, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// indices [...] int32 -> [..., size] int32: 1 at the index, else 0; any other index gives zeros. The graph has it as
// compare of the indices with 0, 1, ...
static inline hk_value hk_one_hot(const hk_graph_interface* graph, hk_builder* builder, hk_value indices, int64_t size) {
    hk_value inputs[] = {indices};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("size", size);
    hk_value output = 0;
    graph->emit(builder, hk_text("one_hot"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}
#endif

typedef struct hk_attention_options {
    hk_value bias;
    hk_value distance_bias;
    hk_value query_distance;
    hk_value key_distance;
    hk_value query_class;
    hk_value q_class;
    hk_value k_class;
    hk_value key_padding;
    hk_value query_padding;
    hk_value mask;
    hk_value q_group;
    hk_value k_group;
    hk_value q_position;
    hk_value k_position;
    hk_value prefix;
#if HK_TARGET_ABI_MINOR >= 2
    hk_value sinks;
#endif
    double scale;
    int64_t causal;
    int64_t window;
    int64_t distance_first;
    const int64_t* distance_table;
    uint64_t distance_table_count;
    int64_t key_distance_first;
    const int64_t* key_distance_table;
    uint64_t key_distance_table_count;
    int64_t empty_row;
    double dropout;
    int64_t stream;
    hk_string cache;
#if HK_TARGET_ABI_MINOR >= 2
    double softcap;
    int64_t window_after;
#endif
} hk_attention_options;

static inline hk_attention_options hk_attention_defaults(void) {
    hk_attention_options options;
    memset(&options, 0, sizeof options);
    options.stream = -1;
    options.cache = hk_text("");
    return options;
}

// q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] -> [B, Hq, Tq, Dv]; Hq is a multiple of Hkv. With d =
// q_position[b,i] - k_position[b,j] (default: the index): score = s + bias[b|1,h|1,i,j] + distance_bias[h, t(d)] +
// query_distance[b,h,i,t(d)] + key_distance[b,h,j,t'(-d)] + query_class[b,h,i, q_class[b,i] != k_class[b,j]], where s
// is scale q.k, and with softcap c (0: none) c tanh(scale q.k / c). Allowed: causal (k_position <= q_position),
// key_padding[b,j] != 0, query_padding[b,i] != 0, mask[b|1,h|1,i,j] != 0, q_group == k_group, d < window, -d <
// window_after (0: no limit), k_position < prefix[b] (which overrides causal). t(d) = distance_table[clamp(d -
// distance_first)], t'(d) = key_distance_table[clamp(d - key_distance_first)]. A row with nothing allowed gives the
// mean of v over all Tk keys (no gradient to scores), or zeros with empty_row = 1. sinks[h] is the score of one more
// key of each row, which is always allowed and has no value: it adds to the sum that probabilities are divided by,
// and a row with nothing else allowed gives zeros. scale 0: 1/sqrt(D). cache: a name under which keys and values are
// kept in decode mode. position -1 queries with dropout: by key (seed, step, stream, example).
static inline hk_value hk_attention(const hk_graph_interface* graph, hk_builder* builder, hk_value q, hk_value k, hk_value v, const hk_attention_options* options) {
    const hk_attention_options chosen = options ? *options : hk_attention_defaults();
    hk_value inputs[] = {q, k, v, chosen.bias, chosen.distance_bias, chosen.query_distance, chosen.key_distance, chosen.query_class, chosen.q_class, chosen.k_class, chosen.key_padding, chosen.query_padding, chosen.mask, chosen.q_group, chosen.k_group, chosen.q_position, chosen.k_position, chosen.prefix
#if HK_TARGET_ABI_MINOR >= 2
        , chosen.sinks
#endif
    };
#if HK_TARGET_ABI_MINOR >= 2
    hk_attribute attributes[13];
#else
    hk_attribute attributes[11];
#endif
    attributes[0] = hk_attribute_real("scale", chosen.scale);
    attributes[1] = hk_attribute_int("causal", chosen.causal);
    attributes[2] = hk_attribute_int("window", chosen.window);
    attributes[3] = hk_attribute_int("distance_first", chosen.distance_first);
    attributes[4] = hk_attribute_ints("distance_table", chosen.distance_table, chosen.distance_table_count);
    attributes[5] = hk_attribute_int("key_distance_first", chosen.key_distance_first);
    attributes[6] = hk_attribute_ints("key_distance_table", chosen.key_distance_table, chosen.key_distance_table_count);
    attributes[7] = hk_attribute_int("empty_row", chosen.empty_row);
    attributes[8] = hk_attribute_real("dropout", chosen.dropout);
    attributes[9] = hk_attribute_int("stream", chosen.stream);
    attributes[10] = hk_attribute_text("cache", chosen.cache);
#if HK_TARGET_ABI_MINOR >= 2
    attributes[11] = hk_attribute_real("softcap", chosen.softcap);
    attributes[12] = hk_attribute_int("window_after", chosen.window_after);
    const uint32_t revision = 2;
#else
    const uint32_t revision = 1;
#endif
    hk_value output = 0;
    graph->emit(builder, hk_text("attention"), revision, inputs, (uint32_t)(sizeof inputs / sizeof *inputs), attributes, (uint32_t)(sizeof attributes / sizeof *attributes), &output, 1);
    return output;
}

typedef struct hk_gru_options {
    hk_value lengths;
    hk_value initial;
    int64_t reverse;
} hk_gru_options;

static inline hk_gru_options hk_gru_defaults(void) {
    hk_gru_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// A GRU layer over x [B, T, I] (Cho et al. 2014, PyTorch's form): weights [3H, I] and [3H, H], biases [3H], gates r,
// z, n. lengths [B]: row b reads its first lengths[b] tokens and the rest of y is 0. reverse: from the last real
// token to the first, y at the token's own place. initial [B, H], default 0. -> y [B, T, H], last [B, H].
static inline int32_t hk_gru(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value input_weight, hk_value hidden_weight, hk_value input_bias, hk_value hidden_bias, const hk_gru_options* options, hk_value outputs[2]) {
    const hk_gru_options chosen = options ? *options : hk_gru_defaults();
    hk_value inputs[] = {x, input_weight, hidden_weight, input_bias, hidden_bias, chosen.lengths, chosen.initial};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("reverse", chosen.reverse);
    return graph->emit(builder, hk_text("gru"), 1, inputs, 7, attributes, 1, outputs, 2);
}

typedef struct hk_lstm_options {
    hk_value lengths;
    hk_value initial;
    hk_value initial_cell;
    int64_t reverse;
} hk_lstm_options;

static inline hk_lstm_options hk_lstm_defaults(void) {
    hk_lstm_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// An LSTM layer (Hochreiter and Schmidhuber 1997, PyTorch's form): weights [4H, I] and [4H, H], biases [4H], gates i,
// f, g, o; the rest as gru. -> y [B, T, H], last [B, H], last_cell [B, H].
static inline int32_t hk_lstm(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_value input_weight, hk_value hidden_weight, hk_value input_bias, hk_value hidden_bias, const hk_lstm_options* options, hk_value outputs[3]) {
    const hk_lstm_options chosen = options ? *options : hk_lstm_defaults();
    hk_value inputs[] = {x, input_weight, hidden_weight, input_bias, hidden_bias, chosen.lengths, chosen.initial, chosen.initial_cell};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("reverse", chosen.reverse);
    return graph->emit(builder, hk_text("lstm"), 1, inputs, 8, attributes, 1, outputs, 3);
}

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_loop_index_options {
    int64_t reverse;
} hk_loop_index_options;

static inline hk_loop_index_options hk_loop_index_defaults(void) {
    hk_loop_index_options options;
    memset(&options, 0, sizeof options);
    return options;
}

// A loop of `length` steps, as the int32 [] index of its step: 0, 1, ..., or length - 1, ..., 0 with reverse. What is
// computed from it, or from its loop_step and loop_state, is the loop's body: computed once for each step. Other
// values are computed once and the same in every step. A value of a body is used in the body, or by loop_next and
// loop_collect. The graph has the body as often as the loop has steps; a product with a matrix that does not change
// over the steps is cheaper before the loop.
static inline hk_value hk_loop_index(const hk_graph_interface* graph, hk_builder* builder, int64_t length, const hk_loop_index_options* options) {
    const hk_loop_index_options chosen = options ? *options : hk_loop_index_defaults();
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("length", length);
    attributes[1] = hk_attribute_int("reverse", chosen.reverse);
    hk_value output = 0;
    graph->emit(builder, hk_text("loop_index"), 1, NULL, 0, attributes, 2, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_loop_step_options {
    int64_t axis;
} hk_loop_step_options;

static inline hk_loop_step_options hk_loop_step_defaults(void) {
    hk_loop_step_options options;
    memset(&options, 0, sizeof options);
    options.axis = 1;
    return options;
}

// What x has for this step of the loop: its elements at the index, without the axis, which is as long as the loop.
static inline hk_value hk_loop_step(const hk_graph_interface* graph, hk_builder* builder, hk_value index, hk_value x, const hk_loop_step_options* options) {
    const hk_loop_step_options chosen = options ? *options : hk_loop_step_defaults();
    hk_value inputs[] = {index, x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", chosen.axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("loop_step"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// A value that steps pass on: initial in the first step, then what loop_next gave it in the step before. Each state
// has one loop_next.
static inline hk_value hk_loop_state(const hk_graph_interface* graph, hk_builder* builder, hk_value index, hk_value initial) {
    hk_value inputs[] = {index, initial};
    hk_value output = 0;
    graph->emit(builder, hk_text("loop_state"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// Gives a loop_state its value for the next step, of the same shape and kind. The result is that of the last step,
// for use after the loop.
static inline hk_value hk_loop_next(const hk_graph_interface* graph, hk_builder* builder, hk_value state, hk_value next) {
    hk_value inputs[] = {state, next};
    hk_value output = 0;
    graph->emit(builder, hk_text("loop_next"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
typedef struct hk_loop_collect_options {
    int64_t axis;
} hk_loop_collect_options;

static inline hk_loop_collect_options hk_loop_collect_defaults(void) {
    hk_loop_collect_options options;
    memset(&options, 0, sizeof options);
    options.axis = 1;
    return options;
}

// The values of y in all steps, joined along a new axis: that of a step at its index.
static inline hk_value hk_loop_collect(const hk_graph_interface* graph, hk_builder* builder, hk_value index, hk_value y, const hk_loop_collect_options* options) {
    const hk_loop_collect_options chosen = options ? *options : hk_loop_collect_defaults();
    hk_value inputs[] = {index, y};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_int("axis", chosen.axis);
    hk_value output = 0;
    graph->emit(builder, hk_text("loop_collect"), 1, inputs, 2, attributes, 1, &output, 1);
    return output;
}
#endif

typedef struct hk_cross_entropy_options {
    hk_value weights;
    int64_t ignore_index;
    double smoothing;
} hk_cross_entropy_options;

static inline hk_cross_entropy_options hk_cross_entropy_defaults(void) {
    hk_cross_entropy_options options;
    memset(&options, 0, sizeof options);
    options.ignore_index = -100;
    return options;
}

// logits [..., V], labels [...] int32 -> loss [...] float32 per row: -w[label] log softmax(logits)[label], 0 where
// label = ignore_index; with smoothing s: (1 - s) times that + s/V sum_c w[c] (-log softmax)[c]. weights [V], default
// 1.
static inline hk_value hk_cross_entropy(const hk_graph_interface* graph, hk_builder* builder, hk_value logits, hk_value labels, const hk_cross_entropy_options* options) {
    const hk_cross_entropy_options chosen = options ? *options : hk_cross_entropy_defaults();
    hk_value inputs[] = {logits, labels, chosen.weights};
    hk_attribute attributes[2];
    attributes[0] = hk_attribute_int("ignore_index", chosen.ignore_index);
    attributes[1] = hk_attribute_real("smoothing", chosen.smoothing);
    hk_value output = 0;
    graph->emit(builder, hk_text("cross_entropy"), 1, inputs, 3, attributes, 2, &output, 1);
    return output;
}

// x itself; in decode mode the value that the encode pass computed under this name.
static inline hk_value hk_once(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_string name) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("name", name);
    hk_value output = 0;
    graph->emit(builder, hk_text("once"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// initial itself; in decode mode the value last written under this name.
static inline hk_value hk_state_read(const hk_graph_interface* graph, hk_builder* builder, hk_value initial, hk_string name) {
    hk_value inputs[] = {initial};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("name", name);
    hk_value output = 0;
    graph->emit(builder, hk_text("state_read"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

// x itself; in decode mode it is kept under this name.
static inline hk_value hk_state_write(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_string name) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("name", name);
    hk_value output = 0;
    graph->emit(builder, hk_text("state_write"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
// value itself; in a training the buffer (a value of buffer()) gets it when the step updates the parameters: the mean
// over the micro-batches of the step, each computed with the buffers and parameters from before the step. A skipped
// step changes no buffer. In modes other than train nothing is written. One update for each buffer, of its shape. No
// gradient flows into a buffer.
static inline hk_value hk_buffer_update(const hk_graph_interface* graph, hk_builder* builder, hk_value buffer, hk_value value) {
    hk_value inputs[] = {buffer, value};
    hk_value output = 0;
    graph->emit(builder, hk_text("buffer_update"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// x itself, as the sum of a loss, which then gives gradients to the parameters with these names alone: patterns with
// *, separated by commas. A parameter that several losses name gets the sum of their gradients. If one loss of a
// graph names its parameters, all do.
static inline hk_value hk_for_parameters(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_string names) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("names", names);
    hk_value output = 0;
    graph->emit(builder, hk_text("for_parameters"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// x itself, under a name that the graph has once. hekla train --tap NAME shows its statistics in every step and can
// store its values; without it, nothing is computed or stored for a tap.
static inline hk_value hk_tap(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_string name) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("name", name);
    hk_value output = 0;
    graph->emit(builder, hk_text("tap"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}
#endif

// x itself: a named place where an adapter may act.
static inline hk_value hk_site(const hk_graph_interface* graph, hk_builder* builder, hk_value x, hk_string name) {
    hk_value inputs[] = {x};
    hk_attribute attributes[1];
    attributes[0] = hk_attribute_text("name", name);
    hk_value output = 0;
    graph->emit(builder, hk_text("site"), 1, inputs, 1, attributes, 1, &output, 1);
    return output;
}

#if HK_TARGET_ABI_MINOR >= 1
// The gradient of the sum of y with respect to x, from which y was computed: a value like any other, so that a loss
// may contain it (a gradient penalty). It can be differentiated again where the operations between x and y can: not
// attention, gru, lstm, cross_entropy, max_pool2d, rotary with tables that learn, and plugins' own operations.
static inline hk_value hk_gradient_of(const hk_graph_interface* graph, hk_builder* builder, hk_value y, hk_value x) {
    hk_value inputs[] = {y, x};
    hk_value output = 0;
    graph->emit(builder, hk_text("gradient_of"), 1, inputs, 2, NULL, 0, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// In place of the gradient that will come to y, for with_gradient.
static inline hk_value hk_incoming_gradient(const hk_graph_interface* graph, hk_builder* builder, hk_value y) {
    hk_value inputs[] = {y};
    hk_value output = 0;
    graph->emit(builder, hk_text("incoming_gradient"), 1, inputs, 1, NULL, 0, &output, 1);
    return output;
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// y itself, with a gradient of its own. parts: y; dy = incoming_gradient(y); and pairs of a value x and its gradient,
// computed from dy and any other values. No gradient flows through y; the x need not be what y was computed from. dy
// is of no use elsewhere.
static inline hk_value hk_with_gradient(const hk_graph_interface* graph, hk_builder* builder, const hk_value* parts, uint32_t parts_count) {
    hk_value output = 0;
    graph->emit(builder, hk_text("with_gradient"), 1, parts, parts_count, NULL, 0, &output, 1);
    return output;
}
#endif

#endif
