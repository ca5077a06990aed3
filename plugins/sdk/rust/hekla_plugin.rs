//! Plugins for Hekla in Rust: values with operators, RAII scopes, a configuration read by name, and trampolines that
//! catch all panics. Rust 1.63 or newer and its standard library; no crate.
//!
//!     rustc --edition 2021 --crate-type rlib -O --cfg 'hekla_minor="1"' hekla_plugin.rs -o libhekla_plugin.rlib
//!     rustc --edition 2021 --crate-type cdylib -O --extern hekla_plugin=libhekla_plugin.rlib mixer.rs -o mixer.so
//!
//! `hekla_minor` is the manifest's abi_minor_needed. A plugin is one or more of the traits Architecture, Objective, Head,
//! Operation and, from minor 1 on, Adapter and Combiner, and one `plugin!` at the end.
//!
//! The first error is kept: afterwards every value is empty and every call does nothing, so a build function needs no
//! checks, and the host reports the line of the plugin with the first error.
#![allow(non_camel_case_types)]
#![allow(unknown_lints, unexpected_cfgs)]
#![allow(clippy::all)]

#[macro_use]
pub mod raw;
pub mod operations;

pub use operations::*;
pub use raw::*;

use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops;
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Mutex;

// ---- errors ---------------------------------------------------------------------------------------------------------

/// The error of a plugin's functions; the trampolines turn it into the ABI's code and message.
#[derive(Clone, Debug)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }
    /// An argument or setting is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(HK_INVALID_ARGUMENT, message)
    }
    /// Valid, but not supported here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(HK_UNSUPPORTED, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

// ---- the host -------------------------------------------------------------------------------------------------------

// The host's interfaces: set by init() before anything else runs, and constant afterwards.
struct Interface<T>(AtomicPtr<T>);

impl<T> Interface<T> {
    const fn none() -> Self {
        Interface(AtomicPtr::new(std::ptr::null_mut()))
    }
    fn find(&self) -> Option<&'static T> {
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
    // Requires that init() found the interface.
    fn get(&self) -> &'static T {
        self.find().expect("the host lacks an interface that is asked for")
    }
}

static HOST: Interface<hk_host> = Interface::none();
static ERROR: Interface<hk_error_interface> = Interface::none();
static CONFIG: Interface<hk_config_interface> = Interface::none();
static GRAPH: Interface<hk_graph_interface> = Interface::none();
static TOKENIZER: Interface<hk_tokenizer_interface> = Interface::none();
static LOG: Interface<hk_log_interface> = Interface::none();

// call!(GRAPH, input(builder, name)): calls a function of one of the host's interfaces.
macro_rules! call {
    ($interface:ident, $function:ident($($argument:expr),* $(,)?)) => {
        unsafe { ($interface.get().$function.expect(concat!("the host lacks ", stringify!($function))))($($argument),*) }
    };
}

fn text(s: &str) -> hk_string {
    hk_string { data: s.as_ptr() as *const c_char, size: s.len() as u64 }
}

unsafe fn bytes_of<'a>(s: hk_string) -> &'a [u8] {
    slice_of(s.data as *const u8, s.size)
}

unsafe fn slice_of<'a, T>(data: *const T, size: u64) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size as usize)
}

// Returns element i of an array of the host. Structs of a newer host may be longer than in this binding, so the first
// element contains their size. [abi.5]
unsafe fn element<T>(first: *const T, i: usize) -> *const T {
    (first as *const u8).add(i * *(first as *const u32) as usize) as *const T // every data struct begins with its struct_size
}

// Returns all elements; none for a null pointer.
unsafe fn elements<'a, T: 'a>(first: *const T, count: u32) -> impl Iterator<Item = &'a T> {
    (0..if first.is_null() { 0 } else { count as usize }).map(move |i| &*element(first, i))
}

fn say(severity: i32, message: &str) {
    if let (Some(host), Some(_)) = (HOST.find(), LOG.find()) {
        call!(LOG, write(host, severity, text(message)));
    }
}
/// Logs a message to the user of the host.
pub fn log_info(message: &str) {
    say(HK_LOG_INFO, message);
}
pub fn log_warning(message: &str) {
    say(HK_LOG_WARNING, message);
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

/// One attribute of an operation.
pub enum Attribute<'a> {
    Int(i64),
    Real(f64),
    Text(&'a str),
    Ints(&'a [i64]),
    Reals(&'a [f64]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Train,
    Evaluate,
    Encode,
    Decode,
}

#[derive(Clone, Copy, Debug)]
pub struct Initializer {
    pub kind: i32,
    pub a: f64,
    pub b: f64,
}
pub fn zeros() -> Initializer {
    constant_of(0.0)
}
pub fn ones() -> Initializer {
    constant_of(1.0)
}
pub fn constant_of(value: f64) -> Initializer {
    Initializer { kind: HK_INITIALIZE_CONSTANT, a: value, b: 0.0 }
}
/// With mean 0.
pub fn normal(deviation: f64) -> Initializer {
    Initializer { kind: HK_INITIALIZE_NORMAL, a: 0.0, b: deviation }
}
pub fn uniform(low: f64, high: f64) -> Initializer {
    Initializer { kind: HK_INITIALIZE_UNIFORM, a: low, b: high }
}

/// The graph of one build call. Values borrow it, so none outlives the call.
pub struct Graph {
    builder: *mut hk_builder,
    failed_at: Cell<Option<&'static Location<'static>>>,
}

impl Graph {
    fn new(builder: *mut hk_builder) -> Self {
        Graph { builder, failed_at: Cell::new(None) }
    }

    pub fn mode(&self) -> Mode {
        match call!(GRAPH, mode(self.builder)) {
            HK_MODE_TRAIN => Mode::Train,
            HK_MODE_ENCODE => Mode::Encode,
            HK_MODE_DECODE => Mode::Decode,
            _ => Mode::Evaluate,
        }
    }
    pub fn training(&self) -> bool {
        self.mode() == Mode::Train
    }
    pub fn has_field(&self, field: &str) -> bool {
        call!(GRAPH, has_field(self.builder, text(field))) != 0
    }
    /// Returns a field of the batch.
    #[track_caller]
    pub fn input(&self, field: &str) -> Value<'_> {
        self.value(call!(GRAPH, input(self.builder, text(field))))
    }
    /// Returns a trained tensor by its name in files. The same name is the same tensor.
    #[track_caller]
    pub fn parameter(&self, name: &str, dims: &[i64], initializer: Initializer) -> Value<'_> {
        self.parameter_with(name, dims, initializer, 0)
    }
    /// flags: HK_PARAMETER_*.
    #[track_caller]
    pub fn parameter_with(&self, name: &str, dims: &[i64], i: Initializer, flags: u32) -> Value<'_> {
        let rank = dims.len() as u32;
        self.value(call!(GRAPH, parameter(self.builder, text(name), dims.as_ptr(), rank, i.kind, i.a, i.b, flags)))
    }
    /// Returns a tensor that is saved with the model and not trained.
    #[track_caller]
    pub fn buffer(&self, name: &str, kind: i32, dims: &[i64], values: &[f64]) -> Value<'_> {
        if !holds(dims, values) {
            return self.fail("buffer: the number of values does not fit the shape");
        }
        let rank = dims.len() as u32;
        self.value(call!(GRAPH, buffer(self.builder, text(name), kind, dims.as_ptr(), rank, values.as_ptr())))
    }
    /// Returns a tensor with values computed by the plugin.
    #[track_caller]
    pub fn constant(&self, kind: i32, dims: &[i64], values: &[f64]) -> Value<'_> {
        if !holds(dims, values) {
            return self.fail("constant: the number of values does not fit the shape");
        }
        self.value(call!(GRAPH, constant(self.builder, kind, dims.as_ptr(), dims.len() as u32, values.as_ptr())))
    }
    /// Returns a tensor with the same number everywhere.
    #[track_caller]
    pub fn fill(&self, dims: &[i64], value: f64) -> Value<'_> {
        self.fill_with(dims, value, HK_KIND_FLOAT)
    }
    #[track_caller]
    pub fn fill_with(&self, dims: &[i64], value: f64, kind: i32) -> Value<'_> {
        self.value(call!(GRAPH, fill(self.builder, kind, dims.as_ptr(), dims.len() as u32, value)))
    }
    #[track_caller]
    pub fn number(&self, value: f64) -> Value<'_> {
        self.fill(&[], value)
    }
    #[track_caller]
    pub fn integer(&self, value: i64) -> Value<'_> {
        self.fill_with(&[], value as f64, HK_KIND_INT32)
    }
    /// Returns int32 [length]: start, start + step, ...
    #[track_caller]
    pub fn iota(&self, length: i64, start: i64, step: i64) -> Value<'_> {
        self.value(call!(GRAPH, iota(self.builder, length, start, step)))
    }
    /// Returns int32 [batch, length]: each token's position in its row.
    #[track_caller]
    pub fn positions(&self, batch: i64, length: i64) -> Value<'_> {
        self.value(call!(GRAPH, positions(self.builder, batch, length)))
    }
    since_2! {
        /// Returns a number that all of positions() in rows of this length are below.
        pub fn position_count(&self, length: i64) -> i64 {
            call!(GRAPH, position_count(self.builder, length))
        }
    }
    /// Returns a number [] that a schedule sets.
    #[track_caller]
    pub fn step_scalar(&self, name: &str, initial: f64) -> Value<'_> {
        self.value(call!(GRAPH, step_scalar(self.builder, text(name), initial)))
    }

    #[track_caller]
    pub fn offer(&self, port: &str, value: Value<'_>) {
        call!(GRAPH, offer(self.builder, text(port), value.id));
        self.noted();
    }
    pub fn has_port(&self, port: &str) -> bool {
        call!(GRAPH, has_port(self.builder, text(port))) != 0
    }
    #[track_caller]
    pub fn ask(&self, port: &str) -> Value<'_> {
        self.value(call!(GRAPH, ask(self.builder, text(port))))
    }
    /// Adds sum / count to the loss; both are scalars [].
    #[track_caller]
    pub fn loss(&self, name: &str, sum: Value<'_>, count: Value<'_>, weight: f64) {
        call!(GRAPH, loss(self.builder, text(name), sum.id, count.id, weight));
        self.noted();
    }
    since_1! {
        /// The same for a loss that trains the parameters of these names alone (for_parameters).
        #[track_caller]
        pub fn loss_for(&self, parameters: &str, name: &str, sum: Value<'_>, count: Value<'_>, weight: f64) {
            self.loss(name, for_parameters(sum, parameters), count, weight);
        }
    }
    #[track_caller]
    pub fn metric(&self, name: &str, sum: Value<'_>, count: Value<'_>) {
        call!(GRAPH, metric(self.builder, text(name), sum.id, count.id));
        self.noted();
    }
    /// Sets the author's own error, if it is the first; returns an empty value.
    #[track_caller]
    pub fn fail(&self, message: &str) -> Value<'_> {
        call!(GRAPH, fail(self.builder, HK_INVALID_ARGUMENT, text(message)));
        self.noted();
        Value { graph: self, id: 0 }
    }
    pub fn ok(&self) -> bool {
        self.status() == HK_OK
    }

    /// Adds a name to the scope of everything described during its lifetime: "block.3", "attention".
    pub fn scope(&self, name: &str) -> Scope<'_> {
        call!(GRAPH, scope_begin(self.builder, text(name)));
        Scope(self)
    }
    /// A region, during its lifetime, whose activations may be dropped and recomputed for the gradient.
    pub fn recompute(&self) -> Recompute<'_> {
        call!(GRAPH, recompute_begin(self.builder));
        Recompute(self)
    }

    /// Emits one operation by name and revision, like the functions of `operations`. Returns `outputs` values.
    #[track_caller]
    pub fn emit(
        &self, name: &str, revision: u32, inputs: &[hk_value], attributes: &[(&str, Attribute)], outputs: usize,
    ) -> Vec<Value<'_>> {
        let raw: Vec<hk_attribute> = attributes.iter().map(|(name, value)| raw_attribute(name, value)).collect();
        let mut made = vec![0; outputs];
        call!(
            GRAPH,
            emit(
                self.builder,
                text(name),
                revision,
                inputs.as_ptr(),
                inputs.len() as u32,
                raw.as_ptr(),
                raw.len() as u32,
                made.as_mut_ptr(),
                outputs as u32
            )
        );
        self.noted();
        made.into_iter().map(|id| Value { graph: self, id }).collect()
    }

    fn of<'g>(values: &[Value<'g>]) -> &'g Graph {
        values.first().expect("an operation was called on no values").graph
    }
    fn status(&self) -> i32 {
        call!(GRAPH, status(self.builder, std::ptr::null_mut()))
    }
    #[track_caller]
    fn value(&self, id: hk_value) -> Value<'_> {
        if id == 0 {
            self.noted();
        }
        Value { graph: self, id }
    }
    // Records the location of the first error in the author's source.
    #[track_caller]
    fn noted(&self) {
        if self.failed_at.get().is_none() && self.status() != HK_OK {
            self.failed_at.set(Some(Location::caller()));
        }
    }
}

