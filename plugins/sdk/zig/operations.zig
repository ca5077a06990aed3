// The operations as functions of Value. Options have defaults: `.{}`, `.{ .axis = 0 }`.
// Made by tools/generate_abi from engine/graph/operations.json. Edit that instead.

const sdk = @import("hekla.zig");
const Graph = sdk.Graph;
const Value = sdk.Value;

/// The same elements in row-major order under another shape.
pub fn reshape(x: Value, shape: []const i64) Value {
    return x.graph.emit("reshape", 1, &.{x}, &.{sdk.attribute("shape", shape)}, 1)[0];
}

/// y's dimension i is x's dimension permutation[i].
pub fn transpose(x: Value, permutation: []const i64) Value {
    return x.graph.emit("transpose", 1, &.{x}, &.{sdk.attribute("permutation", permutation)}, 1)[0];
}

pub const SliceOptions = struct {
    stride: i64 = 1,
};

/// Elements start, start+stride, ... (length of them) of one axis.
pub fn slice(x: Value, axis: i64, start: i64, length: i64, options: SliceOptions) Value {
    return x.graph.emit("slice", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("start", start), sdk.attribute("length", length), sdk.attribute("stride", options.stride) }, 1)[0];
}

/// Joins values along an axis; the other dimensions agree.
pub fn concat(parts: []const Value, axis: i64) Value {
    return parts[0].graph.emit("concat", 1, parts, &.{sdk.attribute("axis", axis)}, 1)[0];
}

pub const PadOptions = struct {
    before: i64 = 0,
    after: i64 = 0,
    value: f64 = 0.0,
};

/// Adds before and after elements of a value to one axis.
pub fn pad(x: Value, axis: i64, options: PadOptions) Value {
    return x.graph.emit("pad", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("before", options.before), sdk.attribute("after", options.after), sdk.attribute("value", options.value) }, 1)[0];
}

/// Repeats x to a shape by NumPy's rule (dimensions align at the end, 1 repeats).
pub fn broadcast(x: Value, shape: []const i64) Value {
    return x.graph.emit("broadcast", 1, &.{x}, &.{sdk.attribute("shape", shape)}, 1)[0];
}

/// Reverses one axis.
pub fn flip(x: Value, axis: i64) Value {
    return x.graph.emit("flip", 1, &.{x}, &.{sdk.attribute("axis", axis)}, 1)[0];
}

/// a + b; shapes broadcast by NumPy's rule, as in every pointwise operation.
pub fn add(a: Value, b: Value) Value {
    return a.graph.emit("add", 1, &.{ a, b }, &.{}, 1)[0];
}

/// a - b.
pub fn sub(a: Value, b: Value) Value {
    return a.graph.emit("sub", 1, &.{ a, b }, &.{}, 1)[0];
}

/// a * b.
pub fn mul(a: Value, b: Value) Value {
    return a.graph.emit("mul", 1, &.{ a, b }, &.{}, 1)[0];
}

/// a / b; for integers the quotient rounded to zero.
pub fn div(a: Value, b: Value) Value {
    return a.graph.emit("div", 1, &.{ a, b }, &.{}, 1)[0];
}

/// a to the power b.
pub fn pow(a: Value, b: Value) Value {
    return a.graph.emit("pow", 1, &.{ a, b }, &.{}, 1)[0];
}

/// The smaller of a and b; at a tie each gets half the gradient.
pub fn minimum(a: Value, b: Value) Value {
    return a.graph.emit("minimum", 1, &.{ a, b }, &.{}, 1)[0];
}

/// The larger of a and b; at a tie each gets half the gradient.
pub fn maximum(a: Value, b: Value) Value {
    return a.graph.emit("maximum", 1, &.{ a, b }, &.{}, 1)[0];
}

/// 1 where the relation holds, else 0, as int32. relation: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater,
/// 5 greater or equal.
pub fn compare(a: Value, b: Value, relation: i64) Value {
    return a.graph.emit("compare", 1, &.{ a, b }, &.{sdk.attribute("relation", relation)}, 1)[0];
}

/// a where condition is not 0, else b.
pub fn where(condition: Value, a: Value, b: Value) Value {
    return condition.graph.emit("where", 1, &.{ condition, a, b }, &.{}, 1)[0];
}

/// -x.
pub fn neg(x: Value) Value {
    return x.graph.emit("neg", 1, &.{x}, &.{}, 1)[0];
}

/// |x|; gradient 0 at 0.
pub fn abs(x: Value) Value {
    return x.graph.emit("abs", 1, &.{x}, &.{}, 1)[0];
}

/// -1, 0 or 1; no gradient.
pub fn sign(x: Value) Value {
    return x.graph.emit("sign", 1, &.{x}, &.{}, 1)[0];
}

/// The largest integer not above x; no gradient.
pub fn floor(x: Value) Value {
    return x.graph.emit("floor", 1, &.{x}, &.{}, 1)[0];
}

