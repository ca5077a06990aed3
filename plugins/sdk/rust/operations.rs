// The operations as functions of Value: NAME(...), and NAME_with(..., NAMEOptions::new().key(value)) where there are options.
// Made by tools/generate_abi from engine/graph/operations.json. Edit that instead.

use super::{Attribute, Graph, Value};

/// The same elements in row-major order under another shape.
#[track_caller]
pub fn reshape<'g>(x: Value<'g>, shape: &[i64]) -> Value<'g> {
    x.graph().emit("reshape", 1, &[x.id()], &[("shape", Attribute::Ints(shape))], 1)[0]
}

/// y's dimension i is x's dimension permutation[i].
#[track_caller]
pub fn transpose<'g>(x: Value<'g>, permutation: &[i64]) -> Value<'g> {
    x.graph().emit("transpose", 1, &[x.id()], &[("permutation", Attribute::Ints(permutation))], 1)[0]
}

#[derive(Clone)]
pub struct SliceOptions {
    pub stride: i64,
}
impl Default for SliceOptions {
    fn default() -> Self {
        SliceOptions { stride: 1, }
    }
}
impl SliceOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stride(mut self, stride: impl Into<i64>) -> Self {
        self.stride = stride.into();
        self
    }
}

/// Elements start, start+stride, ... (length of them) of one axis.
#[track_caller]
pub fn slice<'g>(x: Value<'g>, axis: i64, start: i64, length: i64) -> Value<'g> {
    slice_with(x, axis, start, length, SliceOptions::default())
}
#[track_caller]
pub fn slice_with<'g>(x: Value<'g>, axis: i64, start: i64, length: i64, options: SliceOptions) -> Value<'g> {
    x.graph().emit("slice", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("start", Attribute::Int(start)), ("length", Attribute::Int(length)), ("stride", Attribute::Int(options.stride))], 1)[0]
}

/// Joins values along an axis; the other dimensions agree.
#[track_caller]
pub fn concat<'g>(parts: &[Value<'g>], axis: i64) -> Value<'g> {
    Graph::of(parts).emit("concat", 1, &Value::ids(parts), &[("axis", Attribute::Int(axis))], 1)[0]
}

#[derive(Clone)]
pub struct PadOptions {
    pub before: i64,
    pub after: i64,
    pub value: f64,
}
impl Default for PadOptions {
    fn default() -> Self {
        PadOptions { before: 0, after: 0, value: 0.0, }
    }
}
impl PadOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn before(mut self, before: impl Into<i64>) -> Self {
        self.before = before.into();
        self
    }
    pub fn after(mut self, after: impl Into<i64>) -> Self {
        self.after = after.into();
        self
    }
    pub fn value(mut self, value: f64) -> Self {
        self.value = value;
        self
    }
}

/// Adds before and after elements of a value to one axis.
#[track_caller]
pub fn pad<'g>(x: Value<'g>, axis: i64) -> Value<'g> {
    pad_with(x, axis, PadOptions::default())
}
#[track_caller]
pub fn pad_with<'g>(x: Value<'g>, axis: i64, options: PadOptions) -> Value<'g> {
    x.graph().emit("pad", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("before", Attribute::Int(options.before)), ("after", Attribute::Int(options.after)), ("value", Attribute::Real(options.value))], 1)[0]
}

/// Repeats x to a shape by NumPy's rule (dimensions align at the end, 1 repeats).
#[track_caller]
pub fn broadcast<'g>(x: Value<'g>, shape: &[i64]) -> Value<'g> {
    x.graph().emit("broadcast", 1, &[x.id()], &[("shape", Attribute::Ints(shape))], 1)[0]
}

/// Reverses one axis.
#[track_caller]
pub fn flip<'g>(x: Value<'g>, axis: i64) -> Value<'g> {
    x.graph().emit("flip", 1, &[x.id()], &[("axis", Attribute::Int(axis))], 1)[0]
}

/// a + b; shapes broadcast by NumPy's rule, as in every pointwise operation.
#[track_caller]
pub fn add<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("add", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// a - b.
#[track_caller]
pub fn sub<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("sub", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// a * b.
#[track_caller]
pub fn mul<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("mul", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// a / b; for integers the quotient rounded to zero.
#[track_caller]
pub fn div<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("div", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// a to the power b.
#[track_caller]
pub fn pow<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("pow", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// The smaller of a and b; at a tie each gets half the gradient.
#[track_caller]
pub fn minimum<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("minimum", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// The larger of a and b; at a tie each gets half the gradient.
#[track_caller]
pub fn maximum<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    a.graph().emit("maximum", 1, &[a.id(), b.id()], &[], 1)[0]
}

/// 1 where the relation holds, else 0, as int32. relation: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater,
/// 5 greater or equal.
#[track_caller]
pub fn compare<'g>(a: Value<'g>, b: Value<'g>, relation: i64) -> Value<'g> {
    a.graph().emit("compare", 1, &[a.id(), b.id()], &[("relation", Attribute::Int(relation))], 1)[0]
}

/// a where condition is not 0, else b.
#[track_caller]
pub fn where_<'g>(condition: Value<'g>, a: Value<'g>, b: Value<'g>) -> Value<'g> {
    condition.graph().emit("where", 1, &[condition.id(), a.id(), b.id()], &[], 1)[0]
}

/// -x.
#[track_caller]
pub fn neg<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("neg", 1, &[x.id()], &[], 1)[0]
}

/// |x|; gradient 0 at 0.
#[track_caller]
pub fn abs<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("abs", 1, &[x.id()], &[], 1)[0]
}

/// -1, 0 or 1; no gradient.
#[track_caller]
pub fn sign<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("sign", 1, &[x.id()], &[], 1)[0]
}

/// The largest integer not above x; no gradient.
#[track_caller]
pub fn floor<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("floor", 1, &[x.id()], &[], 1)[0]
}

/// The nearest integer, ties to even; no gradient.
#[track_caller]
pub fn round<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("round", 1, &[x.id()], &[], 1)[0]
}

/// e to the x.
#[track_caller]
pub fn exp<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("exp", 1, &[x.id()], &[], 1)[0]
}

/// Natural logarithm.
#[track_caller]
pub fn log<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("log", 1, &[x.id()], &[], 1)[0]
}

/// log(1 + x), exact near 0.
#[track_caller]
pub fn log1p<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("log1p", 1, &[x.id()], &[], 1)[0]
}

/// Square root.
#[track_caller]
pub fn sqrt<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("sqrt", 1, &[x.id()], &[], 1)[0]
}

/// 1 / sqrt(x).
#[track_caller]
pub fn rsqrt<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("rsqrt", 1, &[x.id()], &[], 1)[0]
}

/// Sine of radians.
#[track_caller]
pub fn sin<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("sin", 1, &[x.id()], &[], 1)[0]
}

/// Cosine of radians.
#[track_caller]
pub fn cos<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("cos", 1, &[x.id()], &[], 1)[0]
}

/// The error function.
#[track_caller]
pub fn erf<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("erf", 1, &[x.id()], &[], 1)[0]
}

/// Hyperbolic tangent.
#[track_caller]
pub fn tanh<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("tanh", 1, &[x.id()], &[], 1)[0]
}

/// 1 / (1 + exp(-x)).
#[track_caller]
pub fn sigmoid<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("sigmoid", 1, &[x.id()], &[], 1)[0]
}

/// log(1 + exp(x)).
#[track_caller]
pub fn softplus<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("softplus", 1, &[x.id()], &[], 1)[0]
}

/// -log(1 + exp(-x)).
#[track_caller]
pub fn log_sigmoid<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("log_sigmoid", 1, &[x.id()], &[], 1)[0]
}

/// max(x, 0); gradient 0 at 0.
#[track_caller]
pub fn relu<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("relu", 1, &[x.id()], &[], 1)[0]
}

#[derive(Clone)]
pub struct GeluOptions {
    pub tanh_approximation: i64,
}
impl Default for GeluOptions {
    fn default() -> Self {
        GeluOptions { tanh_approximation: 0, }
    }
}
impl GeluOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn tanh_approximation(mut self, tanh_approximation: impl Into<i64>) -> Self {
        self.tanh_approximation = tanh_approximation.into();
        self
    }
}

/// x times the normal distribution function (Hendrycks and Gimpel 2016): exact by erf, or the tanh approximation that
/// GPT-2 uses.
#[track_caller]
pub fn gelu<'g>(x: Value<'g>) -> Value<'g> {
    gelu_with(x, GeluOptions::default())
}
#[track_caller]
pub fn gelu_with<'g>(x: Value<'g>, options: GeluOptions) -> Value<'g> {
    x.graph().emit("gelu", 1, &[x.id()], &[("tanh_approximation", Attribute::Int(options.tanh_approximation))], 1)[0]
}