fn holds(dims: &[i64], values: &[f64]) -> bool {
    dims.iter().product::<i64>() == values.len() as i64
}

fn raw_attribute(name: &str, value: &Attribute) -> hk_attribute {
    let mut a = hk_attribute {
        struct_size: std::mem::size_of::<hk_attribute>() as u32,
        r#type: HK_ATTRIBUTE_INT,
        name: text(name),
        integer: 0,
        real: 0.0,
        text: text(""),
        integers: std::ptr::null(),
        reals: std::ptr::null(),
        count: 0,
    };
    match value {
        Attribute::Int(value) => a.integer = *value,
        Attribute::Real(value) => {
            a.r#type = HK_ATTRIBUTE_REAL;
            a.real = *value;
        }
        Attribute::Text(value) => {
            a.r#type = HK_ATTRIBUTE_TEXT;
            a.text = text(value);
        }
        Attribute::Ints(values) => {
            a.r#type = HK_ATTRIBUTE_INTS;
            a.integers = values.as_ptr();
            a.count = values.len() as u64;
        }
        Attribute::Reals(values) => {
            a.r#type = HK_ATTRIBUTE_REALS;
            a.reals = values.as_ptr();
            a.count = values.len() as u64;
        }
    }
    a
}

pub struct Scope<'g>(&'g Graph);
impl Drop for Scope<'_> {
    fn drop(&mut self) {
        call!(GRAPH, scope_end(self.0.builder));
    }
}

pub struct Recompute<'g>(&'g Graph);
impl Drop for Recompute<'_> {
    fn drop(&mut self) {
        call!(GRAPH, recompute_end(self.0.builder));
    }
}

/// A tensor of the graph being described. Empty after an error.
#[derive(Clone, Copy)]
pub struct Value<'g> {
    graph: &'g Graph,
    id: hk_value,
}

impl<'g> Value<'g> {
    pub fn graph(self) -> &'g Graph {
        self.graph
    }
    pub fn id(self) -> hk_value {
        self.id
    }
    pub fn is_empty(self) -> bool {
        self.id == 0
    }
    pub fn shape(self) -> Vec<i64> {
        self.kind_and_shape().1
    }
    /// Returns one dimension; the axis may count from the end. 1 after an error.
    pub fn dim(self, axis: i32) -> i64 {
        let shape = self.shape();
        let at = if axis < 0 { axis + shape.len() as i32 } else { axis };
        shape.get(at as usize).copied().unwrap_or(1)
    }
    pub fn rank(self) -> usize {
        self.shape().len()
    }
    /// Returns HK_KIND_*; -1 after an error.
    pub fn kind(self) -> i32 {
        self.kind_and_shape().0
    }
    /// Returns a number of the kind of this value.
    #[track_caller]
    pub fn like(self, number: f64) -> Value<'g> {
        self.graph.fill_with(&[], number, self.kind().max(HK_KIND_FLOAT))
    }

    fn kind_and_shape(self) -> (i32, Vec<i64>) {
        let mut dims = [0; HK_MAX_RANK];
        let mut rank = 0;
        let kind = call!(GRAPH, shape(self.graph.builder, self.id, dims.as_mut_ptr(), &mut rank));
        (kind, if kind < 0 { Vec::new() } else { dims[..rank as usize].to_vec() })
    }
    fn ids(values: &[Value]) -> Vec<hk_value> {
        values.iter().map(|v| v.id).collect()
    }
    fn id_or_none(value: Option<Value>) -> hk_value {
        value.map_or(0, |v| v.id)
    }
}

macro_rules! operator {
    ($trait:ident, $function:ident) => {
        impl<'g> ops::$trait<Value<'g>> for Value<'g> {
            type Output = Value<'g>;
            #[track_caller]
            fn $function(self, other: Value<'g>) -> Value<'g> {
                operations::$function(self, other)
            }
        }
        impl<'g> ops::$trait<f64> for Value<'g> {
            type Output = Value<'g>;
            #[track_caller]
            fn $function(self, other: f64) -> Value<'g> {
                operations::$function(self, self.like(other))
            }
        }
        impl<'g> ops::$trait<Value<'g>> for f64 {
            type Output = Value<'g>;
            #[track_caller]
            fn $function(self, other: Value<'g>) -> Value<'g> {
                operations::$function(other.like(self), other)
            }
        }
    };
}
operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);
impl<'g> ops::Neg for Value<'g> {
    type Output = Value<'g>;
    #[track_caller]
    fn neg(self) -> Value<'g> {
        operations::neg(self)
    }
}

// The numbers of the operation compare.
#[track_caller]
pub fn equal<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 0)
}
#[track_caller]
pub fn not_equal<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 1)
}
#[track_caller]
pub fn less<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 2)
}
#[track_caller]
pub fn less_equal<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 3)
}
#[track_caller]
pub fn greater<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 4)
}
#[track_caller]
pub fn greater_equal<'g>(a: Value<'g>, b: f64) -> Value<'g> {
    compare(a, a.like(b), 5)
}
#[track_caller]
pub fn to_float(x: Value) -> Value {
    cast(x, HK_KIND_FLOAT.into())
}
/// Returns the sum over all axes.
#[track_caller]
pub fn sum_all(x: Value) -> Value {
    let axes: Vec<i64> = (0..x.rank() as i64).collect();
    sum(x, &axes)
}

/// Emits a plugin's own operation, of this or another plugin, by name and revision; returns its first output.
#[track_caller]
pub fn own<'g>(name: &str, revision: u32, inputs: &[Value<'g>], attributes: &[(&str, Attribute)]) -> Value<'g> {
    own_outputs(name, revision, inputs, attributes, 1)[0]
}
/// Returns the first `count` outputs.
#[track_caller]
pub fn own_outputs<'g>(
    name: &str, revision: u32, inputs: &[Value<'g>], attributes: &[(&str, Attribute)], count: usize,
) -> Vec<Value<'g>> {
    Graph::of(inputs).emit(name, revision, &Value::ids(inputs), attributes, count)
}

// Layers under their file names, as in block.hpp of the C++ layer.

/// Applies NAME.weight: x [..., in] -> [..., out].
#[track_caller]
pub fn linear_layer<'g>(x: Value<'g>, name: &str, out: i64) -> Value<'g> {
    linear(x, x.graph().parameter(&format!("{}.weight", name), &[out, x.dim(-1)], normal(0.02)))
}
/// Applies NAME.weight and NAME.bias: x [..., in] -> [..., out].
#[track_caller]
pub fn linear_layer_with_bias<'g>(x: Value<'g>, name: &str, out: i64) -> Value<'g> {
    let weight = x.graph().parameter(&format!("{}.weight", name), &[out, x.dim(-1)], normal(0.02));
    let bias = x.graph().parameter(&format!("{}.bias", name), &[out], zeros());
    linear_with(x, weight, LinearOptions::new().bias(bias))
}
/// Applies NAME.weight and NAME.bias over the last axis.
#[track_caller]
pub fn layer_norm_layer<'g>(x: Value<'g>, name: &str, epsilon: f64) -> Value<'g> {
    let gain = x.graph().parameter(&format!("{}.weight", name), &[x.dim(-1)], ones());
    let bias = x.graph().parameter(&format!("{}.bias", name), &[x.dim(-1)], zeros());
    layer_norm_with(x, LayerNormOptions::new().gain(gain).bias(bias).epsilon(epsilon))
}
/// Applies NAME.weight over the last axis.
#[track_caller]
pub fn rms_norm_layer<'g>(x: Value<'g>, name: &str, epsilon: f64) -> Value<'g> {
    let gain = x.graph().parameter(&format!("{}.weight", name), &[x.dim(-1)], ones());
    rms_norm_with(x, RmsNormOptions::new().gain(gain).epsilon(epsilon))
}
/// Applies dropout if the mode is train and the probability above 0.
#[track_caller]
pub fn drop_some<'g>(x: Value<'g>, probability: f64) -> Value<'g> {
    if x.graph().training() && probability > 0.0 {
        dropout(x, probability)
    } else {
        x
    }
}

// ---- configuration --------------------------------------------------------------------------------------------------

/// A configuration with access by name. Defaults are the manifest's.
pub struct Config<'a> {
    raw: *const hk_config,
    lives: PhantomData<&'a hk_config>,
}