/// The nearest integer, ties to even; no gradient.
pub fn round(x: Value) Value {
    return x.graph.emit("round", 1, &.{x}, &.{}, 1)[0];
}

/// e to the x.
pub fn exp(x: Value) Value {
    return x.graph.emit("exp", 1, &.{x}, &.{}, 1)[0];
}

/// Natural logarithm.
pub fn log(x: Value) Value {
    return x.graph.emit("log", 1, &.{x}, &.{}, 1)[0];
}

/// log(1 + x), exact near 0.
pub fn log1p(x: Value) Value {
    return x.graph.emit("log1p", 1, &.{x}, &.{}, 1)[0];
}

/// Square root.
pub fn sqrt(x: Value) Value {
    return x.graph.emit("sqrt", 1, &.{x}, &.{}, 1)[0];
}

/// 1 / sqrt(x).
pub fn rsqrt(x: Value) Value {
    return x.graph.emit("rsqrt", 1, &.{x}, &.{}, 1)[0];
}

/// Sine of radians.
pub fn sin(x: Value) Value {
    return x.graph.emit("sin", 1, &.{x}, &.{}, 1)[0];
}

/// Cosine of radians.
pub fn cos(x: Value) Value {
    return x.graph.emit("cos", 1, &.{x}, &.{}, 1)[0];
}

/// The error function.
pub fn erf(x: Value) Value {
    return x.graph.emit("erf", 1, &.{x}, &.{}, 1)[0];
}

/// Hyperbolic tangent.
pub fn tanh(x: Value) Value {
    return x.graph.emit("tanh", 1, &.{x}, &.{}, 1)[0];
}

/// 1 / (1 + exp(-x)).
pub fn sigmoid(x: Value) Value {
    return x.graph.emit("sigmoid", 1, &.{x}, &.{}, 1)[0];
}

/// log(1 + exp(x)).
pub fn softplus(x: Value) Value {
    return x.graph.emit("softplus", 1, &.{x}, &.{}, 1)[0];
}

/// -log(1 + exp(-x)).
pub fn log_sigmoid(x: Value) Value {
    return x.graph.emit("log_sigmoid", 1, &.{x}, &.{}, 1)[0];
}

/// max(x, 0); gradient 0 at 0.
pub fn relu(x: Value) Value {
    return x.graph.emit("relu", 1, &.{x}, &.{}, 1)[0];
}

pub const GeluOptions = struct {
    tanh_approximation: i64 = 0,
};

/// x times the normal distribution function (Hendrycks and Gimpel 2016): exact by erf, or the tanh approximation that
/// GPT-2 uses.
pub fn gelu(x: Value, options: GeluOptions) Value {
    return x.graph.emit("gelu", 1, &.{x}, &.{sdk.attribute("tanh_approximation", options.tanh_approximation)}, 1)[0];
}

/// x * sigmoid(x).
pub fn silu(x: Value) Value {
    return x.graph.emit("silu", 1, &.{x}, &.{}, 1)[0];
}

/// x limited to [low, high]; gradient passes between the bounds, not at them.
pub fn clamp(x: Value, low: f64, high: f64) Value {
    return x.graph.emit("clamp", 1, &.{x}, &.{ sdk.attribute("low", low), sdk.attribute("high", high) }, 1)[0];
}

/// Another kind: 0 float, 1 float32, 2 int32 (rounded to zero; no gradient).
pub fn cast(x: Value, kind: i64) Value {
    return x.graph.emit("cast", 1, &.{x}, &.{sdk.attribute("kind", kind)}, 1)[0];
}

pub const DropoutOptions = struct {
    stream: i64 = -1,
};

/// 0 with the given probability, else x / (1 - probability), drawn by (seed, step, stream, example). In modes other
/// than train it is x itself. stream -1: the builder derives it from the scope.
pub fn dropout(x: Value, probability: f64, options: DropoutOptions) Value {
    return x.graph.emit("dropout", 1, &.{x}, &.{ sdk.attribute("probability", probability), sdk.attribute("stream", options.stream) }, 1)[0];
}

/// x, without a gradient.
pub fn stop_gradient(x: Value) Value {
    return x.graph.emit("stop_gradient", 1, &.{x}, &.{}, 1)[0];
}

pub const SumOptions = struct {
    keep: i64 = 0,
};

/// Sum over axes; the axes are removed, or kept as 1 with keep.
pub fn sum(x: Value, axes: []const i64, options: SumOptions) Value {
    return x.graph.emit("sum", 1, &.{x}, &.{ sdk.attribute("axes", axes), sdk.attribute("keep", options.keep) }, 1)[0];
}

pub const MeanOptions = struct {
    keep: i64 = 0,
};

/// Mean over axes.
pub fn mean(x: Value, axes: []const i64, options: MeanOptions) Value {
    return x.graph.emit("mean", 1, &.{x}, &.{ sdk.attribute("axes", axes), sdk.attribute("keep", options.keep) }, 1)[0];
}