/// x * sigmoid(x).
#[track_caller]
pub fn silu<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("silu", 1, &[x.id()], &[], 1)[0]
}

/// x limited to [low, high]; gradient passes between the bounds, not at them.
#[track_caller]
pub fn clamp<'g>(x: Value<'g>, low: f64, high: f64) -> Value<'g> {
    x.graph().emit("clamp", 1, &[x.id()], &[("low", Attribute::Real(low)), ("high", Attribute::Real(high))], 1)[0]
}

/// Another kind: 0 float, 1 float32, 2 int32 (rounded to zero; no gradient).
#[track_caller]
pub fn cast<'g>(x: Value<'g>, kind: i64) -> Value<'g> {
    x.graph().emit("cast", 1, &[x.id()], &[("kind", Attribute::Int(kind))], 1)[0]
}

#[derive(Clone)]
pub struct DropoutOptions {
    pub stream: i64,
}
impl Default for DropoutOptions {
    fn default() -> Self {
        DropoutOptions { stream: -1, }
    }
}
impl DropoutOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stream(mut self, stream: impl Into<i64>) -> Self {
        self.stream = stream.into();
        self
    }
}

/// 0 with the given probability, else x / (1 - probability), drawn by (seed, step, stream, example). In modes other
/// than train it is x itself. stream -1: the builder derives it from the scope.
#[track_caller]
pub fn dropout<'g>(x: Value<'g>, probability: f64) -> Value<'g> {
    dropout_with(x, probability, DropoutOptions::default())
}
#[track_caller]
pub fn dropout_with<'g>(x: Value<'g>, probability: f64, options: DropoutOptions) -> Value<'g> {
    x.graph().emit("dropout", 1, &[x.id()], &[("probability", Attribute::Real(probability)), ("stream", Attribute::Int(options.stream))], 1)[0]
}

/// x, without a gradient.
#[track_caller]
pub fn stop_gradient<'g>(x: Value<'g>) -> Value<'g> {
    x.graph().emit("stop_gradient", 1, &[x.id()], &[], 1)[0]
}

#[derive(Clone)]
pub struct SumOptions {
    pub keep: i64,
}
impl Default for SumOptions {
    fn default() -> Self {
        SumOptions { keep: 0, }
    }
}
impl SumOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn keep(mut self, keep: impl Into<i64>) -> Self {
        self.keep = keep.into();
        self
    }
}

/// Sum over axes; the axes are removed, or kept as 1 with keep.
#[track_caller]
pub fn sum<'g>(x: Value<'g>, axes: &[i64]) -> Value<'g> {
    sum_with(x, axes, SumOptions::default())
}
#[track_caller]
pub fn sum_with<'g>(x: Value<'g>, axes: &[i64], options: SumOptions) -> Value<'g> {
    x.graph().emit("sum", 1, &[x.id()], &[("axes", Attribute::Ints(axes)), ("keep", Attribute::Int(options.keep))], 1)[0]
}

#[derive(Clone)]
pub struct MeanOptions {
    pub keep: i64,
}
impl Default for MeanOptions {
    fn default() -> Self {
        MeanOptions { keep: 0, }
    }
}
impl MeanOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn keep(mut self, keep: impl Into<i64>) -> Self {
        self.keep = keep.into();
        self
    }
}

/// Mean over axes.
#[track_caller]
pub fn mean<'g>(x: Value<'g>, axes: &[i64]) -> Value<'g> {
    mean_with(x, axes, MeanOptions::default())
}
#[track_caller]
pub fn mean_with<'g>(x: Value<'g>, axes: &[i64], options: MeanOptions) -> Value<'g> {
    x.graph().emit("mean", 1, &[x.id()], &[("axes", Attribute::Ints(axes)), ("keep", Attribute::Int(options.keep))], 1)[0]
}

#[derive(Clone)]
pub struct MaxOptions {
    pub keep: i64,
}
impl Default for MaxOptions {
    fn default() -> Self {
        MaxOptions { keep: 0, }
    }
}
impl MaxOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn keep(mut self, keep: impl Into<i64>) -> Self {
        self.keep = keep.into();
        self
    }
}

/// Maximum over axes; at ties the gradient is shared evenly.
#[track_caller]
pub fn max<'g>(x: Value<'g>, axes: &[i64]) -> Value<'g> {
    max_with(x, axes, MaxOptions::default())
}
#[track_caller]
pub fn max_with<'g>(x: Value<'g>, axes: &[i64], options: MaxOptions) -> Value<'g> {
    x.graph().emit("max", 1, &[x.id()], &[("axes", Attribute::Ints(axes)), ("keep", Attribute::Int(options.keep))], 1)[0]
}

#[derive(Clone)]
pub struct LogsumexpOptions {
    pub keep: i64,
}
impl Default for LogsumexpOptions {
    fn default() -> Self {
        LogsumexpOptions { keep: 0, }
    }
}
impl LogsumexpOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn keep(mut self, keep: impl Into<i64>) -> Self {
        self.keep = keep.into();
        self
    }
}

/// log of the sum of exp over axes, without overflow.
#[track_caller]
pub fn logsumexp<'g>(x: Value<'g>, axes: &[i64]) -> Value<'g> {
    logsumexp_with(x, axes, LogsumexpOptions::default())
}
#[track_caller]
pub fn logsumexp_with<'g>(x: Value<'g>, axes: &[i64], options: LogsumexpOptions) -> Value<'g> {
    x.graph().emit("logsumexp", 1, &[x.id()], &[("axes", Attribute::Ints(axes)), ("keep", Attribute::Int(options.keep))], 1)[0]
}

#[derive(Clone)]
pub struct ArgmaxOptions {
    pub axis: i64,
}
impl Default for ArgmaxOptions {
    fn default() -> Self {
        ArgmaxOptions { axis: -1, }
    }
}
impl ArgmaxOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn axis(mut self, axis: impl Into<i64>) -> Self {
        self.axis = axis.into();
        self
    }
}

/// int32 index of the first maximum along an axis, which is removed.
#[track_caller]
pub fn argmax<'g>(x: Value<'g>) -> Value<'g> {
    argmax_with(x, ArgmaxOptions::default())
}
#[track_caller]
pub fn argmax_with<'g>(x: Value<'g>, options: ArgmaxOptions) -> Value<'g> {
    x.graph().emit("argmax", 1, &[x.id()], &[("axis", Attribute::Int(options.axis))], 1)[0]
}

#[derive(Clone)]
pub struct CumsumOptions {
    pub reverse: i64,
}
impl Default for CumsumOptions {
    fn default() -> Self {
        CumsumOptions { reverse: 0, }
    }
}
impl CumsumOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

/// Running sum along an axis, from the other end with reverse.
#[track_caller]
pub fn cumsum<'g>(x: Value<'g>, axis: i64) -> Value<'g> {
    cumsum_with(x, axis, CumsumOptions::default())
}
#[track_caller]
pub fn cumsum_with<'g>(x: Value<'g>, axis: i64, options: CumsumOptions) -> Value<'g> {
    x.graph().emit("cumsum", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("reverse", Attribute::Int(options.reverse))], 1)[0]
}

#[derive(Clone, Copy)]
pub struct TopKResult<'g> {
    pub values: Value<'g>,
    pub indices: Value<'g>,
}
/// The k largest of the last axis, descending, first index first at ties, and their int32 indices.
#[track_caller]
pub fn top_k<'g>(x: Value<'g>, k: i64) -> TopKResult<'g> {
    let outputs = x.graph().emit("top_k", 1, &[x.id()], &[("k", Attribute::Int(k))], 2);
    TopKResult { values: outputs[0], indices: outputs[1], }
}

#[derive(Clone)]
pub struct RandomUniformOptions {
    pub stream: i64,
}
impl Default for RandomUniformOptions {
    fn default() -> Self {
        RandomUniformOptions { stream: -1, }
    }
}
impl RandomUniformOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stream(mut self, stream: impl Into<i64>) -> Self {
        self.stream = stream.into();
        self
    }
}

/// Uniform in [0, 1), drawn by (seed, step, stream, example). stream as in dropout.
#[track_caller]
pub fn random_uniform<'g>(graph: &'g Graph, shape: &[i64]) -> Value<'g> {
    random_uniform_with(graph, shape, RandomUniformOptions::default())
}
#[track_caller]
pub fn random_uniform_with<'g>(graph: &'g Graph, shape: &[i64], options: RandomUniformOptions) -> Value<'g> {
    graph.emit("random_uniform", 1, &[], &[("shape", Attribute::Ints(shape)), ("stream", Attribute::Int(options.stream))], 1)[0]
}