impl Config<'_> {
    pub fn has(&self, key: &str) -> bool {
        call!(CONFIG, has(self.raw, text(key))) != 0
    }
    since_2! {
        /// Returns whether the key exists and is null; a parameter with a default needs `"null": true` in the manifest.
        pub fn is_null(&self, key: &str) -> bool {
            call!(CONFIG, is_null(self.raw, text(key))) != 0
        }
    }
    pub fn integer(&self, key: &str) -> Result<i64> {
        let mut value = 0;
        let code = call!(CONFIG, get_integer(self.raw, text(key), &mut value, std::ptr::null_mut()));
        self.checked(code, key, "an integer", value)
    }
    pub fn real(&self, key: &str) -> Result<f64> {
        let mut value = 0.0;
        let code = call!(CONFIG, get_real(self.raw, text(key), &mut value, std::ptr::null_mut()));
        self.checked(code, key, "a number", value)
    }
    pub fn boolean(&self, key: &str) -> Result<bool> {
        let mut value = 0;
        let code = call!(CONFIG, get_boolean(self.raw, text(key), &mut value, std::ptr::null_mut()));
        self.checked(code, key, "true or false", value != 0)
    }
    pub fn text(&self, key: &str) -> Result<String> {
        let mut value = text("");
        let code = call!(CONFIG, get_text(self.raw, text(key), &mut value, std::ptr::null_mut()));
        self.checked(code, key, "a text", unsafe { String::from_utf8_lossy(bytes_of(value)).into_owned() })
    }
    /// Returns the number of members of an object or elements of an array.
    pub fn count(&self, key: &str) -> Result<u64> {
        let mut value = 0;
        let code = call!(CONFIG, get_count(self.raw, text(key), &mut value, std::ptr::null_mut()));
        self.checked(code, key, "an object or an array", value)
    }
    pub fn integer_or(&self, key: &str, otherwise: i64) -> Result<i64> {
        if self.has(key) {
            self.integer(key)
        } else {
            Ok(otherwise)
        }
    }

    fn checked<T>(&self, code: i32, key: &str, expected: &str, value: T) -> Result<T> {
        if code == HK_OK {
            return Ok(value);
        }
        let how = if self.has(key) { "is not" } else { "is missing, expected" };
        Err(Error::new(code, format!("config key '{}' {} {}", key, how, expected)))
    }
}

/// The output of write(), for config.json.
pub struct ConfigWriter<'a> {
    raw: *mut hk_config_writer,
    lives: PhantomData<&'a hk_config_writer>,
}

impl ConfigWriter<'_> {
    pub fn integer(&mut self, key: &str, value: i64) -> Result<()> {
        written(call!(CONFIG, set_integer(self.raw, text(key), value, std::ptr::null_mut())), key)
    }
    pub fn real(&mut self, key: &str, value: f64) -> Result<()> {
        written(call!(CONFIG, set_real(self.raw, text(key), value, std::ptr::null_mut())), key)
    }
    pub fn boolean(&mut self, key: &str, value: bool) -> Result<()> {
        written(call!(CONFIG, set_boolean(self.raw, text(key), value.into(), std::ptr::null_mut())), key)
    }
    pub fn text(&mut self, key: &str, value: &str) -> Result<()> {
        written(call!(CONFIG, set_text(self.raw, text(key), text(value), std::ptr::null_mut())), key)
    }
    pub fn null(&mut self, key: &str) -> Result<()> {
        written(call!(CONFIG, set_null(self.raw, text(key), std::ptr::null_mut())), key)
    }
    /// Starts an array whose elements are then written as "KEY.0", "KEY.1", ...
    pub fn array(&mut self, key: &str, count: u64) -> Result<()> {
        written(call!(CONFIG, set_array(self.raw, text(key), count, std::ptr::null_mut())), key)
    }
}

fn written(code: i32, key: &str) -> Result<()> {
    if code == HK_OK {
        return Ok(());
    }
    Err(Error::new(code, format!("cannot write config key '{}'", key)))
}

// ---- tokenizer, examples, batches -----------------------------------------------------------------------------------

/// The run's tokenizer, valid as long as the instance that it was given to.
pub struct Tokenizer(*const hk_tokenizer);
unsafe impl Send for Tokenizer {} // all of its functions are [any-thread]
unsafe impl Sync for Tokenizer {}

impl Tokenizer {
    pub fn vocabulary_size(&self) -> i64 {
        call!(TOKENIZER, vocabulary_size(self.0))
    }
    /// "bos" "eos" "pad" "unk" "mask" "separator" "classifier" "sentinel.0" ...
    pub fn role(&self, role: &str) -> Option<i32> {
        let id = call!(TOKENIZER, id_of_role(self.0, text(role)));
        if id < 0 {
            None
        } else {
            Some(id as i32)
        }
    }
    pub fn is_word_start(&self, id: i32) -> bool {
        call!(TOKENIZER, is_word_start(self.0, id.into())) != 0
    }
    pub fn is_sentence_end(&self, id: i32) -> bool {
        call!(TOKENIZER, is_sentence_end(self.0, id.into())) != 0
    }
    /// Panics if the host cannot decode, which becomes an error of the calling function.
    pub fn decode(&self, ids: &[i32]) -> String {
        let wide: Vec<i64> = ids.iter().map(|&id| id.into()).collect();
        let mut size = 0;
        let (data, count) = (wide.as_ptr(), wide.len() as u64);
        let nowhere = std::ptr::null_mut();
        let code = call!(TOKENIZER, decode(self.0, data, count, nowhere, &mut size, std::ptr::null_mut()));
        assert!(code == HK_OK, "the tokenizer could not make a text of these ids");
        let mut bytes = vec![0u8; size as usize];
        let place = bytes.as_mut_ptr() as *mut c_char;
        let code = call!(TOKENIZER, decode(self.0, data, count, place, &mut size, std::ptr::null_mut()));
        assert!(code == HK_OK, "the tokenizer could not make a text of these ids");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// One column of an example.
#[derive(Clone, Copy)]
pub struct Column<'a>(&'a hk_column);

impl<'a> Column<'a> {
    pub fn ids(self) -> &'a [i32] {
        unsafe { slice_of(self.0.ids, self.0.size) }
    }
    pub fn numbers(self) -> &'a [f32] {
        unsafe { slice_of(self.0.numbers, self.0.size) }
    }
    /// Returns where each part begins in ids.
    pub fn parts(self) -> &'a [u64] {
        unsafe { slice_of(self.0.parts, self.0.part_count) }
    }
    pub fn part(self, i: usize) -> &'a [i32] {
        let begin = self.parts()[i] as usize;
        let end = self.parts().get(i + 1).map_or(self.ids().len(), |&next| next as usize);
        &self.ids()[begin..end]
    }
}

/// One example, valid during the call that it was given to.
#[derive(Clone, Copy)]
pub struct Example<'a>(&'a hk_example);

impl<'a> Example<'a> {
    /// Returns None if the data has no such column.
    pub fn find(self, name: &str) -> Option<Column<'a>> {
        let mut columns = unsafe { elements(self.0.columns, self.0.column_count) };
        columns.find(|c| unsafe { bytes_of(c.name) } == name.as_bytes()).map(Column)
    }
    pub fn get(self, name: &str) -> Result<Column<'a>> {
        self.find(name).ok_or_else(|| Error::invalid(format!("the example has no column '{}'", name)))
    }
    pub fn index(self) -> u64 {
        self.0.index
    }
    pub fn epoch(self) -> u64 {
        self.0.epoch
    }
    pub fn document(self) -> u64 {
        self.0.document
    }
    /// Returns random numbers of this example; stream: a number chosen by the objective.
    pub fn random(self, seed: u64, stream: u64) -> Random {
        Random::new(seed, self.0.epoch, self.0.index, stream)
    }
}

/// The examples from which collate makes fields.
pub struct Batch<'a>(&'a hk_batch);

impl<'a> Batch<'a> {
    pub fn len(&self) -> usize {
        self.0.example_count as usize
    }
    pub fn seed(&self) -> u64 {
        self.0.seed
    }
    since_1! {
        /// The step of the training that the batch is for, from 0.
        pub fn step(&self) -> u64 {
            self.0.step
        }
    }
    pub fn examples(&self) -> impl Iterator<Item = Example<'a>> {
        unsafe { elements(self.0.examples, self.0.example_count) }.map(Example)
    }
}

/// The storage of one field as rows: the first axis by all other axes.
pub struct Rows<'a, T> {
    data: &'a mut [T],
    width: usize,
}

impl<T: Copy> Rows<'_, T> {
    pub fn len(&self) -> usize {
        if self.width == 0 {
            0
        } else {
            self.data.len() / self.width
        }
    }
    pub fn width(&self) -> usize {
        self.width
    }
    pub fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.width..(row + 1) * self.width]
    }
    /// Fills rows from `row` on, e.g. those without an example.
    pub fn fill_from(&mut self, row: usize, value: T) {
        self.data[row * self.width..].fill(value);
    }
}

/// The fields that collate fills, by name. Each can be taken once.
pub struct Fields<'a> {
    first: *const hk_field,
    count: u32,
    lives: PhantomData<&'a mut hk_field>,
    given: RefCell<Vec<bool>>,
}

impl<'a> Fields<'a> {
    pub fn ints(&self, name: &str) -> Result<Rows<'a, i32>> {
        self.rows(name, HK_KIND_INT32)
    }
    pub fn floats(&self, name: &str) -> Result<Rows<'a, f32>> {
        self.rows(name, HK_KIND_FLOAT32)
    }

    fn rows<T>(&self, name: &str, kind: i32) -> Result<Rows<'a, T>> {
        let mut all = unsafe { elements(self.first, self.count) };
        let found = all.position(|f| unsafe { bytes_of(f.name) } == name.as_bytes() && f.kind == kind);
        let at = found.ok_or_else(|| {
            Error::new(HK_FAILED_PRECONDITION, format!("the batch has no field '{}' of this kind", name))
        })?;
        if std::mem::replace(&mut self.given.borrow_mut()[at], true) {
            return Err(Error::new(HK_FAILED_PRECONDITION, format!("the field '{}' was asked for twice", name)));
        }
        let (data, size, width) = extent(unsafe { &*element(self.first, at) });
        Ok(Rows { data: unsafe { std::slice::from_raw_parts_mut(data as *mut T, size) }, width })
    }
}

// Returns the storage of a field, its number of values, and the number per row.
fn extent(field: &hk_field) -> (*mut c_void, usize, usize) {
    let dims = &field.dims[..(field.rank as usize).min(HK_MAX_RANK)];
    let size = dims.iter().product::<i64>() as usize;
    let width = dims.iter().skip(1).product::<i64>() as usize;
    let none = std::ptr::NonNull::<u64>::dangling().as_ptr() as *mut c_void;
    (if field.data.is_null() { none } else { field.data }, if field.data.is_null() { 0 } else { size }, width)
}