pub const MaxOptions = struct {
    keep: i64 = 0,
};

/// Maximum over axes; at ties the gradient is shared evenly.
pub fn max(x: Value, axes: []const i64, options: MaxOptions) Value {
    return x.graph.emit("max", 1, &.{x}, &.{ sdk.attribute("axes", axes), sdk.attribute("keep", options.keep) }, 1)[0];
}

pub const LogsumexpOptions = struct {
    keep: i64 = 0,
};

/// log of the sum of exp over axes, without overflow.
pub fn logsumexp(x: Value, axes: []const i64, options: LogsumexpOptions) Value {
    return x.graph.emit("logsumexp", 1, &.{x}, &.{ sdk.attribute("axes", axes), sdk.attribute("keep", options.keep) }, 1)[0];
}

pub const ArgmaxOptions = struct {
    axis: i64 = -1,
};

/// int32 index of the first maximum along an axis, which is removed.
pub fn argmax(x: Value, options: ArgmaxOptions) Value {
    return x.graph.emit("argmax", 1, &.{x}, &.{sdk.attribute("axis", options.axis)}, 1)[0];
}

pub const CumsumOptions = struct {
    reverse: i64 = 0,
};

/// Running sum along an axis, from the other end with reverse.
pub fn cumsum(x: Value, axis: i64, options: CumsumOptions) Value {
    return x.graph.emit("cumsum", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("reverse", options.reverse) }, 1)[0];
}

pub const CumprodOptions = struct {
    reverse: i64 = 0,
};

/// Running product along an axis, from the other end with reverse.
pub fn cumprod(x: Value, axis: i64, options: CumprodOptions) Value {
    return x.graph.emit("cumprod", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("reverse", options.reverse) }, 1)[0];
}

pub const CummaxOptions = struct {
    reverse: i64 = 0,
};

pub const CummaxResult = struct {
    values: Value,
    indices: Value,
};

/// Running maximum along an axis, from the other end with reverse, and the int32 index of the element that holds it:
/// the latest one at ties. That element gets the gradient.
pub fn cummax(x: Value, axis: i64, options: CummaxOptions) CummaxResult {
    const outputs = x.graph.emit("cummax", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("reverse", options.reverse) }, 2);
    return .{ .values = outputs[0], .indices = outputs[1] };
}

pub const LogcumsumexpOptions = struct {
    reverse: i64 = 0,
};

/// log of the running sum of exp along an axis, from the other end with reverse, without overflow.
pub fn logcumsumexp(x: Value, axis: i64, options: LogcumsumexpOptions) Value {
    return x.graph.emit("logcumsumexp", 1, &.{x}, &.{ sdk.attribute("axis", axis), sdk.attribute("reverse", options.reverse) }, 1)[0];
}

pub const ScanLinearOptions = struct {
    initial: ?Value = null,
    reverse: i64 = 0,
};

/// A linear recurrence along an axis, from the other end with reverse (minGRU, RetNet, state spaces): y[i] = a[i] y[i
/// - 1] + x[i]. a has the shape of x. initial is y before the first element, of the shape of x without the axis;
/// without it the first a is not read.
pub fn scan_linear(x: Value, a: Value, axis: i64, options: ScanLinearOptions) Value {
    return x.graph.emit("scan_linear", 1, &.{ x, a, sdk.orNone(options.initial) }, &.{ sdk.attribute("axis", axis), sdk.attribute("reverse", options.reverse) }, 1)[0];
}

pub const TopKResult = struct {
    values: Value,
    indices: Value,
};

/// The k largest of the last axis, descending, first index first at ties, and their int32 indices.
pub fn top_k(x: Value, k: i64) TopKResult {
    const outputs = x.graph.emit("top_k", 1, &.{x}, &.{sdk.attribute("k", k)}, 2);
    return .{ .values = outputs[0], .indices = outputs[1] };
}

pub const RandomUniformOptions = struct {
    stream: i64 = -1,
};

/// Uniform in [0, 1), drawn by (seed, step, stream, example). stream as in dropout.
pub fn random_uniform(graph: *const Graph, shape: []const i64, options: RandomUniformOptions) Value {
    return graph.emit("random_uniform", 1, &.{}, &.{ sdk.attribute("shape", shape), sdk.attribute("stream", options.stream) }, 1)[0];
}

pub const RandomNormalOptions = struct {
    stream: i64 = -1,
};

/// Standard normal, drawn by (seed, step, stream, example).
pub fn random_normal(graph: *const Graph, shape: []const i64, options: RandomNormalOptions) Value {
    return graph.emit("random_normal", 1, &.{}, &.{ sdk.attribute("shape", shape), sdk.attribute("stream", options.stream) }, 1)[0];
}

pub const TruncatedNormalOptions = struct {
    low: f64 = -2.0,
    high: f64 = 2.0,
    stream: i64 = -1,
};