#[derive(Clone)]
pub struct RandomNormalOptions {
    pub stream: i64,
}
impl Default for RandomNormalOptions {
    fn default() -> Self {
        RandomNormalOptions { stream: -1, }
    }
}
impl RandomNormalOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stream(mut self, stream: impl Into<i64>) -> Self {
        self.stream = stream.into();
        self
    }
}

/// Standard normal, drawn by (seed, step, stream, example).
#[track_caller]
pub fn random_normal<'g>(graph: &'g Graph, shape: &[i64]) -> Value<'g> {
    random_normal_with(graph, shape, RandomNormalOptions::default())
}
#[track_caller]
pub fn random_normal_with<'g>(graph: &'g Graph, shape: &[i64], options: RandomNormalOptions) -> Value<'g> {
    graph.emit("random_normal", 1, &[], &[("shape", Attribute::Ints(shape)), ("stream", Attribute::Int(options.stream))], 1)[0]
}

#[derive(Clone)]
pub struct MatmulOptions {
    pub transpose_a: i64,
    pub transpose_b: i64,
}
impl Default for MatmulOptions {
    fn default() -> Self {
        MatmulOptions { transpose_a: 0, transpose_b: 0, }
    }
}
impl MatmulOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn transpose_a(mut self, transpose_a: impl Into<i64>) -> Self {
        self.transpose_a = transpose_a.into();
        self
    }
    pub fn transpose_b(mut self, transpose_b: impl Into<i64>) -> Self {
        self.transpose_b = transpose_b.into();
        self
    }
}

/// a [..., M, K] x b [..., K, N] -> [..., M, N]; leading dimensions broadcast; a transpose flag: the last two
/// dimensions are swapped in memory.
#[track_caller]
pub fn matmul<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    matmul_with(a, b, MatmulOptions::default())
}
#[track_caller]
pub fn matmul_with<'g>(a: Value<'g>, b: Value<'g>, options: MatmulOptions) -> Value<'g> {
    a.graph().emit("matmul", 1, &[a.id(), b.id()], &[("transpose_a", Attribute::Int(options.transpose_a)), ("transpose_b", Attribute::Int(options.transpose_b))], 1)[0]
}

#[derive(Clone)]
pub struct LinearOptions<'g> {
    pub bias: Option<Value<'g>>,
    pub input_first: i64,
}
impl<'g> Default for LinearOptions<'g> {
    fn default() -> Self {
        LinearOptions { bias: None, input_first: 0, }
    }
}
impl<'g> LinearOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn bias(mut self, bias: impl Into<Option<Value<'g>>>) -> Self {
        self.bias = bias.into();
        self
    }
    pub fn input_first(mut self, input_first: impl Into<i64>) -> Self {
        self.input_first = input_first.into();
        self
    }
}

/// x [..., in] -> [..., out]: x W + bias. weight is [out, in], or [in, out] with input_first (GPT-2's Conv1D). A
/// linear whose weight is a parameter is a site under that name.
#[track_caller]
pub fn linear<'g>(x: Value<'g>, weight: Value<'g>) -> Value<'g> {
    linear_with(x, weight, LinearOptions::default())
}
#[track_caller]
pub fn linear_with<'g>(x: Value<'g>, weight: Value<'g>, options: LinearOptions<'g>) -> Value<'g> {
    x.graph().emit("linear", 1, &[x.id(), weight.id(), Value::id_or_none(options.bias)], &[("input_first", Attribute::Int(options.input_first))], 1)[0]
}

#[derive(Clone)]
pub struct LayerNormOptions<'g> {
    pub gain: Option<Value<'g>>,
    pub bias: Option<Value<'g>>,
    pub epsilon: f64,
}
impl<'g> Default for LayerNormOptions<'g> {
    fn default() -> Self {
        LayerNormOptions { gain: None, bias: None, epsilon: 1e-05, }
    }
}
impl<'g> LayerNormOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn gain(mut self, gain: impl Into<Option<Value<'g>>>) -> Self {
        self.gain = gain.into();
        self
    }
    pub fn bias(mut self, bias: impl Into<Option<Value<'g>>>) -> Self {
        self.bias = bias.into();
        self
    }
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

/// (x - mean) / sqrt(variance + epsilon) * gain + bias over the last axis (Ba et al. 2016); statistics in float32.
#[track_caller]
pub fn layer_norm<'g>(x: Value<'g>) -> Value<'g> {
    layer_norm_with(x, LayerNormOptions::default())
}
#[track_caller]
pub fn layer_norm_with<'g>(x: Value<'g>, options: LayerNormOptions<'g>) -> Value<'g> {
    x.graph().emit("layer_norm", 1, &[x.id(), Value::id_or_none(options.gain), Value::id_or_none(options.bias)], &[("epsilon", Attribute::Real(options.epsilon))], 1)[0]
}

#[derive(Clone)]
pub struct RmsNormOptions<'g> {
    pub gain: Option<Value<'g>>,
    pub epsilon: f64,
}
impl<'g> Default for RmsNormOptions<'g> {
    fn default() -> Self {
        RmsNormOptions { gain: None, epsilon: 1e-06, }
    }
}
impl<'g> RmsNormOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn gain(mut self, gain: impl Into<Option<Value<'g>>>) -> Self {
        self.gain = gain.into();
        self
    }
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

/// x / sqrt(mean(x^2) + epsilon) * gain over the last axis (Zhang and Sennrich 2019).
#[track_caller]
pub fn rms_norm<'g>(x: Value<'g>) -> Value<'g> {
    rms_norm_with(x, RmsNormOptions::default())
}
#[track_caller]
pub fn rms_norm_with<'g>(x: Value<'g>, options: RmsNormOptions<'g>) -> Value<'g> {
    x.graph().emit("rms_norm", 1, &[x.id(), Value::id_or_none(options.gain)], &[("epsilon", Attribute::Real(options.epsilon))], 1)[0]
}

#[derive(Clone)]
pub struct SoftmaxOptions {
    pub axis: i64,
}
impl Default for SoftmaxOptions {
    fn default() -> Self {
        SoftmaxOptions { axis: -1, }
    }
}
impl SoftmaxOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn axis(mut self, axis: impl Into<i64>) -> Self {
        self.axis = axis.into();
        self
    }
}

/// exp(x) / sum exp(x) along an axis.
#[track_caller]
pub fn softmax<'g>(x: Value<'g>) -> Value<'g> {
    softmax_with(x, SoftmaxOptions::default())
}
#[track_caller]
pub fn softmax_with<'g>(x: Value<'g>, options: SoftmaxOptions) -> Value<'g> {
    x.graph().emit("softmax", 1, &[x.id()], &[("axis", Attribute::Int(options.axis))], 1)[0]
}

#[derive(Clone)]
pub struct LogSoftmaxOptions {
    pub axis: i64,
}
impl Default for LogSoftmaxOptions {
    fn default() -> Self {
        LogSoftmaxOptions { axis: -1, }
    }
}
impl LogSoftmaxOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn axis(mut self, axis: impl Into<i64>) -> Self {
        self.axis = axis.into();
        self
    }
}

/// x - logsumexp(x) along an axis.
#[track_caller]
pub fn log_softmax<'g>(x: Value<'g>) -> Value<'g> {
    log_softmax_with(x, LogSoftmaxOptions::default())
}
#[track_caller]
pub fn log_softmax_with<'g>(x: Value<'g>, options: LogSoftmaxOptions) -> Value<'g> {
    x.graph().emit("log_softmax", 1, &[x.id()], &[("axis", Attribute::Int(options.axis))], 1)[0]
}

#[derive(Clone)]
pub struct RotaryOptions<'g> {
    pub positions: Option<Value<'g>>,
    pub interleaved: i64,
    pub inverse: i64,
}
impl<'g> Default for RotaryOptions<'g> {
    fn default() -> Self {
        RotaryOptions { positions: None, interleaved: 0, inverse: 0, }
    }
}
impl<'g> RotaryOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn positions(mut self, positions: impl Into<Option<Value<'g>>>) -> Self {
        self.positions = positions.into();
        self
    }
    pub fn interleaved(mut self, interleaved: impl Into<i64>) -> Self {
        self.interleaved = interleaved.into();
        self
    }
    pub fn inverse(mut self, inverse: impl Into<i64>) -> Self {
        self.inverse = inverse.into();
        self
    }
}