/// Random numbers as a pure function of (seed, epoch, index of the example, stream): SplitMix64, with the state keyed
/// by rounds of its output function.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, epoch: u64, index: u64, stream: u64) -> Self {
        let keyed = [epoch, index, stream].iter().fold(mix(seed), |state, &part| mix(state ^ mix(part)));
        Random(keyed)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        mix(self.0)
    }
    /// Returns a value in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Returns a value in [0, bound), bound > 0; rejects values that would favor small numbers.
    pub fn below(&mut self, bound: u64) -> u64 {
        let uneven = bound.wrapping_neg() % bound;
        loop {
            let x = self.next();
            if x >= uneven {
                return x % bound;
            }
        }
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

// ---- the input of heads ---------------------------------------------------------------------------------------------

/// One output of the network.
pub struct Output<'a>(&'a hk_output);

impl<'a> Output<'a> {
    pub fn row(&self, row: usize) -> &'a [f32] {
        let width = self.0.dims[1..(self.0.rank as usize).clamp(1, HK_MAX_RANK)].iter().product::<i64>() as usize;
        unsafe { std::slice::from_raw_parts(self.0.values.add(row * width), width) }
    }
}

pub struct DecodeInput<'a>(&'a hk_decode_input);

impl<'a> DecodeInput<'a> {
    pub fn rows(&self) -> usize {
        self.0.row_count as usize
    }
    pub fn output(&self, port: &str) -> Result<Output<'a>> {
        let mut outputs = unsafe { elements(self.0.outputs, self.0.output_count) };
        let found = outputs.find(|o| unsafe { bytes_of(o.port) } == port.as_bytes());
        found.map(Output).ok_or_else(|| Error::invalid(format!("there is no output '{}' to read", port)))
    }
    /// Returns one row of an int32 field of the batch.
    pub fn ints(&self, name: &str, row: usize) -> Result<&'a [i32]> {
        let mut fields = unsafe { elements(self.0.fields, self.0.field_count) };
        let found = fields
            .find(|f| unsafe { bytes_of(f.name) } == name.as_bytes() && f.kind == HK_KIND_INT32)
            .ok_or_else(|| Error::invalid(format!("the batch has no int32 field '{}'", name)))?;
        let (data, size, width) = extent(found);
        let all: &'a [i32] = unsafe { std::slice::from_raw_parts(data as *const i32, size) };
        Ok(&all[row * width..(row + 1) * width])
    }
}

pub fn best_of(scores: &[f32]) -> usize {
    (0..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}
pub fn softmax_of(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
    let raised: Vec<f64> = scores.iter().map(|&score| (score as f64 - most).exp()).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|p| p / sum).collect()
}
pub fn json_number(x: f64) -> String {
    if x.is_finite() {
        format!("{}", x)
    } else {
        "null".to_string()
    }
}
pub fn json_numbers(values: &[f64]) -> String {
    let all: Vec<String> = values.iter().map(|&x| json_number(x)).collect();
    format!("[{}]", all.join(", "))
}
pub fn json_text(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

// ---- the kinds of plugins -------------------------------------------------------------------------------------------

/// Label of a position that is not scored.
pub const IGNORED: i32 = -100;

/// The body of a network. Instances share no state; build functions are called by one thread at a time.
pub trait Architecture: Sized + Send + 'static {
    fn new(config: &Config) -> Result<Self>;
    /// Describes the network from fields of the batch to ports.
    fn build(&self, g: &Graph) -> Result<()>;
    /// Describes its own head of that id, after build(); false: it has none.
    fn head(&self, g: &Graph, id: &str) -> Result<bool> {
        let _ = (g, id);
        Ok(false)
    }
    /// Writes config.json.
    fn write(&self, out: &mut ConfigWriter) -> Result<()>;
}

/// A field of a batch.
pub struct Field {
    pub name: &'static str,
    pub kind: i32,
    pub dims: Vec<i64>,
}
impl Field {
    pub fn ints(name: &'static str, dims: &[i64]) -> Field {
        Field { name, kind: HK_KIND_INT32, dims: dims.to_vec() }
    }
    pub fn floats(name: &'static str, dims: &[i64]) -> Field {
        Field { name, kind: HK_KIND_FLOAT32, dims: dims.to_vec() }
    }
}

/// A column that an objective reads: kind HK_COLUMN_*, flags HK_COLUMN_OPTIONAL and HK_COLUMN_TARGET.
pub struct ColumnNeed {
    pub name: &'static str,
    pub kind: i32,
    pub flags: u32,
}

/// A loss to minimize, with its batches. collate() and example_length() are called by many threads at once.
pub trait Objective: Sized + Send + Sync + 'static {
    /// HK_EXAMPLE_*.
    const EXAMPLE_KIND: i32;
    /// false: it only computes the loss of given batches.
    const COLLATES: bool = true;
    /// true: example_length() returns the length that a row must have.
    const KNOWS_LENGTHS: bool = false;

    fn new(config: &Config, tokenizer: Option<Tokenizer>) -> Result<Self>;
    /// For windows and documents: the number of raw tokens that fill a row.
    fn tokens_per_example(&self, length: i64) -> i64 {
        length
    }
    /// For rows: the columns of a table that it reads.
    fn columns(&self) -> Vec<ColumnNeed> {
        Vec::new()
    }
    fn example_length(&self, example: Example) -> i64 {
        let _ = example;
        0
    }
    /// The fields that collate() writes and build() reads.
    fn fields(&self, batch: i64, length: i64) -> Vec<Field>;
    fn build(&self, g: &Graph) -> Result<()>;
    /// Fills the fields; a pure function of the batch.
    fn collate(&self, batch: &Batch, fields: &Fields) -> Result<()> {
        let _ = (batch, fields);
        Err(Error::unsupported("this objective has no collate"))
    }
}

/// From ports to outputs, and from outputs to results for users. decode() is called by many threads at once.
pub trait Head: Sized + Send + Sync + 'static {
    /// The ports that decode() reads; empty: there is no decode.
    const PORTS: &'static [&'static str] = &[];

    fn new(config: &Config) -> Result<Self>;
    fn build(&self, g: &Graph) -> Result<()>;
    /// Returns the JSON of one row.
    fn decode(&self, input: &DecodeInput, row: usize) -> Result<String> {
        let _ = (input, row);
        Err(Error::unsupported("this head has no decode"))
    }
}

// ---- adapters and combiners -----------------------------------------------------------------------------------------

since_1! {
unsafe fn str_of<'a>(s: hk_string) -> &'a str {
    std::str::from_utf8(bytes_of(s)).unwrap_or("")
}

// The host's functions for adapters.
fn adapter_host() -> Result<&'static hk_adapter_host> {
    let host = HOST.get();
    let get = |id: &str| unsafe { host.get_interface.map_or(std::ptr::null(), |f| f(host, text(id))) };
    let found = unsafe { (get(HK_ADAPTER_HOST_INTERFACE) as *const hk_adapter_host).as_ref() };
    found.ok_or_else(|| Error::unsupported(format!("the host lacks {}", HK_ADAPTER_HOST_INTERFACE)))
}

/// Returns whether a regular expression matches the whole text. For adapters and combiners.
pub fn matches_expression(expression: &str, whole: &str) -> Result<bool> {
    let mut matched = 0;
    let function = adapter_host()?.matches.expect("the host lacks matches");
    let code = unsafe { function(text(expression), text(whole), &mut matched, std::ptr::null_mut()) };
    if code == HK_OK {
        return Ok(matched != 0);
    }
    Err(Error::new(code, format!("'{}' is not a regular expression, or takes too many steps", expression)))
}

impl Graph {
    /// Returns a parameter of an adapter that begins with the values of `value`, which depends on the body's parameters
    /// alone. flags: HK_PARAMETER_*.
    #[track_caller]
    pub fn initial_parameter(&self, name: &str, value: Value<'_>, flags: u32) -> Result<Value<'_>> {
        let function = adapter_host()?.initial.expect("the host lacks initial");
        Ok(self.value(unsafe { function(self.builder, text(name), value.id, flags) }))
    }
}

impl Config<'_> {
    /// Returns the names of an object's members; none if the key is missing. For adapters and combiners.
    pub fn members(&self, key: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let function = adapter_host()?.member.expect("the host lacks member");
        for i in 0..if self.has(key) { self.count(key)? } else { 0 } {
            let mut name = text("");
            let code = unsafe { function(self.raw, text(key), i, &mut name, std::ptr::null_mut()) };
            names.push(self.checked(code, key, "an object", unsafe { str_of(name) }.to_string())?);
        }
        Ok(names)
    }
}

/// A place of the network where an adapter acts.
#[derive(Clone, Copy)]
pub struct Site<'a>(&'a hk_adapter_site);

impl<'a> Site<'a> {
    /// Returns HK_SITE_*.
    pub fn kind(self) -> i32 {
        self.0.kind
    }
    pub fn is_linear(self) -> bool {
        self.0.kind == HK_SITE_LINEAR
    }
    pub fn is_embedding(self) -> bool {
        self.0.kind == HK_SITE_EMBEDDING
    }
    pub fn is_norm(self) -> bool {
        self.0.kind == HK_SITE_NORM
    }
    pub fn is_residual(self) -> bool {
        self.0.kind == HK_SITE_RESIDUAL
    }
    pub fn is_attention(self) -> bool {
        self.0.kind == HK_SITE_ATTENTION
    }
    pub fn name(self) -> &'a str {
        unsafe { str_of(self.0.name) }
    }
    /// Returns the name of its parameter; empty if it has none.
    pub fn parameter(self) -> &'a str {
        unsafe { str_of(self.0.parameter) }
    }
    pub fn bias(self) -> &'a str {
        unsafe { str_of(self.0.bias) }
    }
    /// Returns `in` of hk_adapter_site: the width of what a linear layer reads, the rows of an embedding's table.
    pub fn inputs(self) -> i64 {
        self.0.r#in
    }
    /// Returns `out` of hk_adapter_site.
    pub fn outputs(self) -> i64 {
        self.0.out
    }
    pub fn index(self) -> i64 {
        self.0.index
    }
    pub fn of_head(self) -> bool {
        self.0.flags & HK_SITE_OF_HEAD != 0
    }
    pub fn of_attention(self) -> bool {
        self.0.flags & HK_SITE_OF_ATTENTION != 0
    }
    pub fn of_cross(self) -> bool {
        self.0.flags & HK_SITE_OF_CROSS != 0
    }
    pub fn of_tokens(self) -> bool {
        self.0.flags & HK_SITE_OF_TOKENS != 0
    }
    /// Attention of an encoder-decoder's decoder.
    pub fn of_decoder(self) -> bool {
        self.0.flags & HK_SITE_OF_DECODER != 0
    }
}