/// Standard normal within [low, high], as if numbers outside were drawn again (torch.nn.init.trunc_normal_ with mean
/// 0 and deviation 1), by the inverse of the distribution function of one number for each element, drawn by (seed,
/// step, stream, example).
pub fn truncated_normal(graph: *const Graph, shape: []const i64, options: TruncatedNormalOptions) Value {
    return graph.emit("truncated_normal", 1, &.{}, &.{ sdk.attribute("shape", shape), sdk.attribute("low", options.low), sdk.attribute("high", options.high), sdk.attribute("stream", options.stream) }, 1)[0];
}

pub const MatmulOptions = struct {
    transpose_a: i64 = 0,
    transpose_b: i64 = 0,
};

/// a [..., M, K] x b [..., K, N] -> [..., M, N]; leading dimensions broadcast; a transpose flag: the last two
/// dimensions are swapped in memory.
pub fn matmul(a: Value, b: Value, options: MatmulOptions) Value {
    return a.graph.emit("matmul", 1, &.{ a, b }, &.{ sdk.attribute("transpose_a", options.transpose_a), sdk.attribute("transpose_b", options.transpose_b) }, 1)[0];
}

pub const LinearOptions = struct {
    bias: ?Value = null,
    input_first: i64 = 0,
};

/// x [..., in] -> [..., out]: x W + bias. weight is [out, in], or [in, out] with input_first (GPT-2's Conv1D). A
/// linear whose weight is a parameter is a site under that name.
pub fn linear(x: Value, weight: Value, options: LinearOptions) Value {
    return x.graph.emit("linear", 1, &.{ x, weight, sdk.orNone(options.bias) }, &.{sdk.attribute("input_first", options.input_first)}, 1)[0];
}

pub const RowLinearOptions = struct {
    input_first: i64 = 0,
};

/// linear with a weight of its own for every row of the batch: x [B, ..., in], weights [E, out, in] ([E, in, out]
/// with input_first), rows [B] int32 -> y [B, ..., out]. Row b uses weights[rows[b]]; where rows[b] is -1, y is 0.
pub fn row_linear(x: Value, weights: Value, rows: Value, options: RowLinearOptions) Value {
    return x.graph.emit("row_linear", 1, &.{ x, weights, rows }, &.{sdk.attribute("input_first", options.input_first)}, 1)[0];
}

pub const Conv2dOptions = struct {
    bias: ?Value = null,
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    dilation: []const i64 = &.{},
    groups: i64 = 1,
};

/// x [B, H, W, C], weight [O, C / groups, kh, kw] as PyTorch stores it, bias [O] -> [B, H', W', O]: y[b, i, j, o] =
/// bias[o] + sum over c, u, v of weight[o, c, u, v] x[b, i stride + u dilation - padding, j stride + v dilation -
/// padding, c], where x is 0 outside. H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down.
/// Channels are the last dimension, as in linear: transpose PyTorch's [B, C, H, W] by {0, 2, 3, 1}. stride, padding
/// and dilation are one number, or one for H and one for W; [] is 1, 0 and 1. Output channel o reads the channels of
/// its group, o / (O / groups).
pub fn conv2d(x: Value, weight: Value, options: Conv2dOptions) Value {
    return x.graph.emit("conv2d", 1, &.{ x, weight, sdk.orNone(options.bias) }, &.{ sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("dilation", options.dilation), sdk.attribute("groups", options.groups) }, 1)[0];
}

pub const Conv1dOptions = struct {
    bias: ?Value = null,
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    dilation: []const i64 = &.{},
    groups: i64 = 1,
};

/// conv2d along one dimension: x [B, T, C], weight [O, C / groups, K], bias [O] -> [B, T', O]. Without later tokens
/// (a causal convolution): pad x at the front instead of padding.
pub fn conv1d(x: Value, weight: Value, options: Conv1dOptions) Value {
    return x.graph.emit("conv1d", 1, &.{ x, weight, sdk.orNone(options.bias) }, &.{ sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("dilation", options.dilation), sdk.attribute("groups", options.groups) }, 1)[0];
}

pub const MaxPool2dOptions = struct {
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    dilation: []const i64 = &.{},
};

/// The largest element of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d.
/// Padding is never the largest. kernel, stride, padding and dilation are one number, or one for H and one for W;
/// stride [] is the kernel. The first of equal elements gets the gradient; NaN is larger than every number.
pub fn max_pool2d(x: Value, kernel: []const i64, options: MaxPool2dOptions) Value {
    return x.graph.emit("max_pool2d", 1, &.{x}, &.{ sdk.attribute("kernel", kernel), sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("dilation", options.dilation) }, 1)[0];
}

pub const MaxPool1dOptions = struct {
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    dilation: []const i64 = &.{},
};

/// max_pool2d along one dimension: x [B, T, C] -> [B, T', C].
pub fn max_pool1d(x: Value, kernel: []const i64, options: MaxPool1dOptions) Value {
    return x.graph.emit("max_pool1d", 1, &.{x}, &.{ sdk.attribute("kernel", kernel), sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("dilation", options.dilation) }, 1)[0];
}