/// Rotates pairs of x [B, H, T, D] by position (Su et al. 2021): cosine and sine are tables [P, R/2], R <= D; the
/// first R elements are rotated, pairs are (i, i + R/2), or (2i, 2i + 1) with interleaved. positions [B, T] int32
/// picks the row (default: the token's position, cache included). inverse: rotates back.
#[track_caller]
pub fn rotary<'g>(x: Value<'g>, cosine: Value<'g>, sine: Value<'g>) -> Value<'g> {
    rotary_with(x, cosine, sine, RotaryOptions::default())
}
#[track_caller]
pub fn rotary_with<'g>(x: Value<'g>, cosine: Value<'g>, sine: Value<'g>, options: RotaryOptions<'g>) -> Value<'g> {
    x.graph().emit("rotary", 1, &[x.id(), cosine.id(), sine.id(), Value::id_or_none(options.positions)], &[("interleaved", Attribute::Int(options.interleaved)), ("inverse", Attribute::Int(options.inverse))], 1)[0]
}

#[derive(Clone)]
pub struct EmbeddingOptions {
    pub no_gradient_id: i64,
}
impl Default for EmbeddingOptions {
    fn default() -> Self {
        EmbeddingOptions { no_gradient_id: -1, }
    }
}
impl EmbeddingOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn no_gradient_id(mut self, no_gradient_id: impl Into<i64>) -> Self {
        self.no_gradient_id = no_gradient_id.into();
        self
    }
}

/// table [V, D], ids [...] int32 -> [..., D]. The row no_gradient_id gets no gradient through the lookup.
#[track_caller]
pub fn embedding<'g>(table: Value<'g>, ids: Value<'g>) -> Value<'g> {
    embedding_with(table, ids, EmbeddingOptions::default())
}
#[track_caller]
pub fn embedding_with<'g>(table: Value<'g>, ids: Value<'g>, options: EmbeddingOptions) -> Value<'g> {
    table.graph().emit("embedding", 1, &[table.id(), ids.id()], &[("no_gradient_id", Attribute::Int(options.no_gradient_id))], 1)[0]
}

#[derive(Clone)]
pub struct GatherOptions {
    pub batch_dimensions: i64,
}
impl Default for GatherOptions {
    fn default() -> Self {
        GatherOptions { batch_dimensions: 0, }
    }
}
impl GatherOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn batch_dimensions(mut self, batch_dimensions: impl Into<i64>) -> Self {
        self.batch_dimensions = batch_dimensions.into();
        self
    }
}

/// x [B..., N, R...], indices [B..., K...] int32 -> [B..., K..., R...], with batch_dimensions leading dimensions in
/// common.
#[track_caller]
pub fn gather<'g>(x: Value<'g>, indices: Value<'g>) -> Value<'g> {
    gather_with(x, indices, GatherOptions::default())
}
#[track_caller]
pub fn gather_with<'g>(x: Value<'g>, indices: Value<'g>, options: GatherOptions) -> Value<'g> {
    x.graph().emit("gather", 1, &[x.id(), indices.id()], &[("batch_dimensions", Attribute::Int(options.batch_dimensions))], 1)[0]
}

#[derive(Clone)]
pub struct AttentionOptions<'g> {
    pub bias: Option<Value<'g>>,
    pub distance_bias: Option<Value<'g>>,
    pub query_distance: Option<Value<'g>>,
    pub key_distance: Option<Value<'g>>,
    pub query_class: Option<Value<'g>>,
    pub q_class: Option<Value<'g>>,
    pub k_class: Option<Value<'g>>,
    pub key_padding: Option<Value<'g>>,
    pub query_padding: Option<Value<'g>>,
    pub mask: Option<Value<'g>>,
    pub q_group: Option<Value<'g>>,
    pub k_group: Option<Value<'g>>,
    pub q_position: Option<Value<'g>>,
    pub k_position: Option<Value<'g>>,
    pub prefix: Option<Value<'g>>,
    #[cfg(any(hekla_minor = "2"))]
    pub sinks: Option<Value<'g>>,
    pub scale: f64,
    pub causal: i64,
    pub window: i64,
    pub distance_first: i64,
    pub distance_table: Vec<i64>,
    pub key_distance_first: i64,
    pub key_distance_table: Vec<i64>,
    pub empty_row: i64,
    pub dropout: f64,
    pub stream: i64,
    pub cache: String,
    #[cfg(any(hekla_minor = "2"))]
    pub softcap: f64,
    #[cfg(any(hekla_minor = "2"))]
    pub window_after: i64,
}
impl<'g> Default for AttentionOptions<'g> {
    fn default() -> Self {
        AttentionOptions { bias: None, distance_bias: None, query_distance: None, key_distance: None, query_class: None, q_class: None, k_class: None, key_padding: None, query_padding: None, mask: None, q_group: None, k_group: None, q_position: None, k_position: None, prefix: None, #[cfg(any(hekla_minor = "2"))] sinks: None, scale: 0.0, causal: 0, window: 0, distance_first: 0, distance_table: Vec::new(), key_distance_first: 0, key_distance_table: Vec::new(), empty_row: 0, dropout: 0.0, stream: -1, cache: String::from(""), #[cfg(any(hekla_minor = "2"))] softcap: 0.0, #[cfg(any(hekla_minor = "2"))] window_after: 0, }
    }
}
impl<'g> AttentionOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn bias(mut self, bias: impl Into<Option<Value<'g>>>) -> Self {
        self.bias = bias.into();
        self
    }
    pub fn distance_bias(mut self, distance_bias: impl Into<Option<Value<'g>>>) -> Self {
        self.distance_bias = distance_bias.into();
        self
    }
    pub fn query_distance(mut self, query_distance: impl Into<Option<Value<'g>>>) -> Self {
        self.query_distance = query_distance.into();
        self
    }
    pub fn key_distance(mut self, key_distance: impl Into<Option<Value<'g>>>) -> Self {
        self.key_distance = key_distance.into();
        self
    }
    pub fn query_class(mut self, query_class: impl Into<Option<Value<'g>>>) -> Self {
        self.query_class = query_class.into();
        self
    }
    pub fn q_class(mut self, q_class: impl Into<Option<Value<'g>>>) -> Self {
        self.q_class = q_class.into();
        self
    }
    pub fn k_class(mut self, k_class: impl Into<Option<Value<'g>>>) -> Self {
        self.k_class = k_class.into();
        self
    }
    pub fn key_padding(mut self, key_padding: impl Into<Option<Value<'g>>>) -> Self {
        self.key_padding = key_padding.into();
        self
    }
    pub fn query_padding(mut self, query_padding: impl Into<Option<Value<'g>>>) -> Self {
        self.query_padding = query_padding.into();
        self
    }
    pub fn mask(mut self, mask: impl Into<Option<Value<'g>>>) -> Self {
        self.mask = mask.into();
        self
    }
    pub fn q_group(mut self, q_group: impl Into<Option<Value<'g>>>) -> Self {
        self.q_group = q_group.into();
        self
    }
    pub fn k_group(mut self, k_group: impl Into<Option<Value<'g>>>) -> Self {
        self.k_group = k_group.into();
        self
    }
    pub fn q_position(mut self, q_position: impl Into<Option<Value<'g>>>) -> Self {
        self.q_position = q_position.into();
        self
    }
    pub fn k_position(mut self, k_position: impl Into<Option<Value<'g>>>) -> Self {
        self.k_position = k_position.into();
        self
    }
    pub fn prefix(mut self, prefix: impl Into<Option<Value<'g>>>) -> Self {
        self.prefix = prefix.into();
        self
    }
    #[cfg(any(hekla_minor = "2"))]
    pub fn sinks(mut self, sinks: impl Into<Option<Value<'g>>>) -> Self {
        self.sinks = sinks.into();
        self
    }
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }
    pub fn causal(mut self, causal: impl Into<i64>) -> Self {
        self.causal = causal.into();
        self
    }
    pub fn window(mut self, window: impl Into<i64>) -> Self {
        self.window = window.into();
        self
    }
    pub fn distance_first(mut self, distance_first: impl Into<i64>) -> Self {
        self.distance_first = distance_first.into();
        self
    }
    pub fn distance_table(mut self, distance_table: &[i64]) -> Self {
        self.distance_table = distance_table.to_vec();
        self
    }
    pub fn key_distance_first(mut self, key_distance_first: impl Into<i64>) -> Self {
        self.key_distance_first = key_distance_first.into();
        self
    }
    pub fn key_distance_table(mut self, key_distance_table: &[i64]) -> Self {
        self.key_distance_table = key_distance_table.to_vec();
        self
    }
    pub fn empty_row(mut self, empty_row: impl Into<i64>) -> Self {
        self.empty_row = empty_row.into();
        self
    }
    pub fn dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }
    pub fn stream(mut self, stream: impl Into<i64>) -> Self {
        self.stream = stream.into();
        self
    }
    pub fn cache(mut self, cache: &str) -> Self {
        self.cache = cache.to_string();
        self
    }
    #[cfg(any(hekla_minor = "2"))]
    pub fn softcap(mut self, softcap: f64) -> Self {
        self.softcap = softcap;
        self
    }
    #[cfg(any(hekla_minor = "2"))]
    pub fn window_after(mut self, window_after: impl Into<i64>) -> Self {
        self.window_after = window_after.into();
        self
    }
}

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
#[track_caller]
pub fn attention<'g>(q: Value<'g>, k: Value<'g>, v: Value<'g>) -> Value<'g> {
    attention_with(q, k, v, AttentionOptions::default())
}
#[track_caller]
pub fn attention_with<'g>(q: Value<'g>, k: Value<'g>, v: Value<'g>, options: AttentionOptions<'g>) -> Value<'g> {
    q.graph().emit("attention", if cfg!(any(hekla_minor = "2")) { 2 } else { 1 }, &[q.id(), k.id(), v.id(), Value::id_or_none(options.bias), Value::id_or_none(options.distance_bias), Value::id_or_none(options.query_distance), Value::id_or_none(options.key_distance), Value::id_or_none(options.query_class), Value::id_or_none(options.q_class), Value::id_or_none(options.k_class), Value::id_or_none(options.key_padding), Value::id_or_none(options.query_padding), Value::id_or_none(options.mask), Value::id_or_none(options.q_group), Value::id_or_none(options.k_group), Value::id_or_none(options.q_position), Value::id_or_none(options.k_position), Value::id_or_none(options.prefix), #[cfg(any(hekla_minor = "2"))] Value::id_or_none(options.sinks)], &[("scale", Attribute::Real(options.scale)), ("causal", Attribute::Int(options.causal)), ("window", Attribute::Int(options.window)), ("distance_first", Attribute::Int(options.distance_first)), ("distance_table", Attribute::Ints(&options.distance_table)), ("key_distance_first", Attribute::Int(options.key_distance_first)), ("key_distance_table", Attribute::Ints(&options.key_distance_table)), ("empty_row", Attribute::Int(options.empty_row)), ("dropout", Attribute::Real(options.dropout)), ("stream", Attribute::Int(options.stream)), ("cache", Attribute::Text(&options.cache)), #[cfg(any(hekla_minor = "2"))] ("softcap", Attribute::Real(options.softcap)), #[cfg(any(hekla_minor = "2"))] ("window_after", Attribute::Int(options.window_after))], 1)[0]
}

#[derive(Clone)]
pub struct GruOptions<'g> {
    pub lengths: Option<Value<'g>>,
    pub initial: Option<Value<'g>>,
    pub reverse: i64,
}
impl<'g> Default for GruOptions<'g> {
    fn default() -> Self {
        GruOptions { lengths: None, initial: None, reverse: 0, }
    }
}
impl<'g> GruOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn lengths(mut self, lengths: impl Into<Option<Value<'g>>>) -> Self {
        self.lengths = lengths.into();
        self
    }
    pub fn initial(mut self, initial: impl Into<Option<Value<'g>>>) -> Self {
        self.initial = initial.into();
        self
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

#[derive(Clone, Copy)]
pub struct GruResult<'g> {
    pub y: Value<'g>,
    pub last: Value<'g>,
}
/// A GRU layer over x [B, T, I] (Cho et al. 2014, PyTorch's form): weights [3H, I] and [3H, H], biases [3H], gates r,
/// z, n. lengths [B]: row b reads its first lengths[b] tokens and the rest of y is 0. reverse: from the last real
/// token to the first, y at the token's own place. initial [B, H], default 0. -> y [B, T, H], last [B, H].
#[track_caller]
pub fn gru<'g>(x: Value<'g>, input_weight: Value<'g>, hidden_weight: Value<'g>, input_bias: Value<'g>, hidden_bias: Value<'g>) -> GruResult<'g> {
    gru_with(x, input_weight, hidden_weight, input_bias, hidden_bias, GruOptions::default())
}
#[track_caller]
pub fn gru_with<'g>(x: Value<'g>, input_weight: Value<'g>, hidden_weight: Value<'g>, input_bias: Value<'g>, hidden_bias: Value<'g>, options: GruOptions<'g>) -> GruResult<'g> {
    let outputs = x.graph().emit("gru", 1, &[x.id(), input_weight.id(), hidden_weight.id(), input_bias.id(), hidden_bias.id(), Value::id_or_none(options.lengths), Value::id_or_none(options.initial)], &[("reverse", Attribute::Int(options.reverse))], 2);
    GruResult { y: outputs[0], last: outputs[1], }
}