/// The values of a site; see hk_site_values.
#[derive(Clone, Copy)]
pub struct SiteValues<'g> {
    pub x: Value<'g>,
    pub y: Value<'g>,
    pub weight: Option<Value<'g>>,
    pub bias: Option<Value<'g>>,
    pub normed: Option<Value<'g>>,
}

/// What a site computes with after merging.
#[derive(Clone, Copy)]
pub struct MergedSite<'g> {
    pub weight: Value<'g>,
    pub bias: Option<Value<'g>>,
}

/// What an adapter answers at a site.
#[derive(Clone, Copy)]
pub struct Answer<'g> {
    kind: i32,
    value: Option<Value<'g>>,
    second: Option<Value<'g>>,
    input: Option<Value<'g>>,
    matrices: Option<(Value<'g>, Value<'g>)>,
}

impl<'g> Answer<'g> {
    fn of(kind: i32, value: Option<Value<'g>>, second: Option<Value<'g>>) -> Self {
        Answer { kind, value, second, input: None, matrices: None }
    }
    /// Nothing changes.
    pub fn none() -> Self {
        Self::of(HK_ANSWER_NONE, None, None)
    }
    /// The value is added to y.
    pub fn delta(value: Value<'g>) -> Self {
        Self::of(HK_ANSWER_DELTA, Some(value), None)
    }
    /// The value replaces y.
    pub fn instead(value: Value<'g>) -> Self {
        Self::of(HK_ANSWER_VALUE, Some(value), None)
    }
    /// At a residual site: the value replaces the sum and its norm.
    pub fn result(value: Value<'g>) -> Self {
        Self::of(HK_ANSWER_RESULT, Some(value), None)
    }
    /// What virtual tokens have: embeddings, or keys and values.
    pub fn at_virtual_tokens(value: Value<'g>, second: Option<Value<'g>>) -> Self {
        Self::of(HK_ANSWER_VIRTUAL, Some(value), second)
    }
    /// The delta is a number times (input A^T) B^T, with a [r, in] and b [out, r].
    pub fn of_matrices(mut self, a: Value<'g>, b: Value<'g>) -> Self {
        self.matrices = Some((a, b));
        self
    }
    /// What the answer is computed from; without it, the site's y.
    pub fn from(mut self, input: Value<'g>) -> Self {
        self.input = Some(input);
        self
    }
}

/// How many virtual tokens begin each row, whether heads and objective do not see them, and whether the row's own tokens
/// begin at position 0.
#[derive(Clone, Copy, Default)]
pub struct VirtualTokens {
    pub count: i64,
    pub hidden: bool,
    pub without_positions: bool,
}

/// A small addition to a frozen body. wants(), trains() and virtual_tokens() are called by many threads at once.
pub trait Adapter: Sized + Send + Sync + 'static {
    /// true: it has merge().
    const MERGES: bool = false;
    /// true: it has write().
    const WRITES_CONFIG: bool = false;

    fn new(config: &Config) -> Result<Self>;
    /// Returns whether it acts at this site; the same for the same site.
    fn wants(&self, site: Site) -> Result<bool>;
    /// Returns which of the site's own parameters are trained: HK_TRAINS_WEIGHT, HK_TRAINS_BIAS.
    fn trains(&self, site: Site) -> Result<u32> {
        let _ = site;
        Ok(0)
    }
    fn virtual_tokens(&self) -> Result<VirtualTokens> {
        Ok(VirtualTokens::default())
    }
    fn adapt<'g>(&self, g: &'g Graph, site: Site, v: &SiteValues<'g>) -> Result<Answer<'g>>;
    /// Returns the weight and bias with which the layer alone computes what it computes with the adapter.
    fn merge<'g>(
        &self, g: &'g Graph, site: Site, weight: Value<'g>, bias: Option<Value<'g>>,
    ) -> Result<MergedSite<'g>> {
        let _ = (g, site, weight, bias);
        Err(Error::unsupported("this adapter cannot be merged"))
    }
    fn write(&self, out: &mut ConfigWriter) -> Result<()> {
        let _ = out;
        Err(Error::unsupported("this adapter has no form in PEFT"))
    }
}

/// What an adapter, or a combination of several, answers at a site.
#[derive(Clone, Copy)]
pub struct Branch<'g> {
    pub name: &'g str,
    /// What it alone would add to y; None: it does not act here.
    pub delta: Option<Value<'g>>,
    pub input: Option<Value<'g>>,
    /// Of a low-rank change: A [r, in] and B [out, r].
    pub a: Option<Value<'g>>,
    pub b: Option<Value<'g>>,
}

/// What a combiner gives; see hk_combined.
#[derive(Clone, Copy)]
pub struct Combined<'g> {
    pub delta: Value<'g>,
    pub weights: Option<Value<'g>>,
    pub loss: Option<Value<'g>>,
}

/// Makes one answer of what several adapters answer at a site.
pub trait Combiner: Sized + Send + 'static {
    fn new(config: &Config) -> Result<Self>;
    fn combine<'g>(
        &self, g: &'g Graph, site: Site, v: &SiteValues<'g>, branches: &[Branch<'g>],
    ) -> Result<Combined<'g>>;
}

/// A parameter that an optimizer updates.
#[derive(Clone, Copy)]
pub struct Optimized<'a>(&'a hk_optimized);

impl<'a> Optimized<'a> {
    pub fn dims(self) -> &'a [i64] {
        &self.0.dims[..self.0.rank as usize]
    }
    /// Returns whether weight decay applies to it.
    pub fn decays(self) -> bool {
        self.0.flags & HK_OPTIMIZED_DECAYS != 0
    }
    /// Returns whether it is the table of an embedding.
    pub fn is_table(self) -> bool {
        self.0.flags & HK_OPTIMIZED_TABLE != 0
    }
}

/// What an update is computed from; see hk_update_values.
#[derive(Clone, Copy)]
pub struct UpdateValues<'g> {
    pub parameter: Value<'g>,
    pub gradient: Value<'g>,
    pub learning_rate: Value<'g>,
    pub step: Value<'g>,
}

/// Updates a parameter in every step. `state_read` declares what it remembers and gives its value, `state_write` sets
/// the value of the following step.
pub trait Optimizer: Sized + Send + Sync + 'static {
    fn new(config: &Config) -> Result<Self>;
    /// Returns whether it updates such a parameter; if not, AdamW does.
    fn takes(&self, parameter: Optimized) -> bool {
        let _ = parameter;
        true
    }
    /// Returns the new value of the parameter.
    fn update<'g>(&self, g: &'g Graph, parameter: Optimized, v: &UpdateValues<'g>) -> Result<Value<'g>>;
}
}

// ---- the plugin's own operations ------------------------------------------------------------------------------------

/// GLSL with its location in the author's file, so that the compiler's messages have the right line numbers. Created by
/// `glsl!`.
#[derive(Clone, Copy, Default)]
pub struct Glsl {
    pub text: &'static str,
    pub file: &'static str,
    pub line: u32,
}

/// glsl!("..."), where the text begins on the same line.
#[macro_export]
macro_rules! glsl {
    ($text:expr) => {
        $crate::Glsl { text: $text, file: file!(), line: line!() }
    };
}

pub struct OperationInput {
    pub name: &'static str,
    pub kind: i32,
}
/// Accepts float and float32.
pub fn float_input(name: &'static str) -> OperationInput {
    OperationInput { name, kind: HK_KIND_FLOAT }
}
pub fn int_input(name: &'static str) -> OperationInput {
    OperationInput { name, kind: HK_KIND_INT32 }
}

pub struct OperationAttribute {
    pub name: &'static str,
    pub kind: i32,
    pub fallback: Option<Attribute<'static>>,
}
/// Declares an attribute with a default.
pub fn optional(name: &'static str, fallback: Attribute<'static>) -> OperationAttribute {
    OperationAttribute { name, kind: raw_attribute(name, &fallback).r#type, fallback: Some(fallback) }
}
/// Declares an attribute without a default; kind: HK_ATTRIBUTE_*.
pub fn required(name: &'static str, kind: i32) -> OperationAttribute {
    OperationAttribute { name, kind, fallback: None }
}

/// The constant part of a revision. Either glsl or spirv.
pub struct OperationText {
    pub revision: u32,
    pub inputs: Vec<OperationInput>,
    pub attributes: Vec<OperationAttribute>,
    pub outputs: Vec<&'static str>,
    /// 0: chosen by the host; otherwise 1 to 256.
    pub local_size: u32,
    pub glsl: Glsl,
    pub spirv: Vec<u32>,
}
impl Default for OperationText {
    fn default() -> Self {
        OperationText {
            revision: 1,
            inputs: Vec::new(),
            attributes: Vec::new(),
            outputs: Vec::new(),
            local_size: 0,
            glsl: Glsl::default(),
            spirv: Vec::new(),
        }
    }
}

/// The attributes of a use, by name; an unknown name or another type is an error.
#[derive(Clone, Copy)]
pub struct OperationAttributes<'a> {
    first: *const hk_attribute,
    count: u32,
    lives: PhantomData<&'a hk_attribute>,
}

impl<'a> OperationAttributes<'a> {
    pub fn integer(&self, name: &str) -> Result<i64> {
        Ok(self.find(name, HK_ATTRIBUTE_INT)?.integer)
    }
    pub fn real(&self, name: &str) -> Result<f64> {
        Ok(self.find(name, HK_ATTRIBUTE_REAL)?.real)
    }
    pub fn text(&self, name: &str) -> Result<&'a str> {
        let text = self.find(name, HK_ATTRIBUTE_TEXT)?.text;
        std::str::from_utf8(unsafe { bytes_of(text) }).map_err(|_| Error::invalid("an attribute that is not UTF-8"))
    }
    pub fn integers(&self, name: &str) -> Result<&'a [i64]> {
        let a = self.find(name, HK_ATTRIBUTE_INTS)?;
        Ok(unsafe { slice_of(a.integers, a.count) })
    }
    pub fn reals(&self, name: &str) -> Result<&'a [f64]> {
        let a = self.find(name, HK_ATTRIBUTE_REALS)?;
        Ok(unsafe { slice_of(a.reals, a.count) })
    }

    fn find(&self, name: &str, kind: i32) -> Result<&'a hk_attribute> {
        let mut all = unsafe { elements(self.first, self.count) };
        let found = all.find(|a| unsafe { bytes_of(a.name) } == name.as_bytes() && a.r#type == kind);
        found.ok_or_else(|| Error::new(HK_INTERNAL, format!("there is no attribute '{}' of this type", name)))
    }
}