pub const AvgPool2dOptions = struct {
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    count_padding: i64 = 1,
};

/// The mean of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d. Padding counts
/// as zeros; with count_padding = 0 the mean is over the elements of x alone. stride [] is the kernel.
pub fn avg_pool2d(x: Value, kernel: []const i64, options: AvgPool2dOptions) Value {
    return x.graph.emit("avg_pool2d", 1, &.{x}, &.{ sdk.attribute("kernel", kernel), sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("count_padding", options.count_padding) }, 1)[0];
}

pub const AvgPool1dOptions = struct {
    stride: []const i64 = &.{},
    padding: []const i64 = &.{},
    count_padding: i64 = 1,
};

/// avg_pool2d along one dimension: x [B, T, C] -> [B, T', C].
pub fn avg_pool1d(x: Value, kernel: []const i64, options: AvgPool1dOptions) Value {
    return x.graph.emit("avg_pool1d", 1, &.{x}, &.{ sdk.attribute("kernel", kernel), sdk.attribute("stride", options.stride), sdk.attribute("padding", options.padding), sdk.attribute("count_padding", options.count_padding) }, 1)[0];
}

pub const LayerNormOptions = struct {
    gain: ?Value = null,
    bias: ?Value = null,
    epsilon: f64 = 1e-05,
};

/// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba et al. 2016); statistics in float32.
pub fn layer_norm(x: Value, options: LayerNormOptions) Value {
    return x.graph.emit("layer_norm", 1, &.{ x, sdk.orNone(options.gain), sdk.orNone(options.bias) }, &.{sdk.attribute("epsilon", options.epsilon)}, 1)[0];
}

pub const RmsNormOptions = struct {
    gain: ?Value = null,
    epsilon: f64 = 1e-06,
};

/// x / sqrt(mean(x^2) + epsilon) * gain over the last axis (Zhang and Sennrich 2019).
pub fn rms_norm(x: Value, options: RmsNormOptions) Value {
    return x.graph.emit("rms_norm", 1, &.{ x, sdk.orNone(options.gain) }, &.{sdk.attribute("epsilon", options.epsilon)}, 1)[0];
}

pub const SoftmaxOptions = struct {
    axis: i64 = -1,
};

/// exp(x) / sum exp(x) along an axis.
pub fn softmax(x: Value, options: SoftmaxOptions) Value {
    return x.graph.emit("softmax", 1, &.{x}, &.{sdk.attribute("axis", options.axis)}, 1)[0];
}

pub const LogSoftmaxOptions = struct {
    axis: i64 = -1,
};

/// x - logsumexp(x) along an axis.
pub fn log_softmax(x: Value, options: LogSoftmaxOptions) Value {
    return x.graph.emit("log_softmax", 1, &.{x}, &.{sdk.attribute("axis", options.axis)}, 1)[0];
}

pub const RotaryOptions = struct {
    positions: ?Value = null,
    interleaved: i64 = 0,
    inverse: i64 = 0,
};

/// Rotates pairs of x [B, H, T, D] by position (Su et al. 2021): cosine and sine are tables [P, R/2], R <= D; the
/// first R elements are rotated, pairs are (i, i + R/2), or (2i, 2i + 1) with interleaved. positions [B, T] int32
/// picks the row (default: the token's position, cache included). inverse: rotates back.
pub fn rotary(x: Value, cosine: Value, sine: Value, options: RotaryOptions) Value {
    return x.graph.emit("rotary", 1, &.{ x, cosine, sine, sdk.orNone(options.positions) }, &.{ sdk.attribute("interleaved", options.interleaved), sdk.attribute("inverse", options.inverse) }, 1)[0];
}

pub const EmbeddingOptions = struct {
    no_gradient_id: i64 = -1,
};

/// table [V, D], ids [...] int32 -> [..., D]. The row no_gradient_id gets no gradient through the lookup.
pub fn embedding(table: Value, ids: Value, options: EmbeddingOptions) Value {
    return table.graph.emit("embedding", 1, &.{ table, ids }, &.{sdk.attribute("no_gradient_id", options.no_gradient_id)}, 1)[0];
}

pub const GatherOptions = struct {
    batch_dimensions: i64 = 0,
};

/// x [B..., N, R...], indices [B..., K...] int32 -> [B..., K..., R...], with batch_dimensions leading dimensions in
/// common.
pub fn gather(x: Value, indices: Value, options: GatherOptions) Value {
    return x.graph.emit("gather", 1, &.{ x, indices }, &.{sdk.attribute("batch_dimensions", options.batch_dimensions)}, 1)[0];
}

pub const ScatterAddOptions = struct {
    batch_dimensions: i64 = 0,
};