#[derive(Clone)]
pub struct LstmOptions<'g> {
    pub lengths: Option<Value<'g>>,
    pub initial: Option<Value<'g>>,
    pub initial_cell: Option<Value<'g>>,
    pub reverse: i64,
}
impl<'g> Default for LstmOptions<'g> {
    fn default() -> Self {
        LstmOptions { lengths: None, initial: None, initial_cell: None, reverse: 0, }
    }
}
impl<'g> LstmOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn lengths(mut self, lengths: impl Into<Option<Value<'g>>>) -> Self {
        self.lengths = lengths.into();
        self
    }
    pub fn initial(mut self, initial: impl Into<Option<Value<'g>>>) -> Self {
        self.initial = initial.into();
        self
    }
    pub fn initial_cell(mut self, initial_cell: impl Into<Option<Value<'g>>>) -> Self {
        self.initial_cell = initial_cell.into();
        self
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

#[derive(Clone, Copy)]
pub struct LstmResult<'g> {
    pub y: Value<'g>,
    pub last: Value<'g>,
    pub last_cell: Value<'g>,
}
/// An LSTM layer (Hochreiter and Schmidhuber 1997, PyTorch's form): weights [4H, I] and [4H, H], biases [4H], gates
/// i, f, g, o; the rest as gru. -> y [B, T, H], last [B, H], last_cell [B, H].
#[track_caller]
pub fn lstm<'g>(x: Value<'g>, input_weight: Value<'g>, hidden_weight: Value<'g>, input_bias: Value<'g>, hidden_bias: Value<'g>) -> LstmResult<'g> {
    lstm_with(x, input_weight, hidden_weight, input_bias, hidden_bias, LstmOptions::default())
}
#[track_caller]
pub fn lstm_with<'g>(x: Value<'g>, input_weight: Value<'g>, hidden_weight: Value<'g>, input_bias: Value<'g>, hidden_bias: Value<'g>, options: LstmOptions<'g>) -> LstmResult<'g> {
    let outputs = x.graph().emit("lstm", 1, &[x.id(), input_weight.id(), hidden_weight.id(), input_bias.id(), hidden_bias.id(), Value::id_or_none(options.lengths), Value::id_or_none(options.initial), Value::id_or_none(options.initial_cell)], &[("reverse", Attribute::Int(options.reverse))], 3);
    LstmResult { y: outputs[0], last: outputs[1], last_cell: outputs[2], }
}

#[derive(Clone)]
pub struct CrossEntropyOptions<'g> {
    pub weights: Option<Value<'g>>,
    pub ignore_index: i64,
    pub smoothing: f64,
}
impl<'g> Default for CrossEntropyOptions<'g> {
    fn default() -> Self {
        CrossEntropyOptions { weights: None, ignore_index: -100, smoothing: 0.0, }
    }
}
impl<'g> CrossEntropyOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn weights(mut self, weights: impl Into<Option<Value<'g>>>) -> Self {
        self.weights = weights.into();
        self
    }
    pub fn ignore_index(mut self, ignore_index: impl Into<i64>) -> Self {
        self.ignore_index = ignore_index.into();
        self
    }
    pub fn smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }
}

/// logits [..., V], labels [...] int32 -> loss [...] float32 per row: -w[label] log softmax(logits)[label], 0 where
/// label = ignore_index; with smoothing s: (1 - s) times that + s/V sum_c w[c] (-log softmax)[c]. weights [V],
/// default 1.
#[track_caller]
pub fn cross_entropy<'g>(logits: Value<'g>, labels: Value<'g>) -> Value<'g> {
    cross_entropy_with(logits, labels, CrossEntropyOptions::default())
}
#[track_caller]
pub fn cross_entropy_with<'g>(logits: Value<'g>, labels: Value<'g>, options: CrossEntropyOptions<'g>) -> Value<'g> {
    logits.graph().emit("cross_entropy", 1, &[logits.id(), labels.id(), Value::id_or_none(options.weights)], &[("ignore_index", Attribute::Int(options.ignore_index)), ("smoothing", Attribute::Real(options.smoothing))], 1)[0]
}