/// One use: shapes, and in reference() the numbers. Inputs and outputs are addressed by index.
pub struct OperationUse<'a> {
    raw: &'a hk_operation_use,
    cost: *mut hk_operation_cost,
    attributes: OperationAttributes<'a>,
}

impl<'a> ops::Deref for OperationUse<'a> {
    type Target = OperationAttributes<'a>;
    fn deref(&self) -> &Self::Target {
        &self.attributes
    }
}

impl<'a> OperationUse<'a> {
    fn new(raw: &'a hk_operation_use, cost: *mut hk_operation_cost) -> Self {
        let attributes = OperationAttributes { first: raw.attributes, count: raw.attribute_count, lives: PhantomData };
        OperationUse { raw, cost, attributes }
    }
    pub fn shape(&self, input: usize) -> Result<Vec<i64>> {
        Ok(dims_of(self.tensor(input)?).to_vec())
    }
    /// Returns HK_KIND_*.
    pub fn kind(&self, input: usize) -> Result<i32> {
        Ok(self.tensor(input)?.kind)
    }
    pub fn input(&self, input: usize) -> Result<&'a [f64]> {
        let t = self.tensor(input)?;
        Ok(unsafe { slice_of(t.data, dims_of(t).iter().product::<i64>() as u64) })
    }
    pub fn output(&mut self, output: usize) -> Result<&mut [f64]> {
        let t = unsafe { &mut *self.place(output)? };
        let size = dims_of(t).iter().product::<i64>() as usize;
        Ok(if t.data.is_null() { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(t.data, size) } })
    }

    /// In shape(): sets the shape of an output, a float tensor.
    pub fn give(&mut self, output: usize, shape: &[i64]) -> Result<()> {
        self.give_kind(output, shape, HK_KIND_FLOAT)
    }
    pub fn give_kind(&mut self, output: usize, shape: &[i64], kind: i32) -> Result<()> {
        if shape.len() > HK_MAX_RANK {
            return Err(Error::invalid(format!("{} dimensions, at most {} are possible", shape.len(), HK_MAX_RANK)));
        }
        let t = unsafe { &mut *self.place(output)? };
        t.kind = kind;
        t.rank = shape.len() as u32;
        t.dims[..shape.len()].copy_from_slice(shape);
        Ok(())
    }
    /// In shape(): sets the cost if the host's estimate is wrong.
    pub fn cost(&mut self) -> Result<&mut hk_operation_cost> {
        unsafe { self.cost.as_mut() }.ok_or_else(|| Error::new(HK_INTERNAL, "set the cost in shape()"))
    }
    pub fn require_same_shape(&self, a: usize, b: usize) -> Result<()> {
        let (of_a, of_b) = (self.shape(a)?, self.shape(b)?);
        if of_a == of_b {
            return Ok(());
        }
        Err(Error::invalid(format!("inputs {} and {} are {:?} and {:?}; they must be alike", a, b, of_a, of_b)))
    }
    pub fn require_rank(&self, input: usize, rank: usize) -> Result<()> {
        let shape = self.shape(input)?;
        if shape.len() == rank {
            return Ok(());
        }
        Err(Error::invalid(format!("input {} is {:?}, expected {} dimensions", input, shape, rank)))
    }

    fn tensor(&self, i: usize) -> Result<&'a hk_operation_tensor> {
        if i >= self.raw.input_count as usize {
            return Err(Error::new(HK_INTERNAL, format!("there is no input {}", i)));
        }
        Ok(unsafe { &*element(self.raw.inputs, i) })
    }
    fn place(&self, i: usize) -> Result<*mut hk_operation_tensor> {
        if i >= self.raw.output_count as usize {
            return Err(Error::new(HK_INTERNAL, format!("there is no output {}", i)));
        }
        Ok(unsafe { element(self.raw.outputs as *const hk_operation_tensor, i) } as *mut hk_operation_tensor)
    }
}

fn dims_of(t: &hk_operation_tensor) -> &[i64] {
    &t.dims[..(t.rank as usize).min(HK_MAX_RANK)]
}

/// The arguments of gradient().
pub struct OperationGradient<'g> {
    pub graph: &'g Graph,
    pub inputs: Vec<Value<'g>>,
    pub outputs: Vec<Value<'g>>,
    /// Empty values for int32 outputs.
    pub output_gradients: Vec<Value<'g>>,
    attributes: OperationAttributes<'g>,
}
impl<'g> ops::Deref for OperationGradient<'g> {
    type Target = OperationAttributes<'g>;
    fn deref(&self) -> &Self::Target {
        &self.attributes
    }
}

/// A plugin's own operation; all functions are pure.
pub trait Operation: Sized + 'static {
    /// false: it has no gradient, so nothing before it can be trained.
    const HAS_GRADIENT: bool = true;

    fn describe() -> OperationText;
    /// Sets the shapes of the outputs with give().
    fn shape(u: &mut OperationUse) -> Result<()>;
    /// Returns a value for each input, None for an input without a gradient.
    fn gradient<'g>(d: &OperationGradient<'g>) -> Result<Vec<Option<Value<'g>>>> {
        let _ = d;
        Err(Error::unsupported("this operation has no gradient"))
    }
    /// Computes the outputs in double precision, for comparison with the kernel.
    fn reference(u: &mut OperationUse) -> Result<()>;
}

// ---- trampolines ----------------------------------------------------------------------------------------------------

thread_local! {
    static PANIC: RefCell<String> = RefCell::new(String::new());
}

fn report(error: *mut hk_error, e: &Error) -> i32 {
    if ERROR.find().is_some() {
        call!(ERROR, set(error, e.code, text(&e.message)));
    }
    e.code
}

// Runs f; a panic becomes an error. The payload is leaked, because dropping it may panic.
fn caught<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            std::mem::forget(payload);
            let said = PANIC.with(|p| std::mem::take(&mut *p.borrow_mut()));
            Err(Error::new(HK_INTERNAL, if said.is_empty() { "it panicked".to_string() } else { said }))
        }
    }
}

fn guarded(error: *mut hk_error, f: impl FnOnce() -> Result<()>) -> i32 {
    match caught(f) {
        Ok(()) => HK_OK,
        // The message is copied by the host; dropping it cannot panic.
        Err(e) => report(error, &e),
    }
}

// Runs a build function over its graph. If the graph is invalid, the host has the message and this adds the location.
fn built(builder: *mut hk_builder, error: *mut hk_error, f: impl FnOnce(&Graph) -> Result<()>) -> i32 {
    guarded(error, || {
        let graph = Graph::new(builder);
        let result = f(&graph);
        let code = graph.status();
        match graph.failed_at.get() {
            Some(place) if code != HK_OK => Err(Error::new(code, format!("{}:{}", place.file(), place.line()))),
            _ => result,
        }
    })
}

unsafe fn config_of<'a>(config: *const hk_config) -> Config<'a> {
    Config { raw: config, lives: PhantomData }
}

// The object that self points to. The byte gives also a zero-sized type a unique address.
#[repr(C)]
struct Instance<T> {
    value: T, // first, so that self is a pointer to it too
    _place: u8,
}

// Creates an instance; *out is unchanged on error.
fn created<T>(out: *mut *mut c_void, error: *mut hk_error, make: impl FnOnce() -> Result<T>) -> i32 {
    guarded(error, || {
        let made = Box::new(Instance { value: make()?, _place: 0 });
        unsafe { *out = Box::into_raw(made) as *mut c_void };
        Ok(())
    })
}

unsafe extern "C" fn destroy<T>(this: *mut c_void) {
    if let Err(e) = caught(|| {
        drop(Box::from_raw(this as *mut Instance<T>));
        Ok(())
    }) {
        let _ = caught(|| {
            log_warning(&format!("destroy: {}", e.message));
            Ok(())
        });
    }
}

// The tables of a type.
struct Tables<T>(PhantomData<T>);

impl<T: Architecture> Tables<T> {
    const ARCHITECTURE: hk_architecture = hk_architecture {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        build: Some(Self::build),
        build_head: Some(Self::build_head),
        write_config: Some(Self::write_config),
    };
    unsafe extern "C" fn create(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32 {
        created(this, error, || T::new(&config_of(config)))
    }
    unsafe extern "C" fn build(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32 {
        built(builder, error, |g| (*(this as *const T)).build(g))
    }
    unsafe extern "C" fn build_head(
        this: *mut c_void, builder: *mut hk_builder, head: hk_string, error: *mut hk_error,
    ) -> i32 {
        let mut found = true;
        let code = built(builder, error, |g| {
            let id = std::str::from_utf8(bytes_of(head)).unwrap_or("");
            found = (*(this as *const T)).head(g, id)?;
            Ok(())
        });
        if code == HK_OK && !found {
            HK_NOT_FOUND
        } else {
            code
        }
    }
    unsafe extern "C" fn write_config(
        this: *mut c_void, writer: *mut hk_config_writer, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || (*(this as *const T)).write(&mut ConfigWriter { raw: writer, lives: PhantomData }))
    }
}

struct ObjectiveTables<T>(PhantomData<T>);

impl<T: Objective> ObjectiveTables<T> {
    const OBJECTIVE: hk_objective = hk_objective {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        example_kind: Some(Self::example_kind),
        tokens_per_example: Some(Self::tokens_per_example),
        columns: if T::EXAMPLE_KIND == HK_EXAMPLE_ROW { Some(Self::columns) } else { None },
        example_length: if T::KNOWS_LENGTHS { Some(Self::example_length) } else { None },
        fields: Some(Self::fields),
        build: Some(Self::build),
        collate: if T::COLLATES { Some(Self::collate) } else { None },
    };
    unsafe extern "C" fn create(
        config: *const hk_config, tokenizer: *const hk_tokenizer, this: *mut *mut c_void, error: *mut hk_error,
    ) -> i32 {
        let given = if tokenizer.is_null() { None } else { Some(Tokenizer(tokenizer)) };
        created(this, error, || T::new(&config_of(config), given))
    }
    unsafe extern "C" fn example_kind(_: *mut c_void) -> i32 {
        T::EXAMPLE_KIND
    }
    unsafe extern "C" fn tokens_per_example(this: *mut c_void, length: i64) -> i64 {
        caught(|| Ok((*(this as *const T)).tokens_per_example(length))).unwrap_or(length)
    }
    unsafe extern "C" fn columns(
        this: *mut c_void, push: Option<unsafe extern "C" fn(context: *mut c_void, column: *const hk_column_need)>,
        context: *mut c_void, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            for column in (*(this as *const T)).columns() {
                let raw = hk_column_need {
                    struct_size: std::mem::size_of::<hk_column_need>() as u32,
                    kind: column.kind,
                    name: text(column.name),
                    flags: column.flags,
                    reserved: 0,
                };
                push.expect("push is null")(context, &raw);
            }
            Ok(())
        })
    }
    unsafe extern "C" fn example_length(this: *mut c_void, example: *const hk_example) -> i64 {
        caught(|| Ok((*(this as *const T)).example_length(Example(&*example)))).unwrap_or(0)
    }
    unsafe extern "C" fn fields(
        this: *mut c_void, batch: i64, length: i64,
        push: Option<unsafe extern "C" fn(context: *mut c_void, field: *const hk_field)>, context: *mut c_void,
        error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            for field in (*(this as *const T)).fields(batch, length) {
                let mut dims = [0; HK_MAX_RANK];
                let rank = field.dims.len().min(HK_MAX_RANK);
                dims[..rank].copy_from_slice(&field.dims[..rank]);
                let raw = hk_field {
                    struct_size: std::mem::size_of::<hk_field>() as u32,
                    kind: field.kind,
                    name: text(field.name),
                    rank: field.dims.len() as u32, // a rank that is too large is refused by the host
                    reserved: 0,
                    dims,
                    data: std::ptr::null_mut(),
                };
                push.expect("push is null")(context, &raw);
            }
            Ok(())
        })
    }
    unsafe extern "C" fn build(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32 {
        built(builder, error, |g| (*(this as *const T)).build(g))
    }
    unsafe extern "C" fn collate(
        this: *mut c_void, batch: *const hk_batch, fields: *mut hk_field, count: u32, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            let given = RefCell::new(vec![false; count as usize]);
            let fields = Fields { first: fields, count, lives: PhantomData, given };
            (*(this as *const T)).collate(&Batch(&*batch), &fields)
        })
    }
}