/// x [B..., N, R...] with values [B..., K..., R...] added to the rows that indices [B..., K...] int32 name, with
/// batch_dimensions leading dimensions in common, as gather reads them. What is added to one row is summed in the
/// order of the indices, so that every run gives the same bits. Indices are 0 to N - 1; kernels leave out the values
/// of others.
pub fn scatter_add(x: Value, indices: Value, values: Value, options: ScatterAddOptions) Value {
    return x.graph.emit("scatter_add", 1, &.{ x, indices, values }, &.{sdk.attribute("batch_dimensions", options.batch_dimensions)}, 1)[0];
}

pub const ScatterOptions = struct {
    batch_dimensions: i64 = 0,
};

/// As scatter_add, but the values replace the rows. The indices of a batch must differ: duplicates are refused in a
/// constant and by the interpreter, and kernels take the last one.
pub fn scatter(x: Value, indices: Value, values: Value, options: ScatterOptions) Value {
    return x.graph.emit("scatter", 1, &.{ x, indices, values }, &.{sdk.attribute("batch_dimensions", options.batch_dimensions)}, 1)[0];
}

/// indices [...] int32 -> [..., size] int32: 1 at the index, else 0; any other index gives zeros. The graph has it as
/// compare of the indices with 0, 1, ...
pub fn one_hot(indices: Value, size: i64) Value {
    return indices.graph.emit("one_hot", 1, &.{indices}, &.{sdk.attribute("size", size)}, 1)[0];
}

pub const AttentionOptions = struct {
    bias: ?Value = null,
    distance_bias: ?Value = null,
    query_distance: ?Value = null,
    key_distance: ?Value = null,
    query_class: ?Value = null,
    q_class: ?Value = null,
    k_class: ?Value = null,
    key_padding: ?Value = null,
    query_padding: ?Value = null,
    mask: ?Value = null,
    q_group: ?Value = null,
    k_group: ?Value = null,
    q_position: ?Value = null,
    k_position: ?Value = null,
    prefix: ?Value = null,
    sinks: ?Value = null,
    scale: f64 = 0.0,
    causal: i64 = 0,
    window: i64 = 0,
    distance_first: i64 = 0,
    distance_table: []const i64 = &.{},
    key_distance_first: i64 = 0,
    key_distance_table: []const i64 = &.{},
    empty_row: i64 = 0,
    dropout: f64 = 0.0,
    stream: i64 = -1,
    cache: []const u8 = "",
    softcap: f64 = 0.0,
    window_after: i64 = 0,
};

/// q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] -> [B, Hq, Tq, Dv]; Hq is a multiple of Hkv. With d =
/// q_position[b,i] - k_position[b,j] (default: the index): score = s + bias[b|1,h|1,i,j] + distance_bias[h, t(d)] +
/// query_distance[b,h,i,t(d)] + key_distance[b,h,j,t'(-d)] + query_class[b,h,i, q_class[b,i] != k_class[b,j]], where
/// s is scale q.k, and with softcap c (0: none) c tanh(scale q.k / c). Allowed: causal (k_position <= q_position),
/// key_padding[b,j] != 0, query_padding[b,i] != 0, mask[b|1,h|1,i,j] != 0, q_group == k_group, d < window, -d <
/// window_after (0: no limit), k_position < prefix[b] (which overrides causal). t(d) = distance_table[clamp(d -
/// distance_first)], t'(d) = key_distance_table[clamp(d - key_distance_first)]. A row with nothing allowed gives the
/// mean of v over all Tk keys (no gradient to scores), or zeros with empty_row = 1. sinks[h] is the score of one more
/// key of each row, which is always allowed and has no value: it adds to the sum that probabilities are divided by,
/// and a row with nothing else allowed gives zeros. scale 0: 1/sqrt(D). cache: a name under which keys and values are
/// kept in decode mode. position -1 queries with dropout: by key (seed, step, stream, example).
pub fn attention(q: Value, k: Value, v: Value, options: AttentionOptions) Value {
    if (options.sinks != null or options.softcap != 0 or options.window_after != 0) return q.graph.emit("attention", 2, &.{ q, k, v, sdk.orNone(options.bias), sdk.orNone(options.distance_bias), sdk.orNone(options.query_distance), sdk.orNone(options.key_distance), sdk.orNone(options.query_class), sdk.orNone(options.q_class), sdk.orNone(options.k_class), sdk.orNone(options.key_padding), sdk.orNone(options.query_padding), sdk.orNone(options.mask), sdk.orNone(options.q_group), sdk.orNone(options.k_group), sdk.orNone(options.q_position), sdk.orNone(options.k_position), sdk.orNone(options.prefix), sdk.orNone(options.sinks) }, &.{ sdk.attribute("scale", options.scale), sdk.attribute("causal", options.causal), sdk.attribute("window", options.window), sdk.attribute("distance_first", options.distance_first), sdk.attribute("distance_table", options.distance_table), sdk.attribute("key_distance_first", options.key_distance_first), sdk.attribute("key_distance_table", options.key_distance_table), sdk.attribute("empty_row", options.empty_row), sdk.attribute("dropout", options.dropout), sdk.attribute("stream", options.stream), sdk.attribute("cache", options.cache), sdk.attribute("softcap", options.softcap), sdk.attribute("window_after", options.window_after) }, 1)[0];
    return q.graph.emit("attention", 1, &.{ q, k, v, sdk.orNone(options.bias), sdk.orNone(options.distance_bias), sdk.orNone(options.query_distance), sdk.orNone(options.key_distance), sdk.orNone(options.query_class), sdk.orNone(options.q_class), sdk.orNone(options.k_class), sdk.orNone(options.key_padding), sdk.orNone(options.query_padding), sdk.orNone(options.mask), sdk.orNone(options.q_group), sdk.orNone(options.k_group), sdk.orNone(options.q_position), sdk.orNone(options.k_position), sdk.orNone(options.prefix) }, &.{ sdk.attribute("scale", options.scale), sdk.attribute("causal", options.causal), sdk.attribute("window", options.window), sdk.attribute("distance_first", options.distance_first), sdk.attribute("distance_table", options.distance_table), sdk.attribute("key_distance_first", options.key_distance_first), sdk.attribute("key_distance_table", options.key_distance_table), sdk.attribute("empty_row", options.empty_row), sdk.attribute("dropout", options.dropout), sdk.attribute("stream", options.stream), sdk.attribute("cache", options.cache) }, 1)[0];
}