/// x itself; in decode mode the value that the encode pass computed under this name.
#[track_caller]
pub fn once<'g>(x: Value<'g>, name: &str) -> Value<'g> {
    x.graph().emit("once", 1, &[x.id()], &[("name", Attribute::Text(name))], 1)[0]
}

/// initial itself; in decode mode the value last written under this name.
#[track_caller]
pub fn state_read<'g>(initial: Value<'g>, name: &str) -> Value<'g> {
    initial.graph().emit("state_read", 1, &[initial.id()], &[("name", Attribute::Text(name))], 1)[0]
}

/// x itself; in decode mode it is kept under this name.
#[track_caller]
pub fn state_write<'g>(x: Value<'g>, name: &str) -> Value<'g> {
    x.graph().emit("state_write", 1, &[x.id()], &[("name", Attribute::Text(name))], 1)[0]
}

/// x itself: a named place where an adapter may act.
#[track_caller]
pub fn site<'g>(x: Value<'g>, name: &str) -> Value<'g> {
    x.graph().emit("site", 1, &[x.id()], &[("name", Attribute::Text(name))], 1)[0]
}

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
mod since_1 {
use super::*;

#[derive(Clone)]
pub struct CumprodOptions {
    pub reverse: i64,
}
impl Default for CumprodOptions {
    fn default() -> Self {
        CumprodOptions { reverse: 0, }
    }
}
impl CumprodOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

/// Running product along an axis, from the other end with reverse.
#[track_caller]
pub fn cumprod<'g>(x: Value<'g>, axis: i64) -> Value<'g> {
    cumprod_with(x, axis, CumprodOptions::default())
}
#[track_caller]
pub fn cumprod_with<'g>(x: Value<'g>, axis: i64, options: CumprodOptions) -> Value<'g> {
    x.graph().emit("cumprod", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("reverse", Attribute::Int(options.reverse))], 1)[0]
}

#[derive(Clone)]
pub struct CummaxOptions {
    pub reverse: i64,
}
impl Default for CummaxOptions {
    fn default() -> Self {
        CummaxOptions { reverse: 0, }
    }
}
impl CummaxOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

#[derive(Clone, Copy)]
pub struct CummaxResult<'g> {
    pub values: Value<'g>,
    pub indices: Value<'g>,
}
/// Running maximum along an axis, from the other end with reverse, and the int32 index of the element that holds it:
/// the latest one at ties. That element gets the gradient.
#[track_caller]
pub fn cummax<'g>(x: Value<'g>, axis: i64) -> CummaxResult<'g> {
    cummax_with(x, axis, CummaxOptions::default())
}
#[track_caller]
pub fn cummax_with<'g>(x: Value<'g>, axis: i64, options: CummaxOptions) -> CummaxResult<'g> {
    let outputs = x.graph().emit("cummax", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("reverse", Attribute::Int(options.reverse))], 2);
    CummaxResult { values: outputs[0], indices: outputs[1], }
}

#[derive(Clone)]
pub struct LogcumsumexpOptions {
    pub reverse: i64,
}
impl Default for LogcumsumexpOptions {
    fn default() -> Self {
        LogcumsumexpOptions { reverse: 0, }
    }
}
impl LogcumsumexpOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

/// log of the running sum of exp along an axis, from the other end with reverse, without overflow.
#[track_caller]
pub fn logcumsumexp<'g>(x: Value<'g>, axis: i64) -> Value<'g> {
    logcumsumexp_with(x, axis, LogcumsumexpOptions::default())
}
#[track_caller]
pub fn logcumsumexp_with<'g>(x: Value<'g>, axis: i64, options: LogcumsumexpOptions) -> Value<'g> {
    x.graph().emit("logcumsumexp", 1, &[x.id()], &[("axis", Attribute::Int(axis)), ("reverse", Attribute::Int(options.reverse))], 1)[0]
}

#[derive(Clone)]
pub struct ScanLinearOptions<'g> {
    pub initial: Option<Value<'g>>,
    pub reverse: i64,
}
impl<'g> Default for ScanLinearOptions<'g> {
    fn default() -> Self {
        ScanLinearOptions { initial: None, reverse: 0, }
    }
}
impl<'g> ScanLinearOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn initial(mut self, initial: impl Into<Option<Value<'g>>>) -> Self {
        self.initial = initial.into();
        self
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

/// A linear recurrence along an axis, from the other end with reverse (minGRU, RetNet, state spaces): y[i] = a[i] y[i
/// - 1] + x[i]. a has the shape of x. initial is y before the first element, of the shape of x without the axis;
/// without it the first a is not read.
#[track_caller]
pub fn scan_linear<'g>(x: Value<'g>, a: Value<'g>, axis: i64) -> Value<'g> {
    scan_linear_with(x, a, axis, ScanLinearOptions::default())
}
#[track_caller]
pub fn scan_linear_with<'g>(x: Value<'g>, a: Value<'g>, axis: i64, options: ScanLinearOptions<'g>) -> Value<'g> {
    x.graph().emit("scan_linear", 1, &[x.id(), a.id(), Value::id_or_none(options.initial)], &[("axis", Attribute::Int(axis)), ("reverse", Attribute::Int(options.reverse))], 1)[0]
}

#[derive(Clone)]
pub struct TruncatedNormalOptions {
    pub low: f64,
    pub high: f64,
    pub stream: i64,
}
impl Default for TruncatedNormalOptions {
    fn default() -> Self {
        TruncatedNormalOptions { low: -2.0, high: 2.0, stream: -1, }
    }
}
impl TruncatedNormalOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn low(mut self, low: f64) -> Self {
        self.low = low;
        self
    }
    pub fn high(mut self, high: f64) -> Self {
        self.high = high;
        self
    }
    pub fn stream(mut self, stream: impl Into<i64>) -> Self {
        self.stream = stream.into();
        self
    }
}

/// Standard normal within [low, high], as if numbers outside were drawn again (torch.nn.init.trunc_normal_ with mean
/// 0 and deviation 1), by the inverse of the distribution function of one number for each element, drawn by (seed,
/// step, stream, example).
#[track_caller]
pub fn truncated_normal<'g>(graph: &'g Graph, shape: &[i64]) -> Value<'g> {
    truncated_normal_with(graph, shape, TruncatedNormalOptions::default())
}
#[track_caller]
pub fn truncated_normal_with<'g>(graph: &'g Graph, shape: &[i64], options: TruncatedNormalOptions) -> Value<'g> {
    graph.emit("truncated_normal", 1, &[], &[("shape", Attribute::Ints(shape)), ("low", Attribute::Real(options.low)), ("high", Attribute::Real(options.high)), ("stream", Attribute::Int(options.stream))], 1)[0]
}

#[derive(Clone)]
pub struct RowLinearOptions {
    pub input_first: i64,
}
impl Default for RowLinearOptions {
    fn default() -> Self {
        RowLinearOptions { input_first: 0, }
    }
}
impl RowLinearOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn input_first(mut self, input_first: impl Into<i64>) -> Self {
        self.input_first = input_first.into();
        self
    }
}

/// linear with a weight of its own for every row of the batch: x [B, ..., in], weights [E, out, in] ([E, in, out]
/// with input_first), rows [B] int32 -> y [B, ..., out]. Row b uses weights[rows[b]]; where rows[b] is -1, y is 0.
#[track_caller]
pub fn row_linear<'g>(x: Value<'g>, weights: Value<'g>, rows: Value<'g>) -> Value<'g> {
    row_linear_with(x, weights, rows, RowLinearOptions::default())
}
#[track_caller]
pub fn row_linear_with<'g>(x: Value<'g>, weights: Value<'g>, rows: Value<'g>, options: RowLinearOptions) -> Value<'g> {
    x.graph().emit("row_linear", 1, &[x.id(), weights.id(), rows.id()], &[("input_first", Attribute::Int(options.input_first))], 1)[0]
}

#[derive(Clone)]
pub struct Conv2dOptions<'g> {
    pub bias: Option<Value<'g>>,
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}
impl<'g> Default for Conv2dOptions<'g> {
    fn default() -> Self {
        Conv2dOptions { bias: None, stride: Vec::new(), padding: Vec::new(), dilation: Vec::new(), groups: 1, }
    }
}
impl<'g> Conv2dOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn bias(mut self, bias: impl Into<Option<Value<'g>>>) -> Self {
        self.bias = bias.into();
        self
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn dilation(mut self, dilation: &[i64]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }
    pub fn groups(mut self, groups: impl Into<i64>) -> Self {
        self.groups = groups.into();
        self
    }
}

