// Made by tools/generate_abi from engine/graph/operations.json. Edit that instead.
// The operations as C++ functions of Value; included by hekla_plugin.hpp. `at` is never given: it is the place of the call.
#pragma once

namespace hekla::plugin {

// The same elements in row-major order under another shape.
inline Value reshape(Value x, const std::vector<int64_t>& shape, Location at = Location::here()) {
    return graph_of({x}, at).emit("reshape", 1, {x}, {attribute("shape", shape)}, 1, at)[0];
}

// y's dimension i is x's dimension permutation[i].
inline Value transpose(Value x, const std::vector<int64_t>& permutation, Location at = Location::here()) {
    return graph_of({x}, at).emit("transpose", 1, {x}, {attribute("permutation", permutation)}, 1, at)[0];
}

struct SliceOptions {
    int64_t stride = 1;
};
// Elements start, start+stride, ... (length of them) of one axis.
inline Value slice(Value x, int64_t axis, int64_t start, int64_t length, const SliceOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("slice", 1, {x}, {attribute("axis", axis), attribute("start", start), attribute("length", length), attribute("stride", options.stride)}, 1, at)[0];
}

// Joins values along an axis; the other dimensions agree.
inline Value concat(const std::vector<Value>& parts, int64_t axis, Location at = Location::here()) {
    return graph_of(parts, at).emit("concat", 1, parts, {attribute("axis", axis)}, 1, at)[0];
}

struct PadOptions {
    int64_t before = 0;
    int64_t after = 0;
    double value = 0.0;
};
// Adds before and after elements of a value to one axis.
inline Value pad(Value x, int64_t axis, const PadOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("pad", 1, {x}, {attribute("axis", axis), attribute("before", options.before), attribute("after", options.after), attribute("value", options.value)}, 1, at)[0];
}

// Repeats x to a shape by NumPy's rule (dimensions align at the end, 1 repeats).
inline Value broadcast(Value x, const std::vector<int64_t>& shape, Location at = Location::here()) {
    return graph_of({x}, at).emit("broadcast", 1, {x}, {attribute("shape", shape)}, 1, at)[0];
}

// Reverses one axis.
inline Value flip(Value x, int64_t axis, Location at = Location::here()) {
    return graph_of({x}, at).emit("flip", 1, {x}, {attribute("axis", axis)}, 1, at)[0];
}

// a + b; shapes broadcast by NumPy's rule, as in every pointwise operation.
inline Value add(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("add", 1, {a, b}, {}, 1, at)[0];
}

// a - b.
inline Value sub(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("sub", 1, {a, b}, {}, 1, at)[0];
}

// a * b.
inline Value mul(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("mul", 1, {a, b}, {}, 1, at)[0];
}

// a / b; for integers the quotient rounded to zero.
inline Value div(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("div", 1, {a, b}, {}, 1, at)[0];
}

// a to the power b.
inline Value pow(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("pow", 1, {a, b}, {}, 1, at)[0];
}

// The smaller of a and b; at a tie each gets half the gradient.
inline Value minimum(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("minimum", 1, {a, b}, {}, 1, at)[0];
}

// The larger of a and b; at a tie each gets half the gradient.
inline Value maximum(Value a, Value b, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("maximum", 1, {a, b}, {}, 1, at)[0];
}

// 1 where the relation holds, else 0, as int32. relation: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5
// greater or equal.
inline Value compare(Value a, Value b, int64_t relation, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("compare", 1, {a, b}, {attribute("relation", relation)}, 1, at)[0];
}

// a where condition is not 0, else b.
inline Value where(Value condition, Value a, Value b, Location at = Location::here()) {
    return graph_of({condition, a, b}, at).emit("where", 1, {condition, a, b}, {}, 1, at)[0];
}

// -x.
inline Value neg(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("neg", 1, {x}, {}, 1, at)[0];
}

// |x|; gradient 0 at 0.
inline Value abs(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("abs", 1, {x}, {}, 1, at)[0];
}

// -1, 0 or 1; no gradient.
inline Value sign(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("sign", 1, {x}, {}, 1, at)[0];
}

// The largest integer not above x; no gradient.
inline Value floor(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("floor", 1, {x}, {}, 1, at)[0];
}

// The nearest integer, ties to even; no gradient.
inline Value round(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("round", 1, {x}, {}, 1, at)[0];
}

// e to the x.
inline Value exp(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("exp", 1, {x}, {}, 1, at)[0];
}

// Natural logarithm.
inline Value log(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("log", 1, {x}, {}, 1, at)[0];
}

// log(1 + x), exact near 0.
inline Value log1p(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("log1p", 1, {x}, {}, 1, at)[0];
}

// Square root.
inline Value sqrt(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("sqrt", 1, {x}, {}, 1, at)[0];
}

// 1 / sqrt(x).
inline Value rsqrt(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("rsqrt", 1, {x}, {}, 1, at)[0];
}

// Sine of radians.
inline Value sin(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("sin", 1, {x}, {}, 1, at)[0];
}

// Cosine of radians.
inline Value cos(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("cos", 1, {x}, {}, 1, at)[0];
}

// The error function.
inline Value erf(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("erf", 1, {x}, {}, 1, at)[0];
}

// Hyperbolic tangent.
inline Value tanh(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("tanh", 1, {x}, {}, 1, at)[0];
}

// 1 / (1 + exp(-x)).
inline Value sigmoid(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("sigmoid", 1, {x}, {}, 1, at)[0];
}

// log(1 + exp(x)).
inline Value softplus(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("softplus", 1, {x}, {}, 1, at)[0];
}

// -log(1 + exp(-x)).
inline Value log_sigmoid(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("log_sigmoid", 1, {x}, {}, 1, at)[0];
}

// max(x, 0); gradient 0 at 0.
inline Value relu(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("relu", 1, {x}, {}, 1, at)[0];
}

struct GeluOptions {
    int64_t tanh_approximation = 0;
};
// x times the normal distribution function (Hendrycks and Gimpel 2016): exact by erf, or the tanh approximation that
// GPT-2 uses.
inline Value gelu(Value x, const GeluOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("gelu", 1, {x}, {attribute("tanh_approximation", options.tanh_approximation)}, 1, at)[0];
}

// x * sigmoid(x).
inline Value silu(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("silu", 1, {x}, {}, 1, at)[0];
}

// x limited to [low, high]; gradient passes between the bounds, not at them.
inline Value clamp(Value x, double low, double high, Location at = Location::here()) {
    return graph_of({x}, at).emit("clamp", 1, {x}, {attribute("low", low), attribute("high", high)}, 1, at)[0];
}

// Another kind: 0 float, 1 float32, 2 int32 (rounded to zero; no gradient).
inline Value cast(Value x, int64_t kind, Location at = Location::here()) {
    return graph_of({x}, at).emit("cast", 1, {x}, {attribute("kind", kind)}, 1, at)[0];
}

struct DropoutOptions {
    int64_t stream = -1;
};
// 0 with the given probability, else x / (1 - probability), drawn by (seed, step, stream, example). In modes other
// than train it is x itself. stream -1: the builder derives it from the scope.
inline Value dropout(Value x, double probability, const DropoutOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("dropout", 1, {x}, {attribute("probability", probability), attribute("stream", options.stream)}, 1, at)[0];
}

// x, without a gradient.
inline Value stop_gradient(Value x, Location at = Location::here()) {
    return graph_of({x}, at).emit("stop_gradient", 1, {x}, {}, 1, at)[0];
}

struct SumOptions {
    int64_t keep = 0;
};
// Sum over axes; the axes are removed, or kept as 1 with keep.
inline Value sum(Value x, const std::vector<int64_t>& axes, const SumOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("sum", 1, {x}, {attribute("axes", axes), attribute("keep", options.keep)}, 1, at)[0];
}

struct MeanOptions {
    int64_t keep = 0;
};
// Mean over axes.
inline Value mean(Value x, const std::vector<int64_t>& axes, const MeanOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("mean", 1, {x}, {attribute("axes", axes), attribute("keep", options.keep)}, 1, at)[0];
}

struct MaxOptions {
    int64_t keep = 0;
};
// Maximum over axes; at ties the gradient is shared evenly.
inline Value max(Value x, const std::vector<int64_t>& axes, const MaxOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("max", 1, {x}, {attribute("axes", axes), attribute("keep", options.keep)}, 1, at)[0];
}

struct LogsumexpOptions {
    int64_t keep = 0;
};
// log of the sum of exp over axes, without overflow.
inline Value logsumexp(Value x, const std::vector<int64_t>& axes, const LogsumexpOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("logsumexp", 1, {x}, {attribute("axes", axes), attribute("keep", options.keep)}, 1, at)[0];
}

struct ArgmaxOptions {
    int64_t axis = -1;
};
// int32 index of the first maximum along an axis, which is removed.
inline Value argmax(Value x, const ArgmaxOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("argmax", 1, {x}, {attribute("axis", options.axis)}, 1, at)[0];
}

struct CumsumOptions {
    int64_t reverse = 0;
};
// Running sum along an axis, from the other end with reverse.
inline Value cumsum(Value x, int64_t axis, const CumsumOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("cumsum", 1, {x}, {attribute("axis", axis), attribute("reverse", options.reverse)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
struct CumprodOptions {
    int64_t reverse = 0;
};
// Running product along an axis, from the other end with reverse.
inline Value cumprod(Value x, int64_t axis, const CumprodOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("cumprod", 1, {x}, {attribute("axis", axis), attribute("reverse", options.reverse)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct CummaxOptions {
    int64_t reverse = 0;
};
struct CummaxResult {
    Value values;
    Value indices;
};
// Running maximum along an axis, from the other end with reverse, and the int32 index of the element that holds it:
// the latest one at ties. That element gets the gradient.
inline CummaxResult cummax(Value x, int64_t axis, const CummaxOptions& options = {}, Location at = Location::here()) {
    const std::vector<Value> outputs = graph_of({x}, at).emit("cummax", 1, {x}, {attribute("axis", axis), attribute("reverse", options.reverse)}, 2, at);
    return {outputs[0], outputs[1]};
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct LogcumsumexpOptions {
    int64_t reverse = 0;
};
// log of the running sum of exp along an axis, from the other end with reverse, without overflow.
inline Value logcumsumexp(Value x, int64_t axis, const LogcumsumexpOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("logcumsumexp", 1, {x}, {attribute("axis", axis), attribute("reverse", options.reverse)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct ScanLinearOptions {
    Value initial{};
    int64_t reverse = 0;
};
// A linear recurrence along an axis, from the other end with reverse (minGRU, RetNet, state spaces): y[i] = a[i] y[i
// - 1] + x[i]. a has the shape of x. initial is y before the first element, of the shape of x without the axis;
// without it the first a is not read.
inline Value scan_linear(Value x, Value a, int64_t axis, const ScanLinearOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, a}, at).emit("scan_linear", 1, {x, a, options.initial}, {attribute("axis", axis), attribute("reverse", options.reverse)}, 1, at)[0];
}
#endif

struct TopKResult {
    Value values;
    Value indices;
};
// The k largest of the last axis, descending, first index first at ties, and their int32 indices.
inline TopKResult top_k(Value x, int64_t k, Location at = Location::here()) {
    const std::vector<Value> outputs = graph_of({x}, at).emit("top_k", 1, {x}, {attribute("k", k)}, 2, at);
    return {outputs[0], outputs[1]};
}

struct RandomUniformOptions {
    int64_t stream = -1;
};
// Uniform in [0, 1), drawn by (seed, step, stream, example). stream as in dropout.
inline Value random_uniform(Graph& graph, const std::vector<int64_t>& shape, const RandomUniformOptions& options = {}, Location at = Location::here()) {
    return graph.emit("random_uniform", 1, {}, {attribute("shape", shape), attribute("stream", options.stream)}, 1, at)[0];
}

struct RandomNormalOptions {
    int64_t stream = -1;
};
// Standard normal, drawn by (seed, step, stream, example).
inline Value random_normal(Graph& graph, const std::vector<int64_t>& shape, const RandomNormalOptions& options = {}, Location at = Location::here()) {
    return graph.emit("random_normal", 1, {}, {attribute("shape", shape), attribute("stream", options.stream)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
struct TruncatedNormalOptions {
    double low = -2.0;
    double high = 2.0;
    int64_t stream = -1;
};
// Standard normal within [low, high], as if numbers outside were drawn again (torch.nn.init.trunc_normal_ with mean 0
// and deviation 1), by the inverse of the distribution function of one number for each element, drawn by (seed, step,
// stream, example).
inline Value truncated_normal(Graph& graph, const std::vector<int64_t>& shape, const TruncatedNormalOptions& options = {}, Location at = Location::here()) {
    return graph.emit("truncated_normal", 1, {}, {attribute("shape", shape), attribute("low", options.low), attribute("high", options.high), attribute("stream", options.stream)}, 1, at)[0];
}
#endif

struct MatmulOptions {
    int64_t transpose_a = 0;
    int64_t transpose_b = 0;
};
// a [..., M, K] x b [..., K, N] -> [..., M, N]; leading dimensions broadcast; a transpose flag: the last two
// dimensions are swapped in memory.
inline Value matmul(Value a, Value b, const MatmulOptions& options = {}, Location at = Location::here()) {
    return graph_of({a, b}, at).emit("matmul", 1, {a, b}, {attribute("transpose_a", options.transpose_a), attribute("transpose_b", options.transpose_b)}, 1, at)[0];
}

struct LinearOptions {
    Value bias{};
    int64_t input_first = 0;
};
// x [..., in] -> [..., out]: x W + bias. weight is [out, in], or [in, out] with input_first (GPT-2's Conv1D). A
// linear whose weight is a parameter is a site under that name.
inline Value linear(Value x, Value weight, const LinearOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, weight}, at).emit("linear", 1, {x, weight, options.bias}, {attribute("input_first", options.input_first)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
struct RowLinearOptions {
    int64_t input_first = 0;
};
// linear with a weight of its own for every row of the batch: x [B, ..., in], weights [E, out, in] ([E, in, out] with
// input_first), rows [B] int32 -> y [B, ..., out]. Row b uses weights[rows[b]]; where rows[b] is -1, y is 0.
inline Value row_linear(Value x, Value weights, Value rows, const RowLinearOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, weights, rows}, at).emit("row_linear", 1, {x, weights, rows}, {attribute("input_first", options.input_first)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct Conv2dOptions {
    Value bias{};
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    std::vector<int64_t> dilation{};
    int64_t groups = 1;
};
// x [B, H, W, C], weight [O, C / groups, kh, kw] as PyTorch stores it, bias [O] -> [B, H', W', O]: y[b, i, j, o] =
// bias[o] + sum over c, u, v of weight[o, c, u, v] x[b, i stride + u dilation - padding, j stride + v dilation -
// padding, c], where x is 0 outside. H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down.
// Channels are the last dimension, as in linear: transpose PyTorch's [B, C, H, W] by {0, 2, 3, 1}. stride, padding
// and dilation are one number, or one for H and one for W; [] is 1, 0 and 1. Output channel o reads the channels of
// its group, o / (O / groups).
inline Value conv2d(Value x, Value weight, const Conv2dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, weight}, at).emit("conv2d", 1, {x, weight, options.bias}, {attribute("stride", options.stride), attribute("padding", options.padding), attribute("dilation", options.dilation), attribute("groups", options.groups)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct Conv1dOptions {
    Value bias{};
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    std::vector<int64_t> dilation{};
    int64_t groups = 1;
};
// conv2d along one dimension: x [B, T, C], weight [O, C / groups, K], bias [O] -> [B, T', O]. Without later tokens (a
// causal convolution): pad x at the front instead of padding.
inline Value conv1d(Value x, Value weight, const Conv1dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, weight}, at).emit("conv1d", 1, {x, weight, options.bias}, {attribute("stride", options.stride), attribute("padding", options.padding), attribute("dilation", options.dilation), attribute("groups", options.groups)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct MaxPool2dOptions {
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    std::vector<int64_t> dilation{};
};
// The largest element of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d.
// Padding is never the largest. kernel, stride, padding and dilation are one number, or one for H and one for W;
// stride [] is the kernel. The first of equal elements gets the gradient; NaN is larger than every number.
inline Value max_pool2d(Value x, const std::vector<int64_t>& kernel, const MaxPool2dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("max_pool2d", 1, {x}, {attribute("kernel", kernel), attribute("stride", options.stride), attribute("padding", options.padding), attribute("dilation", options.dilation)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct MaxPool1dOptions {
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    std::vector<int64_t> dilation{};
};
// max_pool2d along one dimension: x [B, T, C] -> [B, T', C].
inline Value max_pool1d(Value x, const std::vector<int64_t>& kernel, const MaxPool1dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("max_pool1d", 1, {x}, {attribute("kernel", kernel), attribute("stride", options.stride), attribute("padding", options.padding), attribute("dilation", options.dilation)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct AvgPool2dOptions {
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    int64_t count_padding = 1;
};
// The mean of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d. Padding counts
// as zeros; with count_padding = 0 the mean is over the elements of x alone. stride [] is the kernel.
inline Value avg_pool2d(Value x, const std::vector<int64_t>& kernel, const AvgPool2dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("avg_pool2d", 1, {x}, {attribute("kernel", kernel), attribute("stride", options.stride), attribute("padding", options.padding), attribute("count_padding", options.count_padding)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct AvgPool1dOptions {
    std::vector<int64_t> stride{};
    std::vector<int64_t> padding{};
    int64_t count_padding = 1;
};
// avg_pool2d along one dimension: x [B, T, C] -> [B, T', C].
inline Value avg_pool1d(Value x, const std::vector<int64_t>& kernel, const AvgPool1dOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("avg_pool1d", 1, {x}, {attribute("kernel", kernel), attribute("stride", options.stride), attribute("padding", options.padding), attribute("count_padding", options.count_padding)}, 1, at)[0];
}
#endif

struct LayerNormOptions {
    Value gain{};
    Value bias{};
    double epsilon = 1e-05;
};
// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba et al. 2016); statistics in float32.
inline Value layer_norm(Value x, const LayerNormOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("layer_norm", 1, {x, options.gain, options.bias}, {attribute("epsilon", options.epsilon)}, 1, at)[0];
}

struct RmsNormOptions {
    Value gain{};
    double epsilon = 1e-06;
};
// x / sqrt(mean(x^2) + epsilon) * gain over the last axis (Zhang and Sennrich 2019).
inline Value rms_norm(Value x, const RmsNormOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("rms_norm", 1, {x, options.gain}, {attribute("epsilon", options.epsilon)}, 1, at)[0];
}

struct SoftmaxOptions {
    int64_t axis = -1;
};
// exp(x) / sum exp(x) along an axis.
inline Value softmax(Value x, const SoftmaxOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("softmax", 1, {x}, {attribute("axis", options.axis)}, 1, at)[0];
}

struct LogSoftmaxOptions {
    int64_t axis = -1;
};
// x - logsumexp(x) along an axis.
inline Value log_softmax(Value x, const LogSoftmaxOptions& options = {}, Location at = Location::here()) {
    return graph_of({x}, at).emit("log_softmax", 1, {x}, {attribute("axis", options.axis)}, 1, at)[0];
}

struct RotaryOptions {
    Value positions{};
    int64_t interleaved = 0;
    int64_t inverse = 0;
};
// Rotates pairs of x [B, H, T, D] by position (Su et al. 2021): cosine and sine are tables [P, R/2], R <= D; the
// first R elements are rotated, pairs are (i, i + R/2), or (2i, 2i + 1) with interleaved. positions [B, T] int32
// picks the row (default: the token's position, cache included). inverse: rotates back.
inline Value rotary(Value x, Value cosine, Value sine, const RotaryOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, cosine, sine}, at).emit("rotary", 1, {x, cosine, sine, options.positions}, {attribute("interleaved", options.interleaved), attribute("inverse", options.inverse)}, 1, at)[0];
}

struct EmbeddingOptions {
    int64_t no_gradient_id = -1;
};
// table [V, D], ids [...] int32 -> [..., D]. The row no_gradient_id gets no gradient through the lookup.
inline Value embedding(Value table, Value ids, const EmbeddingOptions& options = {}, Location at = Location::here()) {
    return graph_of({table, ids}, at).emit("embedding", 1, {table, ids}, {attribute("no_gradient_id", options.no_gradient_id)}, 1, at)[0];
}

struct GatherOptions {
    int64_t batch_dimensions = 0;
};
// x [B..., N, R...], indices [B..., K...] int32 -> [B..., K..., R...], with batch_dimensions leading dimensions in
// common.
inline Value gather(Value x, Value indices, const GatherOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, indices}, at).emit("gather", 1, {x, indices}, {attribute("batch_dimensions", options.batch_dimensions)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
struct ScatterAddOptions {
    int64_t batch_dimensions = 0;
};
// x [B..., N, R...] with values [B..., K..., R...] added to the rows that indices [B..., K...] int32 name, with
// batch_dimensions leading dimensions in common, as gather reads them. What is added to one row is summed in the
// order of the indices, so that every run gives the same bits. Indices are 0 to N - 1; kernels leave out the values
// of others.
inline Value scatter_add(Value x, Value indices, Value values, const ScatterAddOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, indices, values}, at).emit("scatter_add", 1, {x, indices, values}, {attribute("batch_dimensions", options.batch_dimensions)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct ScatterOptions {
    int64_t batch_dimensions = 0;
};
// As scatter_add, but the values replace the rows. The indices of a batch must differ: duplicates are refused in a
// constant and by the interpreter, and kernels take the last one.
inline Value scatter(Value x, Value indices, Value values, const ScatterOptions& options = {}, Location at = Location::here()) {
    return graph_of({x, indices, values}, at).emit("scatter", 1, {x, indices, values}, {attribute("batch_dimensions", options.batch_dimensions)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// indices [...] int32 -> [..., size] int32: 1 at the index, else 0; any other index gives zeros. The graph has it as
// compare of the indices with 0, 1, ...
inline Value one_hot(Value indices, int64_t size, Location at = Location::here()) {
    return graph_of({indices}, at).emit("one_hot", 1, {indices}, {attribute("size", size)}, 1, at)[0];
}
#endif

struct AttentionOptions {
    Value bias{};
    Value distance_bias{};
    Value query_distance{};
    Value key_distance{};
    Value query_class{};
    Value q_class{};
    Value k_class{};
    Value key_padding{};
    Value query_padding{};
    Value mask{};
    Value q_group{};
    Value k_group{};
    Value q_position{};
    Value k_position{};
    Value prefix{};
#if HK_TARGET_ABI_MINOR >= 2
    Value sinks{};
#endif
    double scale = 0.0;
    int64_t causal = 0;
    int64_t window = 0;
    int64_t distance_first = 0;
    std::vector<int64_t> distance_table{};
    int64_t key_distance_first = 0;
    std::vector<int64_t> key_distance_table{};
    int64_t empty_row = 0;
    double dropout = 0.0;
    int64_t stream = -1;
    std::string cache{};
#if HK_TARGET_ABI_MINOR >= 2
    double softcap = 0.0;
    int64_t window_after = 0;
#endif
};
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
inline Value attention(Value q, Value k, Value v, const AttentionOptions& options = {}, Location at = Location::here()) {
#if HK_TARGET_ABI_MINOR >= 2
    const uint32_t revision = 2;
#else
    const uint32_t revision = 1;
#endif
    return graph_of({q, k, v}, at).emit("attention", revision, {q, k, v, options.bias, options.distance_bias, options.query_distance, options.key_distance, options.query_class, options.q_class, options.k_class, options.key_padding, options.query_padding, options.mask, options.q_group, options.k_group, options.q_position, options.k_position, options.prefix
#if HK_TARGET_ABI_MINOR >= 2
        , options.sinks
#endif
    }, {attribute("scale", options.scale), attribute("causal", options.causal), attribute("window", options.window), attribute("distance_first", options.distance_first), attribute("distance_table", options.distance_table), attribute("key_distance_first", options.key_distance_first), attribute("key_distance_table", options.key_distance_table), attribute("empty_row", options.empty_row), attribute("dropout", options.dropout), attribute("stream", options.stream), attribute("cache", options.cache)
#if HK_TARGET_ABI_MINOR >= 2
        , attribute("softcap", options.softcap)
        , attribute("window_after", options.window_after)
#endif
    }, 1, at)[0];
}

struct GruOptions {
    Value lengths{};
    Value initial{};
    int64_t reverse = 0;
};
struct GruResult {
    Value y;
    Value last;
};
// A GRU layer over x [B, T, I] (Cho et al. 2014, PyTorch's form): weights [3H, I] and [3H, H], biases [3H], gates r,
// z, n. lengths [B]: row b reads its first lengths[b] tokens and the rest of y is 0. reverse: from the last real
// token to the first, y at the token's own place. initial [B, H], default 0. -> y [B, T, H], last [B, H].
inline GruResult gru(Value x, Value input_weight, Value hidden_weight, Value input_bias, Value hidden_bias, const GruOptions& options = {}, Location at = Location::here()) {
    const std::vector<Value> outputs = graph_of({x, input_weight, hidden_weight, input_bias, hidden_bias}, at).emit("gru", 1, {x, input_weight, hidden_weight, input_bias, hidden_bias, options.lengths, options.initial}, {attribute("reverse", options.reverse)}, 2, at);
    return {outputs[0], outputs[1]};
}

struct LstmOptions {
    Value lengths{};
    Value initial{};
    Value initial_cell{};
    int64_t reverse = 0;
};
struct LstmResult {
    Value y;
    Value last;
    Value last_cell;
};
// An LSTM layer (Hochreiter and Schmidhuber 1997, PyTorch's form): weights [4H, I] and [4H, H], biases [4H], gates i,
// f, g, o; the rest as gru. -> y [B, T, H], last [B, H], last_cell [B, H].
inline LstmResult lstm(Value x, Value input_weight, Value hidden_weight, Value input_bias, Value hidden_bias, const LstmOptions& options = {}, Location at = Location::here()) {
    const std::vector<Value> outputs = graph_of({x, input_weight, hidden_weight, input_bias, hidden_bias}, at).emit("lstm", 1, {x, input_weight, hidden_weight, input_bias, hidden_bias, options.lengths, options.initial, options.initial_cell}, {attribute("reverse", options.reverse)}, 3, at);
    return {outputs[0], outputs[1], outputs[2]};
}

#if HK_TARGET_ABI_MINOR >= 1
struct LoopIndexOptions {
    int64_t reverse = 0;
};
// A loop of `length` steps, as the int32 [] index of its step: 0, 1, ..., or length - 1, ..., 0 with reverse. What is
// computed from it, or from its loop_step and loop_state, is the loop's body: computed once for each step. Other
// values are computed once and the same in every step. A value of a body is used in the body, or by loop_next and
// loop_collect. The graph has the body as often as the loop has steps; a product with a matrix that does not change
// over the steps is cheaper before the loop.
inline Value loop_index(Graph& graph, int64_t length, const LoopIndexOptions& options = {}, Location at = Location::here()) {
    return graph.emit("loop_index", 1, {}, {attribute("length", length), attribute("reverse", options.reverse)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct LoopStepOptions {
    int64_t axis = 1;
};
// What x has for this step of the loop: its elements at the index, without the axis, which is as long as the loop.
inline Value loop_step(Value index, Value x, const LoopStepOptions& options = {}, Location at = Location::here()) {
    return graph_of({index, x}, at).emit("loop_step", 1, {index, x}, {attribute("axis", options.axis)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// A value that steps pass on: initial in the first step, then what loop_next gave it in the step before. Each state
// has one loop_next.
inline Value loop_state(Value index, Value initial, Location at = Location::here()) {
    return graph_of({index, initial}, at).emit("loop_state", 1, {index, initial}, {}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// Gives a loop_state its value for the next step, of the same shape and kind. The result is that of the last step,
// for use after the loop.
inline Value loop_next(Value state, Value next, Location at = Location::here()) {
    return graph_of({state, next}, at).emit("loop_next", 1, {state, next}, {}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
struct LoopCollectOptions {
    int64_t axis = 1;
};
// The values of y in all steps, joined along a new axis: that of a step at its index.
inline Value loop_collect(Value index, Value y, const LoopCollectOptions& options = {}, Location at = Location::here()) {
    return graph_of({index, y}, at).emit("loop_collect", 1, {index, y}, {attribute("axis", options.axis)}, 1, at)[0];
}
#endif

struct CrossEntropyOptions {
    Value weights{};
    int64_t ignore_index = -100;
    double smoothing = 0.0;
};
// logits [..., V], labels [...] int32 -> loss [...] float32 per row: -w[label] log softmax(logits)[label], 0 where
// label = ignore_index; with smoothing s: (1 - s) times that + s/V sum_c w[c] (-log softmax)[c]. weights [V], default
// 1.
inline Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options = {}, Location at = Location::here()) {
    return graph_of({logits, labels}, at).emit("cross_entropy", 1, {logits, labels, options.weights}, {attribute("ignore_index", options.ignore_index), attribute("smoothing", options.smoothing)}, 1, at)[0];
}

// x itself; in decode mode the value that the encode pass computed under this name.
inline Value once(Value x, const std::string& name, Location at = Location::here()) {
    return graph_of({x}, at).emit("once", 1, {x}, {attribute("name", name)}, 1, at)[0];
}

// initial itself; in decode mode the value last written under this name.
inline Value state_read(Value initial, const std::string& name, Location at = Location::here()) {
    return graph_of({initial}, at).emit("state_read", 1, {initial}, {attribute("name", name)}, 1, at)[0];
}

// x itself; in decode mode it is kept under this name.
inline Value state_write(Value x, const std::string& name, Location at = Location::here()) {
    return graph_of({x}, at).emit("state_write", 1, {x}, {attribute("name", name)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
// value itself; in a training the buffer (a value of buffer()) gets it when the step updates the parameters: the mean
// over the micro-batches of the step, each computed with the buffers and parameters from before the step. A skipped
// step changes no buffer. In modes other than train nothing is written. One update for each buffer, of its shape. No
// gradient flows into a buffer.
inline Value buffer_update(Value buffer, Value value, Location at = Location::here()) {
    return graph_of({buffer, value}, at).emit("buffer_update", 1, {buffer, value}, {}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// x itself, as the sum of a loss, which then gives gradients to the parameters with these names alone: patterns with
// *, separated by commas. A parameter that several losses name gets the sum of their gradients. If one loss of a
// graph names its parameters, all do.
inline Value for_parameters(Value x, const std::string& names, Location at = Location::here()) {
    return graph_of({x}, at).emit("for_parameters", 1, {x}, {attribute("names", names)}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// x itself, under a name that the graph has once. hekla train --tap NAME shows its statistics in every step and can
// store its values; without it, nothing is computed or stored for a tap.
inline Value tap(Value x, const std::string& name, Location at = Location::here()) {
    return graph_of({x}, at).emit("tap", 1, {x}, {attribute("name", name)}, 1, at)[0];
}
#endif

// x itself: a named place where an adapter may act.
inline Value site(Value x, const std::string& name, Location at = Location::here()) {
    return graph_of({x}, at).emit("site", 1, {x}, {attribute("name", name)}, 1, at)[0];
}

#if HK_TARGET_ABI_MINOR >= 1
// The gradient of the sum of y with respect to x, from which y was computed: a value like any other, so that a loss
// may contain it (a gradient penalty). It can be differentiated again where the operations between x and y can: not
// attention, gru, lstm, cross_entropy, max_pool2d, rotary with tables that learn, and plugins' own operations.
inline Value gradient_of(Value y, Value x, Location at = Location::here()) {
    return graph_of({y, x}, at).emit("gradient_of", 1, {y, x}, {}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// In place of the gradient that will come to y, for with_gradient.
inline Value incoming_gradient(Value y, Location at = Location::here()) {
    return graph_of({y}, at).emit("incoming_gradient", 1, {y}, {}, 1, at)[0];
}
#endif

#if HK_TARGET_ABI_MINOR >= 1
// y itself, with a gradient of its own. parts: y; dy = incoming_gradient(y); and pairs of a value x and its gradient,
// computed from dy and any other values. No gradient flows through y; the x need not be what y was computed from. dy
// is of no use elsewhere.
inline Value with_gradient(const std::vector<Value>& parts, Location at = Location::here()) {
    return graph_of(parts, at).emit("with_gradient", 1, parts, {}, 1, at)[0];
}
#endif

} // namespace hekla::plugin