pub const GruOptions = struct {
    lengths: ?Value = null,
    initial: ?Value = null,
    reverse: i64 = 0,
};

pub const GruResult = struct {
    y: Value,
    last: Value,
};

/// A GRU layer over x [B, T, I] (Cho et al. 2014, PyTorch's form): weights [3H, I] and [3H, H], biases [3H], gates r,
/// z, n. lengths [B]: row b reads its first lengths[b] tokens and the rest of y is 0. reverse: from the last real
/// token to the first, y at the token's own place. initial [B, H], default 0. -> y [B, T, H], last [B, H].
pub fn gru(x: Value, input_weight: Value, hidden_weight: Value, input_bias: Value, hidden_bias: Value, options: GruOptions) GruResult {
    const outputs = x.graph.emit("gru", 1, &.{ x, input_weight, hidden_weight, input_bias, hidden_bias, sdk.orNone(options.lengths), sdk.orNone(options.initial) }, &.{sdk.attribute("reverse", options.reverse)}, 2);
    return .{ .y = outputs[0], .last = outputs[1] };
}

pub const LstmOptions = struct {
    lengths: ?Value = null,
    initial: ?Value = null,
    initial_cell: ?Value = null,
    reverse: i64 = 0,
};

pub const LstmResult = struct {
    y: Value,
    last: Value,
    last_cell: Value,
};

/// An LSTM layer (Hochreiter and Schmidhuber 1997, PyTorch's form): weights [4H, I] and [4H, H], biases [4H], gates
/// i, f, g, o; the rest as gru. -> y [B, T, H], last [B, H], last_cell [B, H].
pub fn lstm(x: Value, input_weight: Value, hidden_weight: Value, input_bias: Value, hidden_bias: Value, options: LstmOptions) LstmResult {
    const outputs = x.graph.emit("lstm", 1, &.{ x, input_weight, hidden_weight, input_bias, hidden_bias, sdk.orNone(options.lengths), sdk.orNone(options.initial), sdk.orNone(options.initial_cell) }, &.{sdk.attribute("reverse", options.reverse)}, 3);
    return .{ .y = outputs[0], .last = outputs[1], .last_cell = outputs[2] };
}

pub const LoopIndexOptions = struct {
    reverse: i64 = 0,
};

/// A loop of `length` steps, as the int32 [] index of its step: 0, 1, ..., or length - 1, ..., 0 with reverse. What
/// is computed from it, or from its loop_step and loop_state, is the loop's body: computed once for each step. Other
/// values are computed once and the same in every step. A value of a body is used in the body, or by loop_next and
/// loop_collect. The graph has the body as often as the loop has steps; a product with a matrix that does not change
/// over the steps is cheaper before the loop.
pub fn loop_index(graph: *const Graph, length: i64, options: LoopIndexOptions) Value {
    return graph.emit("loop_index", 1, &.{}, &.{ sdk.attribute("length", length), sdk.attribute("reverse", options.reverse) }, 1)[0];
}

pub const LoopStepOptions = struct {
    axis: i64 = 1,
};

/// What x has for this step of the loop: its elements at the index, without the axis, which is as long as the loop.
pub fn loop_step(index: Value, x: Value, options: LoopStepOptions) Value {
    return index.graph.emit("loop_step", 1, &.{ index, x }, &.{sdk.attribute("axis", options.axis)}, 1)[0];
}