/// x [B, H, W, C], weight [O, C / groups, kh, kw] as PyTorch stores it, bias [O] -> [B, H', W', O]: y[b, i, j, o] =
/// bias[o] + sum over c, u, v of weight[o, c, u, v] x[b, i stride + u dilation - padding, j stride + v dilation -
/// padding, c], where x is 0 outside. H' = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down.
/// Channels are the last dimension, as in linear: transpose PyTorch's [B, C, H, W] by {0, 2, 3, 1}. stride, padding
/// and dilation are one number, or one for H and one for W; [] is 1, 0 and 1. Output channel o reads the channels of
/// its group, o / (O / groups).
#[track_caller]
pub fn conv2d<'g>(x: Value<'g>, weight: Value<'g>) -> Value<'g> {
    conv2d_with(x, weight, Conv2dOptions::default())
}
#[track_caller]
pub fn conv2d_with<'g>(x: Value<'g>, weight: Value<'g>, options: Conv2dOptions<'g>) -> Value<'g> {
    x.graph().emit("conv2d", 1, &[x.id(), weight.id(), Value::id_or_none(options.bias)], &[("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("dilation", Attribute::Ints(&options.dilation)), ("groups", Attribute::Int(options.groups))], 1)[0]
}

#[derive(Clone)]
pub struct Conv1dOptions<'g> {
    pub bias: Option<Value<'g>>,
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}
impl<'g> Default for Conv1dOptions<'g> {
    fn default() -> Self {
        Conv1dOptions { bias: None, stride: Vec::new(), padding: Vec::new(), dilation: Vec::new(), groups: 1, }
    }
}
impl<'g> Conv1dOptions<'g> {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn bias(mut self, bias: impl Into<Option<Value<'g>>>) -> Self {
        self.bias = bias.into();
        self
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn dilation(mut self, dilation: &[i64]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }
    pub fn groups(mut self, groups: impl Into<i64>) -> Self {
        self.groups = groups.into();
        self
    }
}

/// conv2d along one dimension: x [B, T, C], weight [O, C / groups, K], bias [O] -> [B, T', O]. Without later tokens
/// (a causal convolution): pad x at the front instead of padding.
#[track_caller]
pub fn conv1d<'g>(x: Value<'g>, weight: Value<'g>) -> Value<'g> {
    conv1d_with(x, weight, Conv1dOptions::default())
}
#[track_caller]
pub fn conv1d_with<'g>(x: Value<'g>, weight: Value<'g>, options: Conv1dOptions<'g>) -> Value<'g> {
    x.graph().emit("conv1d", 1, &[x.id(), weight.id(), Value::id_or_none(options.bias)], &[("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("dilation", Attribute::Ints(&options.dilation)), ("groups", Attribute::Int(options.groups))], 1)[0]
}

#[derive(Clone)]
pub struct MaxPool2dOptions {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
}
impl Default for MaxPool2dOptions {
    fn default() -> Self {
        MaxPool2dOptions { stride: Vec::new(), padding: Vec::new(), dilation: Vec::new(), }
    }
}
impl MaxPool2dOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn dilation(mut self, dilation: &[i64]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }
}

/// The largest element of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d.
/// Padding is never the largest. kernel, stride, padding and dilation are one number, or one for H and one for W;
/// stride [] is the kernel. The first of equal elements gets the gradient; NaN is larger than every number.
#[track_caller]
pub fn max_pool2d<'g>(x: Value<'g>, kernel: &[i64]) -> Value<'g> {
    max_pool2d_with(x, kernel, MaxPool2dOptions::default())
}
#[track_caller]
pub fn max_pool2d_with<'g>(x: Value<'g>, kernel: &[i64], options: MaxPool2dOptions) -> Value<'g> {
    x.graph().emit("max_pool2d", 1, &[x.id()], &[("kernel", Attribute::Ints(kernel)), ("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("dilation", Attribute::Ints(&options.dilation))], 1)[0]
}

#[derive(Clone)]
pub struct MaxPool1dOptions {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
}
impl Default for MaxPool1dOptions {
    fn default() -> Self {
        MaxPool1dOptions { stride: Vec::new(), padding: Vec::new(), dilation: Vec::new(), }
    }
}
impl MaxPool1dOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn dilation(mut self, dilation: &[i64]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }
}

/// max_pool2d along one dimension: x [B, T, C] -> [B, T', C].
#[track_caller]
pub fn max_pool1d<'g>(x: Value<'g>, kernel: &[i64]) -> Value<'g> {
    max_pool1d_with(x, kernel, MaxPool1dOptions::default())
}
#[track_caller]
pub fn max_pool1d_with<'g>(x: Value<'g>, kernel: &[i64], options: MaxPool1dOptions) -> Value<'g> {
    x.graph().emit("max_pool1d", 1, &[x.id()], &[("kernel", Attribute::Ints(kernel)), ("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("dilation", Attribute::Ints(&options.dilation))], 1)[0]
}

#[derive(Clone)]
pub struct AvgPool2dOptions {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub count_padding: i64,
}
impl Default for AvgPool2dOptions {
    fn default() -> Self {
        AvgPool2dOptions { stride: Vec::new(), padding: Vec::new(), count_padding: 1, }
    }
}
impl AvgPool2dOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn count_padding(mut self, count_padding: impl Into<i64>) -> Self {
        self.count_padding = count_padding.into();
        self
    }
}

/// The mean of each window of each channel: x [B, H, W, C] -> [B, H', W', C], with sizes as in conv2d. Padding counts
/// as zeros; with count_padding = 0 the mean is over the elements of x alone. stride [] is the kernel.
#[track_caller]
pub fn avg_pool2d<'g>(x: Value<'g>, kernel: &[i64]) -> Value<'g> {
    avg_pool2d_with(x, kernel, AvgPool2dOptions::default())
}
#[track_caller]
pub fn avg_pool2d_with<'g>(x: Value<'g>, kernel: &[i64], options: AvgPool2dOptions) -> Value<'g> {
    x.graph().emit("avg_pool2d", 1, &[x.id()], &[("kernel", Attribute::Ints(kernel)), ("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("count_padding", Attribute::Int(options.count_padding))], 1)[0]
}

#[derive(Clone)]
pub struct AvgPool1dOptions {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub count_padding: i64,
}
impl Default for AvgPool1dOptions {
    fn default() -> Self {
        AvgPool1dOptions { stride: Vec::new(), padding: Vec::new(), count_padding: 1, }
    }
}
impl AvgPool1dOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn stride(mut self, stride: &[i64]) -> Self {
        self.stride = stride.to_vec();
        self
    }
    pub fn padding(mut self, padding: &[i64]) -> Self {
        self.padding = padding.to_vec();
        self
    }
    pub fn count_padding(mut self, count_padding: impl Into<i64>) -> Self {
        self.count_padding = count_padding.into();
        self
    }
}

/// avg_pool2d along one dimension: x [B, T, C] -> [B, T', C].
#[track_caller]
pub fn avg_pool1d<'g>(x: Value<'g>, kernel: &[i64]) -> Value<'g> {
    avg_pool1d_with(x, kernel, AvgPool1dOptions::default())
}
#[track_caller]
pub fn avg_pool1d_with<'g>(x: Value<'g>, kernel: &[i64], options: AvgPool1dOptions) -> Value<'g> {
    x.graph().emit("avg_pool1d", 1, &[x.id()], &[("kernel", Attribute::Ints(kernel)), ("stride", Attribute::Ints(&options.stride)), ("padding", Attribute::Ints(&options.padding)), ("count_padding", Attribute::Int(options.count_padding))], 1)[0]
}

#[derive(Clone)]
pub struct ScatterAddOptions {
    pub batch_dimensions: i64,
}
impl Default for ScatterAddOptions {
    fn default() -> Self {
        ScatterAddOptions { batch_dimensions: 0, }
    }
}
impl ScatterAddOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn batch_dimensions(mut self, batch_dimensions: impl Into<i64>) -> Self {
        self.batch_dimensions = batch_dimensions.into();
        self
    }
}