struct HeadTables<T>(PhantomData<T>);

impl<T: Head> HeadTables<T> {
    const HEAD: hk_head = hk_head {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        build: Some(Self::build),
        decode_ports: if T::PORTS.is_empty() { None } else { Some(Self::decode_ports) },
        decode: if T::PORTS.is_empty() { None } else { Some(Self::decode) },
    };
    unsafe extern "C" fn create(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32 {
        created(this, error, || T::new(&config_of(config)))
    }
    unsafe extern "C" fn build(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32 {
        built(builder, error, |g| (*(this as *const T)).build(g))
    }
    unsafe extern "C" fn decode_ports(
        _: *mut c_void, push: Option<unsafe extern "C" fn(context: *mut c_void, port: hk_string)>,
        context: *mut c_void, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            for port in T::PORTS {
                push.expect("push is null")(context, text(port));
            }
            Ok(())
        })
    }
    unsafe extern "C" fn decode(
        this: *mut c_void, input: *const hk_decode_input,
        push: Option<unsafe extern "C" fn(context: *mut c_void, json: hk_string)>, context: *mut c_void,
        error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            let input = DecodeInput(&*input);
            for row in 0..input.rows() {
                let json = (*(this as *const T)).decode(&input, row)?;
                push.expect("push is null")(context, text(&json));
            }
            Ok(())
        })
    }
}

since_1! {
fn some<'g>(graph: &'g Graph, id: hk_value) -> Option<Value<'g>> {
    if id == 0 {
        None
    } else {
        Some(Value { graph, id })
    }
}

fn values_of<'g>(graph: &'g Graph, raw: &hk_site_values) -> SiteValues<'g> {
    SiteValues {
        x: Value { graph, id: raw.x },
        y: Value { graph, id: raw.y },
        weight: some(graph, raw.weight),
        bias: some(graph, raw.bias),
        normed: some(graph, raw.normed),
    }
}

struct AdapterTables<T>(PhantomData<T>);

impl<T: Adapter> AdapterTables<T> {
    const ADAPTER: hk_adapter = hk_adapter {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        wants: Some(Self::wants),
        trains: Some(Self::trains),
        virtual_tokens: Some(Self::virtual_tokens),
        adapt: Some(Self::adapt),
        merge: if T::MERGES { Some(Self::merge) } else { None },
        write_config: if T::WRITES_CONFIG { Some(Self::write_config) } else { None },
    };
    unsafe extern "C" fn create(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32 {
        created(this, error, || T::new(&config_of(config)))
    }
    unsafe extern "C" fn wants(
        this: *mut c_void, site: *const hk_adapter_site, wanted: *mut i32, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            *wanted = (*(this as *const T)).wants(Site(&*site))?.into();
            Ok(())
        })
    }
    unsafe extern "C" fn trains(
        this: *mut c_void, site: *const hk_adapter_site, trained: *mut u32, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            *trained = (*(this as *const T)).trains(Site(&*site))?;
            Ok(())
        })
    }
    unsafe extern "C" fn virtual_tokens(
        this: *mut c_void, count: *mut i64, flags: *mut u32, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            let tokens = (*(this as *const T)).virtual_tokens()?;
            *count = tokens.count;
            *flags = if tokens.hidden { HK_VIRTUAL_HIDDEN } else { 0 }
                | if tokens.without_positions { HK_VIRTUAL_WITHOUT_POSITIONS } else { 0 };
            Ok(())
        })
    }
    unsafe extern "C" fn adapt(
        this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values,
        answer: *mut hk_site_answer, error: *mut hk_error,
    ) -> i32 {
        built(builder, error, |g| {
            let made = (*(this as *const T)).adapt(g, Site(&*site), &values_of(g, &*values))?;
            (*answer).kind = made.kind;
            (*answer).value = Value::id_or_none(made.value);
            (*answer).second = Value::id_or_none(made.second);
            (*answer).input = Value::id_or_none(made.input);
            (*answer).a = Value::id_or_none(made.matrices.map(|m| m.0));
            (*answer).b = Value::id_or_none(made.matrices.map(|m| m.1));
            Ok(())
        })
    }
    unsafe extern "C" fn merge(
        this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values,
        weight: *mut hk_value, bias: *mut hk_value, error: *mut hk_error,
    ) -> i32 {
        built(builder, error, |g| {
            let given = Value { graph: g, id: (*values).weight };
            let made = (*(this as *const T)).merge(g, Site(&*site), given, some(g, (*values).bias))?;
            *weight = made.weight.id;
            *bias = Value::id_or_none(made.bias);
            Ok(())
        })
    }
    unsafe extern "C" fn write_config(
        this: *mut c_void, writer: *mut hk_config_writer, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || (*(this as *const T)).write(&mut ConfigWriter { raw: writer, lives: PhantomData }))
    }
}

struct CombinerTables<T>(PhantomData<T>);

impl<T: Combiner> CombinerTables<T> {
    const COMBINER: hk_combiner = hk_combiner {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        combine: Some(Self::combine),
    };
    unsafe extern "C" fn create(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32 {
        created(this, error, || T::new(&config_of(config)))
    }
    unsafe extern "C" fn combine(
        this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values,
        branches: *const hk_branch, count: u32, combined: *mut hk_combined, error: *mut hk_error,
    ) -> i32 {
        built(builder, error, |g| {
            let all: Vec<Branch> = elements(branches, count)
                .map(|one| Branch {
                    name: str_of(one.name),
                    delta: some(g, one.delta),
                    input: some(g, one.input),
                    a: some(g, one.a),
                    b: some(g, one.b),
                })
                .collect();
            let made = (*(this as *const T)).combine(g, Site(&*site), &values_of(g, &*values), &all)?;
            (*combined).delta = made.delta.id;
            (*combined).weights = Value::id_or_none(made.weights);
            (*combined).loss = Value::id_or_none(made.loss);
            Ok(())
        })
    }
}

struct OptimizerTables<T>(PhantomData<T>);

impl<T: Optimizer> OptimizerTables<T> {
    const OPTIMIZER: hk_optimizer = hk_optimizer {
        create: Some(Self::create),
        destroy: Some(destroy::<T>),
        takes: Some(Self::takes),
        build: Some(Self::build),
    };
    unsafe extern "C" fn create(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32 {
        created(this, error, || T::new(&config_of(config)))
    }
    unsafe extern "C" fn takes(
        this: *mut c_void, parameter: *const hk_optimized, taken: *mut i32, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || {
            *taken = (*(this as *const T)).takes(Optimized(&*parameter)) as i32;
            Ok(())
        })
    }
    unsafe extern "C" fn build(
        this: *mut c_void, builder: *mut hk_builder, parameter: *const hk_optimized, values: *const hk_update_values,
        updated: *mut hk_value, error: *mut hk_error,
    ) -> i32 {
        built(builder, error, |g| {
            let given = &*values;
            let value = |id| Value { graph: g, id };
            let v = UpdateValues {
                parameter: value(given.parameter),
                gradient: value(given.gradient),
                learning_rate: value(given.learning_rate),
                step: value(given.step),
            };
            *updated = (*(this as *const T)).update(g, Optimized(&*parameter), &v)?.id;
            Ok(())
        })
    }
}
}

// A description in the form of the ABI. Points into itself, so it must not move, and is never freed.
struct KeptDescription {
    raw: hk_operation_description,
    _inputs: Vec<hk_operation_input>,
    _attributes: Vec<hk_operation_attribute>,
    _fallbacks: Vec<hk_attribute>,
    _outputs: Vec<hk_string>,
    _text: OperationText,
}

// Statics of generic functions are shared by all types, so types are distinguished here. Holds addresses of leaked
// objects.
static DESCRIBED: Mutex<Vec<(TypeId, usize)>> = Mutex::new(Vec::new());