/// A value that steps pass on: initial in the first step, then what loop_next gave it in the step before. Each state
/// has one loop_next.
pub fn loop_state(index: Value, initial: Value) Value {
    return index.graph.emit("loop_state", 1, &.{ index, initial }, &.{}, 1)[0];
}

/// Gives a loop_state its value for the next step, of the same shape and kind. The result is that of the last step,
/// for use after the loop.
pub fn loop_next(state: Value, next: Value) Value {
    return state.graph.emit("loop_next", 1, &.{ state, next }, &.{}, 1)[0];
}

pub const LoopCollectOptions = struct {
    axis: i64 = 1,
};

/// The values of y in all steps, joined along a new axis: that of a step at its index.
pub fn loop_collect(index: Value, y: Value, options: LoopCollectOptions) Value {
    return index.graph.emit("loop_collect", 1, &.{ index, y }, &.{sdk.attribute("axis", options.axis)}, 1)[0];
}

pub const CrossEntropyOptions = struct {
    weights: ?Value = null,
    ignore_index: i64 = -100,
    smoothing: f64 = 0.0,
};

/// logits [..., V], labels [...] int32 -> loss [...] float32 per row: -w[label] log softmax(logits)[label], 0 where
/// label = ignore_index; with smoothing s: (1 - s) times that + s/V sum_c w[c] (-log softmax)[c]. weights [V],
/// default 1.
pub fn cross_entropy(logits: Value, labels: Value, options: CrossEntropyOptions) Value {
    return logits.graph.emit("cross_entropy", 1, &.{ logits, labels, sdk.orNone(options.weights) }, &.{ sdk.attribute("ignore_index", options.ignore_index), sdk.attribute("smoothing", options.smoothing) }, 1)[0];
}

/// x itself; in decode mode the value that the encode pass computed under this name.
pub fn once(x: Value, name: []const u8) Value {
    return x.graph.emit("once", 1, &.{x}, &.{sdk.attribute("name", name)}, 1)[0];
}

/// initial itself; in decode mode the value last written under this name.
pub fn state_read(initial: Value, name: []const u8) Value {
    return initial.graph.emit("state_read", 1, &.{initial}, &.{sdk.attribute("name", name)}, 1)[0];
}

/// x itself; in decode mode it is kept under this name.
pub fn state_write(x: Value, name: []const u8) Value {
    return x.graph.emit("state_write", 1, &.{x}, &.{sdk.attribute("name", name)}, 1)[0];
}

/// value itself; in a training the buffer (a value of buffer()) gets it when the step updates the parameters: the
/// mean over the micro-batches of the step, each computed with the buffers and parameters from before the step. A
/// skipped step changes no buffer. In modes other than train nothing is written. One update for each buffer, of its
/// shape. No gradient flows into a buffer.
pub fn buffer_update(buffer_: Value, value: Value) Value {
    return buffer_.graph.emit("buffer_update", 1, &.{ buffer_, value }, &.{}, 1)[0];
}

/// x itself, as the sum of a loss, which then gives gradients to the parameters with these names alone: patterns with
/// *, separated by commas. A parameter that several losses name gets the sum of their gradients. If one loss of a
/// graph names its parameters, all do.
pub fn for_parameters(x: Value, names: []const u8) Value {
    return x.graph.emit("for_parameters", 1, &.{x}, &.{sdk.attribute("names", names)}, 1)[0];
}

/// x itself, under a name that the graph has once. hekla train --tap NAME shows its statistics in every step and can
/// store its values; without it, nothing is computed or stored for a tap.
pub fn tap(x: Value, name: []const u8) Value {
    return x.graph.emit("tap", 1, &.{x}, &.{sdk.attribute("name", name)}, 1)[0];
}

/// x itself: a named place where an adapter may act.
pub fn site(x: Value, name: []const u8) Value {
    return x.graph.emit("site", 1, &.{x}, &.{sdk.attribute("name", name)}, 1)[0];
}

/// The gradient of the sum of y with respect to x, from which y was computed: a value like any other, so that a loss
/// may contain it (a gradient penalty). It can be differentiated again where the operations between x and y can: not
/// attention, gru, lstm, cross_entropy, max_pool2d, rotary with tables that learn, and plugins' own operations.
pub fn gradient_of(y: Value, x: Value) Value {
    return y.graph.emit("gradient_of", 1, &.{ y, x }, &.{}, 1)[0];
}

/// In place of the gradient that will come to y, for with_gradient.
pub fn incoming_gradient(y: Value) Value {
    return y.graph.emit("incoming_gradient", 1, &.{y}, &.{}, 1)[0];
}

/// y itself, with a gradient of its own. parts: y; dy = incoming_gradient(y); and pairs of a value x and its
/// gradient, computed from dy and any other values. No gradient flows through y; the x need not be what y was
/// computed from. dy is of no use elsewhere.
pub fn with_gradient(parts: []const Value) Value {
    return parts[0].graph.emit("with_gradient", 1, parts, &.{}, 1)[0];
}