/// x [B..., N, R...] with values [B..., K..., R...] added to the rows that indices [B..., K...] int32 name, with
/// batch_dimensions leading dimensions in common, as gather reads them. What is added to one row is summed in the
/// order of the indices, so that every run gives the same bits. Indices are 0 to N - 1; kernels leave out the values
/// of others.
#[track_caller]
pub fn scatter_add<'g>(x: Value<'g>, indices: Value<'g>, values: Value<'g>) -> Value<'g> {
    scatter_add_with(x, indices, values, ScatterAddOptions::default())
}
#[track_caller]
pub fn scatter_add_with<'g>(x: Value<'g>, indices: Value<'g>, values: Value<'g>, options: ScatterAddOptions) -> Value<'g> {
    x.graph().emit("scatter_add", 1, &[x.id(), indices.id(), values.id()], &[("batch_dimensions", Attribute::Int(options.batch_dimensions))], 1)[0]
}

#[derive(Clone)]
pub struct ScatterOptions {
    pub batch_dimensions: i64,
}
impl Default for ScatterOptions {
    fn default() -> Self {
        ScatterOptions { batch_dimensions: 0, }
    }
}
impl ScatterOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn batch_dimensions(mut self, batch_dimensions: impl Into<i64>) -> Self {
        self.batch_dimensions = batch_dimensions.into();
        self
    }
}

/// As scatter_add, but the values replace the rows. The indices of a batch must differ: duplicates are refused in a
/// constant and by the interpreter, and kernels take the last one.
#[track_caller]
pub fn scatter<'g>(x: Value<'g>, indices: Value<'g>, values: Value<'g>) -> Value<'g> {
    scatter_with(x, indices, values, ScatterOptions::default())
}
#[track_caller]
pub fn scatter_with<'g>(x: Value<'g>, indices: Value<'g>, values: Value<'g>, options: ScatterOptions) -> Value<'g> {
    x.graph().emit("scatter", 1, &[x.id(), indices.id(), values.id()], &[("batch_dimensions", Attribute::Int(options.batch_dimensions))], 1)[0]
}

/// indices [...] int32 -> [..., size] int32: 1 at the index, else 0; any other index gives zeros. The graph has it as
/// compare of the indices with 0, 1, ...
#[track_caller]
pub fn one_hot<'g>(indices: Value<'g>, size: i64) -> Value<'g> {
    indices.graph().emit("one_hot", 1, &[indices.id()], &[("size", Attribute::Int(size))], 1)[0]
}

#[derive(Clone)]
pub struct LoopIndexOptions {
    pub reverse: i64,
}
impl Default for LoopIndexOptions {
    fn default() -> Self {
        LoopIndexOptions { reverse: 0, }
    }
}
impl LoopIndexOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn reverse(mut self, reverse: impl Into<i64>) -> Self {
        self.reverse = reverse.into();
        self
    }
}

/// A loop of `length` steps, as the int32 [] index of its step: 0, 1, ..., or length - 1, ..., 0 with reverse. What
/// is computed from it, or from its loop_step and loop_state, is the loop's body: computed once for each step. Other
/// values are computed once and the same in every step. A value of a body is used in the body, or by loop_next and
/// loop_collect. The graph has the body as often as the loop has steps; a product with a matrix that does not change
/// over the steps is cheaper before the loop.
#[track_caller]
pub fn loop_index<'g>(graph: &'g Graph, length: i64) -> Value<'g> {
    loop_index_with(graph, length, LoopIndexOptions::default())
}
#[track_caller]
pub fn loop_index_with<'g>(graph: &'g Graph, length: i64, options: LoopIndexOptions) -> Value<'g> {
    graph.emit("loop_index", 1, &[], &[("length", Attribute::Int(length)), ("reverse", Attribute::Int(options.reverse))], 1)[0]
}

#[derive(Clone)]
pub struct LoopStepOptions {
    pub axis: i64,
}
impl Default for LoopStepOptions {
    fn default() -> Self {
        LoopStepOptions { axis: 1, }
    }
}
impl LoopStepOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn axis(mut self, axis: impl Into<i64>) -> Self {
        self.axis = axis.into();
        self
    }
}

/// What x has for this step of the loop: its elements at the index, without the axis, which is as long as the loop.
#[track_caller]
pub fn loop_step<'g>(index: Value<'g>, x: Value<'g>) -> Value<'g> {
    loop_step_with(index, x, LoopStepOptions::default())
}
#[track_caller]
pub fn loop_step_with<'g>(index: Value<'g>, x: Value<'g>, options: LoopStepOptions) -> Value<'g> {
    index.graph().emit("loop_step", 1, &[index.id(), x.id()], &[("axis", Attribute::Int(options.axis))], 1)[0]
}

/// A value that steps pass on: initial in the first step, then what loop_next gave it in the step before. Each state
/// has one loop_next.
#[track_caller]
pub fn loop_state<'g>(index: Value<'g>, initial: Value<'g>) -> Value<'g> {
    index.graph().emit("loop_state", 1, &[index.id(), initial.id()], &[], 1)[0]
}

/// Gives a loop_state its value for the next step, of the same shape and kind. The result is that of the last step,
/// for use after the loop.
#[track_caller]
pub fn loop_next<'g>(state: Value<'g>, next: Value<'g>) -> Value<'g> {
    state.graph().emit("loop_next", 1, &[state.id(), next.id()], &[], 1)[0]
}

#[derive(Clone)]
pub struct LoopCollectOptions {
    pub axis: i64,
}
impl Default for LoopCollectOptions {
    fn default() -> Self {
        LoopCollectOptions { axis: 1, }
    }
}
impl LoopCollectOptions {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn axis(mut self, axis: impl Into<i64>) -> Self {
        self.axis = axis.into();
        self
    }
}

/// The values of y in all steps, joined along a new axis: that of a step at its index.
#[track_caller]
pub fn loop_collect<'g>(index: Value<'g>, y: Value<'g>) -> Value<'g> {
    loop_collect_with(index, y, LoopCollectOptions::default())
}
#[track_caller]
pub fn loop_collect_with<'g>(index: Value<'g>, y: Value<'g>, options: LoopCollectOptions) -> Value<'g> {
    index.graph().emit("loop_collect", 1, &[index.id(), y.id()], &[("axis", Attribute::Int(options.axis))], 1)[0]
}

/// value itself; in a training the buffer (a value of buffer()) gets it when the step updates the parameters: the
/// mean over the micro-batches of the step, each computed with the buffers and parameters from before the step. A
/// skipped step changes no buffer. In modes other than train nothing is written. One update for each buffer, of its
/// shape. No gradient flows into a buffer.
#[track_caller]
pub fn buffer_update<'g>(buffer: Value<'g>, value: Value<'g>) -> Value<'g> {
    buffer.graph().emit("buffer_update", 1, &[buffer.id(), value.id()], &[], 1)[0]
}

/// x itself, as the sum of a loss, which then gives gradients to the parameters with these names alone: patterns with
/// *, separated by commas. A parameter that several losses name gets the sum of their gradients. If one loss of a
/// graph names its parameters, all do.
#[track_caller]
pub fn for_parameters<'g>(x: Value<'g>, names: &str) -> Value<'g> {
    x.graph().emit("for_parameters", 1, &[x.id()], &[("names", Attribute::Text(names))], 1)[0]
}

/// x itself, under a name that the graph has once. hekla train --tap NAME shows its statistics in every step and can
/// store its values; without it, nothing is computed or stored for a tap.
#[track_caller]
pub fn tap<'g>(x: Value<'g>, name: &str) -> Value<'g> {
    x.graph().emit("tap", 1, &[x.id()], &[("name", Attribute::Text(name))], 1)[0]
}

/// The gradient of the sum of y with respect to x, from which y was computed: a value like any other, so that a loss
/// may contain it (a gradient penalty). It can be differentiated again where the operations between x and y can: not
/// attention, gru, lstm, cross_entropy, max_pool2d, rotary with tables that learn, and plugins' own operations.
#[track_caller]
pub fn gradient_of<'g>(y: Value<'g>, x: Value<'g>) -> Value<'g> {
    y.graph().emit("gradient_of", 1, &[y.id(), x.id()], &[], 1)[0]
}

/// In place of the gradient that will come to y, for with_gradient.
#[track_caller]
pub fn incoming_gradient<'g>(y: Value<'g>) -> Value<'g> {
    y.graph().emit("incoming_gradient", 1, &[y.id()], &[], 1)[0]
}

/// y itself, with a gradient of its own. parts: y; dy = incoming_gradient(y); and pairs of a value x and its
/// gradient, computed from dy and any other values. No gradient flows through y; the x need not be what y was
/// computed from. dy is of no use elsewhere.
#[track_caller]
pub fn with_gradient<'g>(parts: &[Value<'g>]) -> Value<'g> {
    Graph::of(parts).emit("with_gradient", 1, &Value::ids(parts), &[], 1)[0]
}
}
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub use since_1::*;