fn kept_description<T: Operation>() -> Result<*const hk_operation_description> {
    let mut all = DESCRIBED.lock().map_err(|_| Error::new(HK_INTERNAL, "describe() panicked before"))?;
    if let Some(found) = all.iter().find(|one| one.0 == TypeId::of::<T>()) {
        return Ok(found.1 as *const hk_operation_description);
    }
    let described = T::describe();
    let fallbacks: Vec<hk_attribute> = described
        .attributes
        .iter()
        .map(|a| raw_attribute(a.name, a.fallback.as_ref().unwrap_or(&Attribute::Int(0))))
        .collect();
    let attributes: Vec<hk_operation_attribute> = described
        .attributes
        .iter()
        .zip(&fallbacks)
        .map(|(a, fallback)| hk_operation_attribute {
            struct_size: std::mem::size_of::<hk_operation_attribute>() as u32,
            r#type: a.kind,
            name: text(a.name),
            fallback: if a.fallback.is_some() { fallback } else { std::ptr::null() },
        })
        .collect();
    let inputs: Vec<hk_operation_input> = described
        .inputs
        .iter()
        .map(|i| hk_operation_input {
            struct_size: std::mem::size_of::<hk_operation_input>() as u32,
            kind: i.kind,
            name: text(i.name),
        })
        .collect();
    let outputs: Vec<hk_string> = described.outputs.iter().map(|name| text(name)).collect();
    let raw = hk_operation_description {
        struct_size: std::mem::size_of::<hk_operation_description>() as u32,
        revision: described.revision,
        input_count: inputs.len() as u32,
        attribute_count: attributes.len() as u32,
        output_count: outputs.len() as u32,
        local_size: described.local_size,
        inputs: inputs.as_ptr(),
        attributes: attributes.as_ptr(),
        outputs: outputs.as_ptr(),
        glsl: text(described.glsl.text),
        glsl_file: text(described.glsl.file.rsplit('/').next().unwrap_or("")),
        glsl_line: described.glsl.line,
        reserved: 0,
        spirv: described.spirv.as_ptr(),
        spirv_count: described.spirv.len() as u64,
    };
    // The heap storage of a Vec does not move with the Vec.
    let kept = Box::leak(Box::new(KeptDescription {
        raw,
        _inputs: inputs,
        _attributes: attributes,
        _fallbacks: fallbacks,
        _outputs: outputs,
        _text: described,
    }));
    all.push((TypeId::of::<T>(), &kept.raw as *const _ as usize));
    Ok(&kept.raw)
}

struct OperationTables<T>(PhantomData<T>);

impl<T: Operation> OperationTables<T> {
    const OPERATION: hk_operation = hk_operation {
        describe: Some(Self::describe),
        shape: Some(Self::shape),
        gradient: if T::HAS_GRADIENT { Some(Self::gradient) } else { None },
        reference: Some(Self::reference),
    };
    unsafe extern "C" fn describe() -> *const hk_operation_description {
        caught(kept_description::<T>).unwrap_or(std::ptr::null())
    }
    unsafe extern "C" fn shape(
        raw: *const hk_operation_use, cost: *mut hk_operation_cost, error: *mut hk_error,
    ) -> i32 {
        guarded(error, || T::shape(&mut OperationUse::new(&*raw, cost)))
    }
    unsafe extern "C" fn gradient(
        builder: *mut hk_builder, raw: *const hk_operation_gradient, error: *mut hk_error,
    ) -> i32 {
        built(builder, error, |graph| {
            let raw = &*raw;
            let values = |ids: *const hk_value, count: u32| -> Vec<Value> {
                slice_of(ids, count.into()).iter().map(|&id| Value { graph, id }).collect()
            };
            let made = T::gradient(&OperationGradient {
                graph,
                inputs: values(raw.inputs, raw.input_count),
                outputs: values(raw.outputs, raw.output_count),
                output_gradients: values(raw.output_gradients, raw.output_count),
                attributes: OperationAttributes {
                    first: raw.attributes,
                    count: raw.attribute_count,
                    lives: PhantomData,
                },
            })?;
            if made.len() != raw.input_count as usize {
                let (given, wanted) = (made.len(), raw.input_count);
                let message = format!("there are {} gradients for {} inputs; None marks an input without a gradient", given, wanted);
                return Err(Error::new(HK_INTERNAL, message));
            }
            for (i, value) in made.into_iter().enumerate() {
                *raw.input_gradients.add(i) = Value::id_or_none(value);
            }
            Ok(())
        })
    }
    unsafe extern "C" fn reference(raw: *const hk_operation_use, error: *mut hk_error) -> i32 {
        guarded(error, || T::reference(&mut OperationUse::new(&*raw, std::ptr::null_mut())))
    }
}

// ---- the entry ------------------------------------------------------------------------------------------------------

/// For `plugin!`.
#[doc(hidden)]
pub fn architecture_table<T: Architecture>() -> *const c_void {
    let table: &'static hk_architecture = &Tables::<T>::ARCHITECTURE;
    table as *const hk_architecture as *const c_void
}
#[doc(hidden)]
pub fn objective_table<T: Objective>() -> *const c_void {
    let table: &'static hk_objective = &ObjectiveTables::<T>::OBJECTIVE;
    table as *const hk_objective as *const c_void
}
#[doc(hidden)]
pub fn head_table<T: Head>() -> *const c_void {
    let table: &'static hk_head = &HeadTables::<T>::HEAD;
    table as *const hk_head as *const c_void
}
#[doc(hidden)]
pub fn operation_table<T: Operation>() -> *const c_void {
    let table: &'static hk_operation = &OperationTables::<T>::OPERATION;
    table as *const hk_operation as *const c_void
}

since_1! {
#[doc(hidden)]
pub fn adapter_table<T: Adapter>() -> *const c_void {
    let table: &'static hk_adapter = &AdapterTables::<T>::ADAPTER;
    table as *const hk_adapter as *const c_void
}
#[doc(hidden)]
pub fn combiner_table<T: Combiner>() -> *const c_void {
    let table: &'static hk_combiner = &CombinerTables::<T>::COMBINER;
    table as *const hk_combiner as *const c_void
}
#[doc(hidden)]
pub fn optimizer_table<T: Optimizer>() -> *const c_void {
    let table: &'static hk_optimizer = &OptimizerTables::<T>::OPTIMIZER;
    table as *const hk_optimizer as *const c_void
}
}

unsafe extern "C" fn init(host: *const hk_host, error: *mut hk_error) -> i32 {
    guarded(std::ptr::null_mut(), || {
        let get = |id: &str| (*host).get_interface.map_or(std::ptr::null(), |f| f(host, text(id))) as *mut c_void;
        // [entry.8]
        let free = HOST.0.compare_exchange(std::ptr::null_mut(), host as *mut hk_host, Ordering::AcqRel, Ordering::Acquire);
        if free.is_err() {
            let message = "the plugin serves another host in this process already";
            if let Some(set) = (get(HK_ERROR_INTERFACE) as *const hk_error_interface).as_ref().and_then(|table| table.set) {
                set(error, HK_FAILED_PRECONDITION, text(message));
            }
            return Err(Error::new(HK_FAILED_PRECONDITION, message));
        }
        ERROR.0.store(get(HK_ERROR_INTERFACE) as *mut _, Ordering::Release);
        CONFIG.0.store(get(HK_CONFIG_INTERFACE) as *mut _, Ordering::Release);
        GRAPH.0.store(get(HK_GRAPH_INTERFACE) as *mut _, Ordering::Release);
        TOKENIZER.0.store(get(HK_TOKENIZER_INTERFACE) as *mut _, Ordering::Release);
        LOG.0.store(get(HK_LOG_INTERFACE) as *mut _, Ordering::Release);
        // This is the library's own hook, because the standard library is linked into it.
        std::panic::set_hook(Box::new(|info| PANIC.with(|p| *p.borrow_mut() = info.to_string())));
        let needed = [ERROR.find().is_some(), CONFIG.find().is_some(), GRAPH.find().is_some()];
        if needed.contains(&false) {
            let e = Error::unsupported("the host lacks hekla.error/1, hekla.config/1 or hekla.graph/1");
            report(error, &e);
            HOST.0.store(std::ptr::null_mut(), Ordering::Release);
            return Err(e);
        }
        Ok(())
    })
}

unsafe extern "C" fn deinit() {
    HOST.0.store(std::ptr::null_mut(), Ordering::Release);
}

/// For `plugin!`: the table of (interface, id), or null.
#[doc(hidden)]
pub fn offered(interface_id: hk_string, id: hk_string, offers: &[(&str, &str, fn() -> *const c_void)]) -> *const c_void {
    let (interface_id, id) = unsafe { (bytes_of(interface_id), bytes_of(id)) };
    let found = offers.iter().find(|o| o.0.as_bytes() == interface_id && o.1.as_bytes() == id);
    found.map_or(std::ptr::null(), |offer| offer.2())
}

/// For `plugin!`.
#[doc(hidden)]
pub struct Entry(hk_plugin_entry);
unsafe impl Sync for Entry {} // constant

impl Entry {
    pub const fn new(get: unsafe extern "C" fn(hk_string, hk_string) -> *const c_void) -> Self {
        Entry(hk_plugin_entry {
            magic: HK_ENTRY_MAGIC,
            struct_size: std::mem::size_of::<hk_plugin_entry>() as u32,
            abi_major: HK_ABI_MAJOR,
            abi_minor_needed: HK_TARGET_ABI_MINOR,
            abi_minor_built: HK_ABI_MINOR,
            reserved: 0,
            build_tag: hk_string { data: std::ptr::null(), size: 0 },
            init: Some(init),
            deinit: Some(deinit),
            get_interface: Some(get),
        })
    }
    pub fn get(&'static self) -> *const hk_plugin_entry {
        &self.0
    }
}

/// plugin! { architecture "gated-mixer": Mixer, objective "focal": Focal, head "small": Small }: the one export.
#[macro_export]
macro_rules! plugin {
    (@interface architecture) => { $crate::HK_ARCHITECTURE_INTERFACE };
    (@interface objective) => { $crate::HK_OBJECTIVE_INTERFACE };
    (@interface head) => { $crate::HK_HEAD_INTERFACE };
    (@interface operation) => { $crate::HK_OPERATION_INTERFACE };
    (@interface adapter) => { $crate::HK_ADAPTER_INTERFACE };
    (@interface combiner) => { $crate::HK_COMBINER_INTERFACE };
    (@interface optimizer) => { $crate::HK_OPTIMIZER_INTERFACE };
    (@table architecture $type:ty) => { $crate::architecture_table::<$type> };
    (@table objective $type:ty) => { $crate::objective_table::<$type> };
    (@table head $type:ty) => { $crate::head_table::<$type> };
    (@table operation $type:ty) => { $crate::operation_table::<$type> };
    (@table adapter $type:ty) => { $crate::adapter_table::<$type> };
    (@table combiner $type:ty) => { $crate::combiner_table::<$type> };
    (@table optimizer $type:ty) => { $crate::optimizer_table::<$type> };
    ($($kind:ident $id:literal : $type:ty),+ $(,)?) => {
        #[no_mangle]
        pub extern "C" fn hekla_plugin_entry() -> *const $crate::hk_plugin_entry {
            unsafe extern "C" fn get(
                interface_id: $crate::hk_string, id: $crate::hk_string,
            ) -> *const ::std::ffi::c_void {
                $crate::offered(interface_id, id, &[
                    $(($crate::plugin!(@interface $kind), $id,
                       $crate::plugin!(@table $kind $type) as fn() -> *const ::std::ffi::c_void)),+
                ])
            }
            static ENTRY: $crate::Entry = $crate::Entry::new(get);
            ENTRY.get()
        }
    };
}
