// The plugin ABI 1.2, as the headers in hekla/plugin/ say it.
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.

use std::os::raw::{c_char, c_void};

pub const HK_ABI_MAJOR: u32 = 1;
pub const HK_ABI_MINOR: u32 = 2;

/// The oldest host minor that can run the plugin: rustc --cfg 'hekla_minor="N"'.
#[cfg(not(any(hekla_minor = "1", hekla_minor = "2")))]
pub const HK_TARGET_ABI_MINOR: u32 = 0;
#[cfg(hekla_minor = "1")]
pub const HK_TARGET_ABI_MINOR: u32 = 1;
#[cfg(hekla_minor = "2")]
pub const HK_TARGET_ABI_MINOR: u32 = 2;

// since_N! { items }: there where the target is N or newer.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[allow(unused_macros)]
macro_rules! since_1 {
    ($($item:tt)*) => { $($item)* };
}
#[cfg(not(any(hekla_minor = "1", hekla_minor = "2")))]
#[allow(unused_macros)]
macro_rules! since_1 {
    ($($item:tt)*) => {};
}
#[cfg(any(hekla_minor = "2"))]
#[allow(unused_macros)]
macro_rules! since_2 {
    ($($item:tt)*) => { $($item)* };
}
#[cfg(not(any(hekla_minor = "2")))]
#[allow(unused_macros)]
macro_rules! since_2 {
    ($($item:tt)*) => {};
}

// ---- abi.h

/// UTF-8 text. [abi.1]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_string {
    pub data: *const c_char,
    /// in bytes
    pub size: u64,
}

/// A tensor of one graph; 0 is none. It dies with its builder, and another builder refuses it. [graph.3]
pub type hk_value = u32;

// Kinds of tensors.
/// the engine chooses its storage (32 or 16 bits)
pub const HK_KIND_FLOAT: i32 = 0;
/// kept as it is
pub const HK_KIND_FLOAT32: i32 = 1;
pub const HK_KIND_INT32: i32 = 2;

/// dimensions of a tensor
pub const HK_MAX_RANK: usize = 6;

// ---- error.h

pub const HK_OK: i32 = 0;
/// the value is not allowed
pub const HK_INVALID_ARGUMENT: i32 = 1;
pub const HK_NOT_FOUND: i32 = 2;
/// allowed, but not with this version, device or build
pub const HK_UNSUPPORTED: i32 = 3;
/// a required earlier call or state is missing
pub const HK_FAILED_PRECONDITION: i32 = 4;
pub const HK_OUT_OF_MEMORY: i32 = 5;
pub const HK_IO: i32 = 6;
/// damaged data
pub const HK_CORRUPT: i32 = 7;
pub const HK_DEVICE_LOST: i32 = 8;
pub const HK_CANCELLED: i32 = 9;
/// an error in the code that reports it
pub const HK_INTERNAL: i32 = 10;

/// Created by the caller, filled by the function that fails.
#[repr(C)]
pub struct hk_error {
    _private: [u8; 0],
}

pub const HK_ERROR_INTERFACE: &str = "hekla.error/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_error_interface {
    /// Keeps a code and a copy of the message. The last call wins. A null error is allowed and ignored.
    /// Thread: any-thread.
    pub set: Option<unsafe extern "C" fn(error: *mut hk_error, code: i32, message: hk_string)>,
}

// ---- log.h

pub const HK_LOG_DEBUG: i32 = 0;
pub const HK_LOG_INFO: i32 = 1;
pub const HK_LOG_WARNING: i32 = 2;
pub const HK_LOG_ERROR: i32 = 3;

pub const HK_LOG_INTERFACE: &str = "hekla.log/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_log_interface {
    /// Passes a message to the host, which adds the plugin's id and writes it to its log. host: the argument of
    /// init(). severity: HK_LOG_*; messages with another value are dropped. The message is copied.
    /// Thread: any-thread.
    pub write: Option<unsafe extern "C" fn(host: *const hk_host, severity: i32, message: hk_string)>,
}

// ---- config.h

/// Owned by the host; valid until the call that it was given to returns.
#[repr(C)]
pub struct hk_config {
    _private: [u8; 0],
}

/// Owned by the host; valid until the call that it was given to returns.
#[repr(C)]
pub struct hk_config_writer {
    _private: [u8; 0],
}

pub const HK_CONFIG_INTERFACE: &str = "hekla.config/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_config_interface {
    /// Returns 1 if the key exists and is not null, else 0. Marks the key as read.
    /// Thread: describe.
    pub has: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string) -> i32>,
    /// Returns the value of a required key of this type: HK_NOT_FOUND if the key is missing or null,
    /// HK_INVALID_ARGUMENT if the value has another type, with the message in error (may be null).
    /// Thread: describe.
    pub get_integer: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, out: *mut i64, error: *mut hk_error) -> i32>,
    /// As get_integer(). Integers are accepted as reals, not the other way.
    /// Thread: describe.
    pub get_real: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, out: *mut f64, error: *mut hk_error) -> i32>,
    /// As get_integer(); writes 1 or 0.
    /// Thread: describe.
    pub get_boolean: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, out: *mut i32, error: *mut hk_error) -> i32>,
    /// As get_integer(). The text is owned by the host and valid as long as the config; copy it to keep it.
    /// Thread: describe.
    pub get_text: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, out: *mut hk_string, error: *mut hk_error) -> i32>,
    /// The number of members of an object or elements of an array; errors as of get_integer().
    /// Thread: describe.
    pub get_count: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, out: *mut u64, error: *mut hk_error) -> i32>,
    /// Writes one key of a configuration. Objects on its path are created; arrays must be created before (set_array).
    /// HK_INVALID_ARGUMENT where the path leads through a number or a text, or beyond the end of an array.
    /// Thread: describe.
    pub set_integer: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, value: i64, error: *mut hk_error) -> i32>,
    /// As set_integer().
    /// Thread: describe.
    pub set_real: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, value: f64, error: *mut hk_error) -> i32>,
    /// As set_integer(); 0 is false, everything else true.
    /// Thread: describe.
    pub set_boolean: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, value: i32, error: *mut hk_error) -> i32>,
    /// As set_integer(). The text is copied.
    /// Thread: describe.
    pub set_text: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, value: hk_string, error: *mut hk_error) -> i32>,
    /// As set_integer().
    /// Thread: describe.
    pub set_null: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, error: *mut hk_error) -> i32>,
    /// Creates an array of `count` elements, at most 2^20, which are then written as "KEY.0", "KEY.1", ...: each must
    /// be, as a value, an object or an array of its own. [config.3]
    /// Thread: describe.
    pub set_array: Option<unsafe extern "C" fn(writer: *mut hk_config_writer, key: hk_string, count: u64, error: *mut hk_error) -> i32>,
    /// Returns 1 if the key exists and is null, else 0: also if it is missing. Marks the key as read. A parameter of
    /// the manifest with a default is null only if its entry has "null": true; otherwise null is replaced by the
    /// default.
    /// Since minor 2. Thread: describe.
    #[cfg(any(hekla_minor = "2"))]
    pub is_null: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string) -> i32>,
}

// ---- tokenizer.h

/// Owned by the host; valid until destroy() of the instance that it was given to.
#[repr(C)]
pub struct hk_tokenizer {
    _private: [u8; 0],
}

pub const HK_TOKENIZER_INTERFACE: &str = "hekla.tokenizer/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_tokenizer_interface {
    /// Number of ids: 0 .. size - 1.
    /// Thread: any-thread.
    pub vocabulary_size: Option<unsafe extern "C" fn(tokenizer: *const hk_tokenizer) -> i64>,
    /// The id of the token with a role: "bos" "eos" "pad" "unk" "mask" "separator" "classifier", "sentinel.0" ...; -1
    /// if none. Since minor 2 also what the tokenizer puts around texts: "frame" is 0 where rows have it;
    /// "frame.LIST.N" is entry N of a list, and -1 after the last. The lists: "single.before" "single.after" around
    /// one text; "pair.before" "pair.between" "pair.after" around two; "single.types" "pair.types", the token types
    /// of special tokens and texts in order; "begin", what begins a prompt.
    /// Thread: any-thread.
    pub id_of_role: Option<unsafe extern "C" fn(tokenizer: *const hk_tokenizer, role: hk_string) -> i64>,
    /// 1 if the token begins a word, else 0. Ids outside the vocabulary: 0.
    /// Thread: any-thread.
    pub is_word_start: Option<unsafe extern "C" fn(tokenizer: *const hk_tokenizer, id: i64) -> i32>,
    /// Writes the text of ids into a caller's buffer of *size bytes; *size becomes the bytes needed. With a null or
    /// too small buffer nothing is written and HK_OK is returned: call again with more space.
    /// Thread: any-thread.
    pub decode: Option<unsafe extern "C" fn(tokenizer: *const hk_tokenizer, ids: *const i64, count: u64, text: *mut c_char, size: *mut u64, error: *mut hk_error) -> i32>,
    /// 1 if the token ends a sentence (its text ends in a full stop, a question or exclamation mark, or a line end),
    /// else 0. Ids outside the vocabulary: 0.
    /// Thread: any-thread.
    pub is_sentence_end: Option<unsafe extern "C" fn(tokenizer: *const hk_tokenizer, id: i64) -> i32>,
}

// ---- graph.h

/// Owned by the host; valid until the build call returns. [graph.8]
#[repr(C)]
pub struct hk_builder {
    _private: [u8; 0],
}

// The purpose for which the network is described. The plugin describes the same network in each; the host removes
// what is not needed.
pub const HK_MODE_TRAIN: i32 = 0;
pub const HK_MODE_EVALUATE: i32 = 1;
pub const HK_MODE_ENCODE: i32 = 2;
/// lengths are chunks of new tokens; attention with a cache name also sees the earlier ones
pub const HK_MODE_DECODE: i32 = 3;

// Initial values of a parameter that no file provides.
/// the constant a
pub const HK_INITIALIZE_CONSTANT: i32 = 0;
/// mean a, deviation b
pub const HK_INITIALIZE_NORMAL: i32 = 1;
/// from a to b
pub const HK_INITIALIZE_UNIFORM: i32 = 2;
/// mean a, deviation b, truncated at two deviations
pub const HK_INITIALIZE_TRUNCATED_NORMAL: i32 = 3;

// Flags of a parameter.
/// no weight decay; by default parameters of rank 2 and more have it
pub const HK_PARAMETER_NO_DECAY: u32 = 1;

// Types of attributes.
pub const HK_ATTRIBUTE_INT: i32 = 0;
pub const HK_ATTRIBUTE_REAL: i32 = 1;
pub const HK_ATTRIBUTE_TEXT: i32 = 2;
pub const HK_ATTRIBUTE_INTS: i32 = 3;
pub const HK_ATTRIBUTE_REALS: i32 = 4;

/// One named attribute of an operation; only the members of its type are read. Copied by emit().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_attribute {
    pub struct_size: u32,
    /// HK_ATTRIBUTE_*
    pub r#type: i32,
    pub name: hk_string,
    pub integer: i64,
    pub real: f64,
    pub text: hk_string,
    pub integers: *const i64,
    pub reals: *const f64,
    /// number of integers or reals
    pub count: u64,
}

/// dims: `rank` dimensions. [graph.4]
pub const HK_GRAPH_INTERFACE: &str = "hekla.graph/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_graph_interface {
    /// HK_MODE_*.
    /// Thread: describe.
    pub mode: Option<unsafe extern "C" fn(builder: *mut hk_builder) -> i32>,
    /// 1 if the batch has this field, else 0.
    /// Thread: describe.
    pub has_field: Option<unsafe extern "C" fn(builder: *mut hk_builder, field: hk_string) -> i32>,
    /// A field of the batch, with the kind and shape that the batch gives it (see shape()). A missing field is an
    /// error that lists the existing ones.
    /// Thread: describe.
    pub input: Option<unsafe extern "C" fn(builder: *mut hk_builder, field: hk_string) -> hk_value>,
    /// A trained tensor by its name in the files of the reference implementation. The same name gives the same
    /// parameter; shape and flags must agree, and the first initializer is used. initializer: HK_INITIALIZE_*, with
    /// its numbers a and b. flags: HK_PARAMETER_*.
    /// Thread: describe.
    pub parameter: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, dims: *const i64, rank: u32, initializer: i32, a: f64, b: f64, flags: u32) -> hk_value>,
    /// A tensor that is saved with the model and not trained. values: row-major, as many as the shape holds; copied.
    /// Thread: describe.
    pub buffer: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, kind: i32, dims: *const i64, rank: u32, values: *const f64) -> hk_value>,
    /// A tensor that the plugin computes (sinusoids, tables). values: row-major, as many as the shape holds; copied.
    /// Thread: describe.
    pub constant: Option<unsafe extern "C" fn(builder: *mut hk_builder, kind: i32, dims: *const i64, rank: u32, values: *const f64) -> hk_value>,
    /// A tensor filled with one number.
    /// Thread: describe.
    pub fill: Option<unsafe extern "C" fn(builder: *mut hk_builder, kind: i32, dims: *const i64, rank: u32, value: f64) -> hk_value>,
    /// int32 [length]: start, start + step, ...
    /// Thread: describe.
    pub iota: Option<unsafe extern "C" fn(builder: *mut hk_builder, length: i64, start: i64, step: i64) -> hk_value>,
    /// int32 [batch, length]: the position of each token in its row: 0, 1, ...; in decode mode counted from the
    /// tokens in the cache.
    /// Thread: describe.
    pub positions: Option<unsafe extern "C" fn(builder: *mut hk_builder, batch: i64, length: i64) -> hk_value>,
    /// A float32 scalar [] that a schedule of the recipe or the host sets at each step, without describing the graph
    /// again. Since minor 1, a training sets two names itself unless a schedule does: "train.step", the number of the
    /// step from 0, and "train.progress", that number divided by the steps of the run; an evaluation has the values
    /// of the last step.
    /// Thread: describe.
    pub step_scalar: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, initial: f64) -> hk_value>,
    /// One operation by name and revision. Optional inputs may be 0; trailing ones may be left out. Attributes that
    /// are left out have the defaults of that revision. Writes output_count values, 0 after an error. Returns HK_OK,
    /// or the code of the sticky error.
    /// Thread: describe.
    pub emit: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, revision: u32, inputs: *const hk_value, input_count: u32, attributes: *const hk_attribute, attribute_count: u32, outputs: *mut hk_value, output_count: u32) -> i32>,
    /// The newest revision of an operation that this host supports; 0 if it does not support the operation.
    /// Thread: describe.
    pub operation_revision: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string) -> u32>,
    /// Kind and shape of a value: writes *rank and that many of the HK_MAX_RANK elements of dims. Returns the kind,
    /// or -1 after an error with nothing written.
    /// Thread: describe.
    pub shape: Option<unsafe extern "C" fn(builder: *mut hk_builder, value: hk_value, dims: *mut i64, rank: *mut u32) -> i32>,
    /// Opens a scope, whose name is used in messages, dumps and random streams: "block.3", "attention". [graph.7]
    /// Thread: describe.
    pub scope_begin: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string)>,
    /// Closes the innermost scope.
    /// Thread: describe.
    pub scope_end: Option<unsafe extern "C" fn(builder: *mut hk_builder)>,
    /// Opens a region whose activations may be dropped after use and recomputed for the gradient. [graph.7]
    /// Thread: describe.
    pub recompute_begin: Option<unsafe extern "C" fn(builder: *mut hk_builder)>,
    /// Closes the region.
    /// Thread: describe.
    pub recompute_end: Option<unsafe extern "C" fn(builder: *mut hk_builder)>,
    /// Offers a value as a port. An architecture offers values by name, eg: "hidden", "layer.3.hidden",
    /// "encoder.hidden"; a head asks for them and offers others, eg: "logits"; an objective asks for both. A name can
    /// be offered once.
    /// Thread: describe.
    pub offer: Option<unsafe extern "C" fn(builder: *mut hk_builder, port: hk_string, value: hk_value)>,
    /// 1 if the port was offered, else 0.
    /// Thread: describe.
    pub has_port: Option<unsafe extern "C" fn(builder: *mut hk_builder, port: hk_string) -> i32>,
    /// The value of a port. A port that was not offered is an error that lists the existing ones.
    /// Thread: describe.
    pub ask: Option<unsafe extern "C" fn(builder: *mut hk_builder, port: hk_string) -> hk_value>,
    /// Adds weight * sum / count to the loss. sum and count are scalars []; count must depend on fields alone (number
    /// of labels, rows), so that it is known for all micro-batches in advance: gradient accumulation then equals one
    /// large batch. Where count is 0 the term is 0.
    /// Thread: describe.
    pub loss: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, sum: hk_value, count: hk_value, weight: f64)>,
    /// A number to report, sum / count over all batches of an evaluation, eg: "accuracy". Never differentiated.
    /// Thread: describe.
    pub metric: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, sum: hk_value, count: hk_value)>,
    /// Sets the plugin's own error as the sticky error. The message is copied.
    /// Thread: describe.
    pub fail: Option<unsafe extern "C" fn(builder: *mut hk_builder, code: i32, message: hk_string)>,
    /// HK_OK or the code of the first error; error (may be null) gets its message.
    /// Thread: describe.
    pub status: Option<unsafe extern "C" fn(builder: *mut hk_builder, error: *mut hk_error) -> i32>,
    /// All positions that positions() has in rows of this length are less than this number, so that tables of
    /// positions need no more rows: in decode mode the tokens that the cache holds, otherwise the length, both with
    /// the positions of virtual tokens; INT64_MAX if the host does not know it. The field "position_ids" may have
    /// others.
    /// Since minor 2. Thread: describe.
    #[cfg(any(hekla_minor = "2"))]
    pub position_count: Option<unsafe extern "C" fn(builder: *mut hk_builder, length: i64) -> i64>,
}

// ---- entry.h

/// 'HKPL'
pub const HK_ENTRY_MAGIC: u32 = 0x4C504B48;

/// Identity and interfaces of the host. Owned by the host, valid from init() until deinit() returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_host {
    pub struct_size: u32,
    pub abi_major: u32,
    pub abi_minor: u32,
    /// zero
    pub reserved: u32,
    /// eg: "hekla"
    pub name: hk_string,
    /// eg: "0.1.0"
    pub version: hk_string,
    /// The host's interface of that id, eg: HK_GRAPH_INTERFACE, or null if it has none. Owned by the host, valid
    /// until deinit() returns.
    /// Thread: any-thread.
    pub get_interface: Option<unsafe extern "C" fn(host: *const hk_host, id: hk_string) -> *const c_void>,
}

/// Identity and functions of the plugin. Owned by the plugin, constant, valid as long as its code is mapped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_plugin_entry {
    /// HK_ENTRY_MAGIC
    pub magic: u32,
    /// sizeof(hk_plugin_entry)
    pub struct_size: u32,
    /// HK_ABI_MAJOR
    pub abi_major: u32,
    /// HK_TARGET_ABI_MINOR: the oldest host that can run this plugin
    pub abi_minor_needed: u32,
    /// HK_ABI_MINOR; used in messages only
    pub abi_minor_built: u32,
    /// zero
    pub reserved: u32,
    /// empty; a fork whose ABI differs must set its own, and is refused elsewhere
    pub build_tag: hk_string,
    /// Called before anything else. An error refuses the plugin, and deinit() is not called. [entry.8]
    /// Thread: any-thread.
    pub init: Option<unsafe extern "C" fn(host: *const hk_host, error: *mut hk_error) -> i32>,
    /// Called last. The code stays mapped. [entry.7]
    /// Thread: any-thread.
    pub deinit: Option<unsafe extern "C" fn()>,
    /// The plugin's implementation of (interface, id), eg: ("hekla.architecture/1", "gpt2"), or null if it has none.
    /// Owned by the plugin, valid until deinit() returns. [entry.6]
    /// Thread: any-thread.
    pub get_interface: Option<unsafe extern "C" fn(interface_id: hk_string, id: hk_string) -> *const c_void>,
}

/// the only export: const hk_plugin_entry* hekla_plugin_entry(void);
pub const HK_ENTRY_SYMBOL: &str = "hekla_plugin_entry";

// ---- drafts.h

/// Null where the plugin's manifest names no drafts. [drafts.2]
pub const HK_DRAFTS_INTERFACE: &str = "hekla.drafts/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_drafts_interface {
    /// The host's draft of that id, eg: "hekla.adapter.draft/1", or null if it has none or the manifest does not name
    /// it. Owned by the host, valid until deinit() returns.
    /// Thread: any-thread.
    pub get: Option<unsafe extern "C" fn(host: *const hk_host, draft: hk_string) -> *const c_void>,
}

/// Asked for with the id "" where the manifest provides a draft.
pub const HK_DRAFT_OFFERS_INTERFACE: &str = "hekla.draft-offers/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_draft_offers {
    /// As get_interface() of the entry, for interfaces that are drafts.
    /// Thread: any-thread.
    pub get: Option<unsafe extern "C" fn(draft: hk_string, id: hk_string) -> *const c_void>,
}

// ---- field.h

/// Described by an objective's fields(), its storage filled by collate(), and read by a head's decode().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_field {
    pub struct_size: u32,
    /// HK_KIND_INT32 or HK_KIND_FLOAT32
    pub kind: i32,
    pub name: hk_string,
    pub rank: u32,
    /// zero
    pub reserved: u32,
    pub dims: [i64; HK_MAX_RANK],
    /// int32_t or float values, row-major, zeroed by the host; null in fields()
    pub data: *mut c_void,
}

// ---- example.h

// Contents of a column.
/// ids of a text, without special tokens; parts: its sentences, where they matter
pub const HK_COLUMN_TOKENS: i32 = 0;
/// ids of a text that the data has as separate words; parts: the words
pub const HK_COLUMN_WORDS: i32 = 1;
/// ids of several texts, one after the other; parts: the texts
pub const HK_COLUMN_CHOICES: i32 = 2;
/// numbers of classes: one per row, or one per word
pub const HK_COLUMN_CLASSES: i32 = 3;
/// real numbers
pub const HK_COLUMN_NUMBERS: i32 = 4;
/// Position of a part of a text: ids are its first token and one past its last, in the nearest column of tokens that
/// the objective names before it. The data has the part itself and, in the column of numbers that the objective names
/// after it, possibly the character of the text at which it begins; otherwise it is the first such part.
pub const HK_COLUMN_SPANS: i32 = 5;
/// ids of a conversation as the chat template writes it, with all of its special tokens; parts: alternately what was
/// given and what the assistant writes with the end of its turn, given first. A column that asks for tokens has this
/// kind in an example whose data has messages there: ids are those of the prompt up to where the assistant begins, or
/// of an answer with the end of its turn, and there are no parts.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_COLUMN_MESSAGES: i32 = 6;

/// One column of an example. Only the members of its kind are read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_column {
    pub struct_size: u32,
    /// HK_COLUMN_*
    pub kind: i32,
    pub name: hk_string,
    /// all kinds but numbers; -1 is an unknown class
    pub ids: *const i32,
    pub numbers: *const f32,
    /// number of ids or numbers
    pub size: u64,
    /// start of each part in ids, ascending from 0
    pub parts: *const u64,
    pub part_count: u64,
}

/// One example. `index` and `epoch`, with the seed of the batch, are the key of every random number for it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_example {
    pub struct_size: u32,
    pub column_count: u32,
    /// elements have the size that their struct_size gives
    pub columns: *const hk_column,
    /// in the corpus
    pub index: u64,
    /// UINT64_MAX in evaluations, so that all evaluations draw the same numbers
    pub epoch: u64,
    /// number of the text that it was cut from; examples of one text are consecutive
    pub document: u64,
}

/// All examples of the split that a batch was drawn from, eg: to find a sentence that does not follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_corpus {
    pub struct_size: u32,
    /// zero
    pub reserved: u32,
    pub example_count: u64,
    /// for get()
    pub context: *mut c_void,
    /// Writes the example of an index below example_count into one whose struct_size is set [abi.5]; valid until the
    /// calling collate() returns.
    /// Thread: worker.
    pub get: Option<unsafe extern "C" fn(context: *mut c_void, index: u64, example: *mut hk_example, error: *mut hk_error) -> i32>,
}

/// Input of collate().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_batch {
    pub struct_size: u32,
    /// may be less than the number of rows of the fields: the other rows must have no weight in any loss or metric
    pub example_count: u32,
    /// one per row
    pub examples: *const hk_example,
    /// null: only the examples above exist
    pub corpus: *const hk_corpus,
    pub seed: u64,
    /// number of the step of the training that the batch is for, from 0; in evaluations that of the last step before,
    /// and 0 outside of trainings. Where layers are frozen, their results for the rows of a table may be computed
    /// once, for a step before the first: there the fields that they read must not depend on it
    #[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
    pub step: u64,
}

// ---- architecture.h

pub const HK_ARCHITECTURE_INTERFACE: &str = "hekla.architecture/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_architecture {
    /// Reads the configuration (config.json of the reference, completed by the manifest's defaults). config is valid
    /// during the call only. [architecture.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Describes the body and offers its ports. [architecture.2]
    /// Thread: describe.
    pub build: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32>,
    /// Describes the architecture's own head of that id, eg: "lm", after build() on the same builder, so that the
    /// ports exist. Returns HK_NOT_FOUND, with error untouched, if it has no such head; a head plugin of that id is
    /// then used.
    /// Thread: describe.
    pub build_head: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, head: hk_string, error: *mut hk_error) -> i32>,
    /// Writes config.json as the reference implementation reads it. [architecture.3]
    /// Thread: any-thread.
    pub write_config: Option<unsafe extern "C" fn(this: *mut c_void, writer: *mut hk_config_writer, error: *mut hk_error) -> i32>,
}

// ---- objective.h

// Kinds of examples.
/// consecutive tokens of the corpus, tokens_per_example() of them: column "text"
pub const HK_EXAMPLE_WINDOW: i32 = 0;
/// consecutive sentences of one text, about as many tokens: column "text"
pub const HK_EXAMPLE_DOCUMENT: i32 = 1;
/// a row of a table, with the columns that columns() names
pub const HK_EXAMPLE_ROW: i32 = 2;

// Flags of a column.
/// the data may lack the column
pub const HK_COLUMN_OPTIONAL: u32 = 1;
/// the target of the prediction; absent where it is not known. The row then has no weight in the loss. [objective.5]
pub const HK_COLUMN_TARGET: u32 = 2;

/// A column that an objective reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_column_need {
    pub struct_size: u32,
    /// HK_COLUMN_*
    pub kind: i32,
    pub name: hk_string,
    /// HK_COLUMN_OPTIONAL, HK_COLUMN_TARGET
    pub flags: u32,
    /// zero
    pub reserved: u32,
}

pub const HK_OBJECTIVE_INTERFACE: &str = "hekla.objective/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_objective {
    /// tokenizer may be null where a graph is only described for given fields, or only columns() is called. It is
    /// valid until destroy(); config is valid during the call only. [objective.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, tokenizer: *const hk_tokenizer, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// HK_EXAMPLE_*.
    /// Thread: any-thread.
    pub example_kind: Option<unsafe extern "C" fn(this: *mut c_void) -> i32>,
    /// Windows and documents: how many raw tokens fill one row of the given length, eg: length + 1 for next-token
    /// prediction, length - 2 where two special tokens are added.
    /// Thread: any-thread.
    pub tokens_per_example: Option<unsafe extern "C" fn(this: *mut c_void, length: i64) -> i64>,
    /// Rows: lists the columns by calling `push` once for each, which copies it. Null for windows and documents.
    /// Thread: any-thread.
    pub columns: Option<unsafe extern "C" fn(this: *mut c_void, push: Option<unsafe extern "C" fn(context: *mut c_void, column: *const hk_column_need)>, context: *mut c_void, error: *mut hk_error) -> i32>,
    /// The length of a row that holds the whole example, in tokens; longer rows waste time. Null: every example fills
    /// a row.
    /// Thread: worker.
    pub example_length: Option<unsafe extern "C" fn(this: *mut c_void, example: *const hk_example) -> i64>,
    /// Lists the fields of a batch with this number of rows and tokens per row, by calling `push` once for each,
    /// which copies it. [objective.3]
    /// Thread: any-thread.
    pub fields: Option<unsafe extern "C" fn(this: *mut c_void, batch: i64, length: i64, push: Option<unsafe extern "C" fn(context: *mut c_void, field: *const hk_field)>, context: *mut c_void, error: *mut hk_error) -> i32>,
    /// Asks for fields and ports, adds losses and metrics. [objective.4]
    /// Thread: describe.
    pub build: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32>,
    /// Fills the fields of one batch, in the order of fields(). An example that is longer than a row is truncated in
    /// a way that suits the objective. Null if fields cannot be made from examples: such an objective only evaluates
    /// given batches. [objective.2] [objective.5]
    /// Thread: worker.
    pub collate: Option<unsafe extern "C" fn(this: *mut c_void, batch: *const hk_batch, fields: *mut hk_field, field_count: u32, error: *mut hk_error) -> i32>,
}

// ---- head.h

/// One output of the network on the host, row-major.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_output {
    pub struct_size: u32,
    pub rank: u32,
    /// eg: "logits"
    pub port: hk_string,
    pub values: *const f32,
    pub dims: [i64; HK_MAX_RANK],
}

/// Input of decode(). Owned by the host, valid until decode() returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_decode_input {
    pub struct_size: u32,
    pub output_count: u32,
    pub outputs: *const hk_output,
    /// of the batch
    pub fields: *const hk_field,
    pub field_count: u32,
    /// the number of rows with an example; these are the first rows of the fields
    pub row_count: u32,
    /// may be null
    pub tokenizer: *const hk_tokenizer,
}

pub const HK_HEAD_INTERFACE: &str = "hekla.head/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_head {
    /// config is valid during the call only. [head.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Asks for ports of the body and offers its own, eg: "logits". Not called if the architecture has its own head
    /// of this id; decode then reads the ports of that head.
    /// Thread: describe.
    pub build: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, error: *mut hk_error) -> i32>,
    /// Lists the ports that decode() reads, by calling `push` once for each. Null if decode is null.
    /// Thread: any-thread.
    pub decode_ports: Option<unsafe extern "C" fn(this: *mut c_void, push: Option<unsafe extern "C" fn(context: *mut c_void, port: hk_string)>, context: *mut c_void, error: *mut hk_error) -> i32>,
    /// Turns the outputs of a batch into one JSON object per row, by calling `push` once for each of row_count rows
    /// in order. push copies the texts. Null if the head's outputs are not decoded. Members that hosts know, and
    /// score against the columns of the example:
    /// Thread: worker.
    pub decode: Option<unsafe extern "C" fn(this: *mut c_void, input: *const hk_decode_input, push: Option<unsafe extern "C" fn(context: *mut c_void, json: hk_string)>, context: *mut c_void, error: *mut hk_error) -> i32>,
}

// ---- operation.h

/// An input, by position in emit(). [operation.4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_input {
    pub struct_size: u32,
    /// HK_KIND_FLOAT (takes float and float32) or HK_KIND_INT32
    pub kind: i32,
    pub name: hk_string,
}

/// An attribute. [operation.4]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_attribute {
    pub struct_size: u32,
    /// HK_ATTRIBUTE_*
    pub r#type: i32,
    pub name: hk_string,
    /// default value (its name is not read); null: the attribute is required
    pub fallback: *const hk_attribute,
}

/// The constant part of a revision. Elements of an array all have the struct_size of the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_description {
    pub struct_size: u32,
    /// from 1 [operation.3]
    pub revision: u32,
    pub input_count: u32,
    pub attribute_count: u32,
    pub output_count: u32,
    /// 0: the host's choice; else 1 to 256
    pub local_size: u32,
    pub inputs: *const hk_operation_input,
    pub attributes: *const hk_operation_attribute,
    /// their names
    pub outputs: *const hk_string,
    /// or empty, with spirv
    pub glsl: hk_string,
    /// source file of the text, for messages; may be empty
    pub glsl_file: hk_string,
    /// line of the text's first line in glsl_file; 0: lines count from 1
    pub glsl_line: u32,
    /// zero
    pub reserved: u32,
    /// or null, with glsl
    pub spirv: *const u32,
    /// words
    pub spirv_count: u64,
}

/// A tensor of one use. In shape() there is no data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_tensor {
    pub struct_size: u32,
    /// HK_KIND_*
    pub kind: i32,
    pub rank: u32,
    /// zero
    pub reserved: u32,
    pub dims: [i64; HK_MAX_RANK],
    /// row-major; integers are exact. Only an output's may be written to
    pub data: *mut f64,
}

/// One use: the tensors, and every attribute with its value, in their order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_use {
    pub struct_size: u32,
    pub input_count: u32,
    pub attribute_count: u32,
    pub output_count: u32,
    pub inputs: *const hk_operation_tensor,
    pub attributes: *const hk_attribute,
    pub outputs: *mut hk_operation_tensor,
}

/// Cost of a use. 0 selects the host's default: one invocation per element of the first output (rounded up to
/// local_size), one FLOP per element of each output, every tensor read or written once.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_cost {
    pub struct_size: u32,
    /// zero
    pub reserved: u32,
    /// [operation.5]
    pub invocations: u64,
    pub flops: f64,
    pub bytes: f64,
}

/// Values in the builder of the gradient's graph. output_gradients: 0 for int32 outputs, zeros for outputs that are
/// not used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation_gradient {
    pub struct_size: u32,
    pub input_count: u32,
    pub attribute_count: u32,
    pub output_count: u32,
    pub inputs: *const hk_value,
    pub attributes: *const hk_attribute,
    pub outputs: *const hk_value,
    pub output_gradients: *const hk_value,
    /// written by the plugin: a value of the input's shape, or 0 for no gradient, as after stop_gradient
    pub input_gradients: *mut hk_value,
}

/// [operation.1] [operation.2]
pub const HK_OPERATION_INTERFACE: &str = "hekla.operation/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_operation {
    /// Valid until deinit() returns.
    /// Thread: any-thread.
    pub describe: Option<unsafe extern "C" fn() -> *const hk_operation_description>,
    /// Writes kind, rank and dims of every output (all are float, rank 0 before), and the cost; or returns an error
    /// for the shapes or attributes. Called whenever the operation is emitted, after the host has checked the kinds
    /// of inputs and types of attributes.
    /// Thread: any-thread.
    pub shape: Option<unsafe extern "C" fn(r#use: *const hk_operation_use, cost: *mut hk_operation_cost, error: *mut hk_error) -> i32>,
    /// Describes the gradients with operations of `builder`, including plugins' own. Null: the operation has no
    /// gradient, and its inputs must not depend on trained parameters. [operation.7]
    /// Thread: describe.
    pub gradient: Option<unsafe extern "C" fn(builder: *mut hk_builder, r#use: *const hk_operation_gradient, error: *mut hk_error) -> i32>,
    /// Computes the outputs, whose data is zeros at first. The kernel is checked against it.
    /// Thread: any-thread.
    pub reference: Option<unsafe extern "C" fn(r#use: *const hk_operation_use, error: *mut hk_error) -> i32>,
}

// ---- adapter.h

// Kinds of sites.
/// a linear layer: y = x W^T + bias
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_LINEAR: i32 = 0;
/// an embedding: y = W[x]
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_EMBEDDING: i32 = 1;
/// a layer norm or RMS norm with a gain: y = normalized(x) W + bias
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_NORM: i32 = 2;
/// the end of a block's part: y, what the part computes, is added to the residual stream x
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_RESIDUAL: i32 = 3;
/// keys x and values y of attention, [B, out, tokens, in]; of an encoder-decoder, the decoder's self-attention; asked
/// for only if there are virtual tokens
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_ATTENTION: i32 = 4;

// Flags of a site.
/// it belongs to a head, not to the body
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_OF_HEAD: u32 = 1;
/// residual: the part is attention; without it, a feed-forward network
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_OF_ATTENTION: u32 = 2;
/// residual: the part is attention to an encoder's states
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_OF_CROSS: u32 = 4;
/// embedding: its ids are the batch's input_ids
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_OF_TOKENS: u32 = 8;
/// attention: of the decoder of an encoder-decoder
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_SITE_OF_DECODER: u32 = 16;

// What an adapter answers at a site.
/// y is unchanged
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ANSWER_NONE: i32 = 0;
/// the value is added to y
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ANSWER_DELTA: i32 = 1;
/// the value replaces y
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ANSWER_VALUE: i32 = 2;
/// residual: the value replaces the sum of x and y, and the norm that follows it in the block
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ANSWER_RESULT: i32 = 3;
/// what virtual tokens have in place of what the body computes: embedding of tokens, or a norm of values [B, T, out]:
/// value [count, out]; attention: keys [out, count, in] as value, values as second
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ANSWER_VIRTUAL: i32 = 4;

// Flags of virtual tokens.
/// heads and objective do not see them: the host cuts them from the body's ports that have one element per token
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_VIRTUAL_HIDDEN: u32 = 1;
/// they take no positions: the row's own tokens begin at position 0; without it, at position count
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_VIRTUAL_WITHOUT_POSITIONS: u32 = 2;

// Parameters of a site that are trained with the adapter.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_TRAINS_WEIGHT: u32 = 1;
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_TRAINS_BIAS: u32 = 2;

// Flags of initial(), with those of parameters.
/// it is saved and not trained
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_INITIAL_FIXED: u32 = 2;

/// A place where body or head use a parameter W [out, in] (an embedding: [in, out], in is the number of rows; a norm:
/// [out]). The host finds residual sites in graphs where a linear layer (with dropout, scales or a norm after it, if
/// there are any) is added to values [B, T, out] on which it depends.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_adapter_site {
    pub struct_size: u32,
    /// HK_SITE_*
    pub kind: i32,
    /// the path of the module in the reference implementation, eg: "h.0.attn.c_attn"; a head that is tied to the
    /// embedding has a name of its own, eg: "lm_head"; residual: that of the part's last linear layer, eg:
    /// "h.0.attn.c_proj"; attention: "attention.0" and so on, in the order of description
    pub name: hk_string,
    /// the parameter that it uses, eg: "h.0.attn.c_attn.weight"; residual and attention: empty
    pub parameter: hk_string,
    /// the parameter of its bias, or empty
    pub bias: hk_string,
    /// norm and residual: as out; attention: width of a head
    pub r#in: i64,
    /// attention: number of heads of keys and values
    pub out: i64,
    /// attention: its number, from 0; otherwise 0
    pub index: i64,
    /// HK_SITE_OF_*
    pub flags: u32,
    /// zero
    pub reserved: u32,
}

/// The values of a site.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_site_values {
    pub struct_size: u32,
    /// [..., in] float; an embedding's ids [...] int32; residual: the stream before the part
    pub x: hk_value,
    /// [..., out] float, bias included
    pub y: hk_value,
    /// W [out, in], transposed if the file has it otherwise (GPT-2); an embedding's table [in, out]; a norm's gain
    /// [out]; residual: 0
    pub weight: hk_value,
    /// [out], or 0
    pub bias: hk_value,
    /// residual: x + y after the norm that follows in the block (BERT), or x + y if none does (GPT-2); otherwise 0
    pub normed: hk_value,
    /// zero
    pub reserved: u32,
}

/// What an adapter answers at a site; zeros before.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_site_answer {
    /// set by the host
    pub struct_size: u32,
    /// HK_ANSWER_*
    pub kind: i32,
    /// [..., out] float [adapter.2]
    pub value: hk_value,
    /// HK_ANSWER_VIRTUAL at attention only
    pub second: hk_value,
    /// what the answer is computed from, for combiners that compare adapters by it; 0: y
    pub input: hk_value,
    /// zero
    pub reserved: u32,
    /// A [r, in] if value is a number times (x A^T) B^T at a linear layer, for combiners that compare adapters by
    /// their matrices; otherwise 0
    pub a: hk_value,
    /// B [out, r], or 0
    pub b: hk_value,
}

/// What an adapter needs of the host besides hekla.config/1 and hekla.graph/1.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ADAPTER_HOST_INTERFACE: &str = "hekla.adapter-host/1";

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_adapter_host {
    /// The name of a member of an object, in the order of names; index is less than get_count(). The text is valid as
    /// long as the config. HK_NOT_FOUND: the key is not an object, or has fewer members.
    /// Thread: describe.
    pub member: Option<unsafe extern "C" fn(config: *const hk_config, key: hk_string, index: u64, out: *mut hk_string, error: *mut hk_error) -> i32>,
    /// Writes 1 if the regular expression (PCRE2's syntax) matches the whole text, else 0. HK_INVALID_ARGUMENT: it is
    /// not an expression, or takes too many steps.
    /// Thread: any-thread.
    pub matches: Option<unsafe extern "C" fn(expression: hk_string, text: hk_string, matched: *mut i32, error: *mut hk_error) -> i32>,
    /// A parameter of the adapter, as parameter() of hekla.graph/1, whose initial values are those of `value`,
    /// computed in float64 from parameters of the body, for a combiner also from those of adapters that folders have.
    /// `value` is float and depends on no field of the batch. flags: HK_PARAMETER_*, HK_INITIAL_*. Returns 0 after an
    /// error.
    /// Thread: describe.
    pub initial: Option<unsafe extern "C" fn(builder: *mut hk_builder, name: hk_string, value: hk_value, flags: u32) -> hk_value>,
}

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_ADAPTER_INTERFACE: &str = "hekla.adapter/1";

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_adapter {
    /// Reads the configuration (a recipe's [adapter], completed by the manifest's defaults). config is valid during
    /// the call only. [adapter.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Writes 1 if the adapter acts at this site. *wanted is 0 before. [adapter.4]
    /// Thread: any-thread.
    pub wants: Option<unsafe extern "C" fn(this: *mut c_void, site: *const hk_adapter_site, wanted: *mut i32, error: *mut hk_error) -> i32>,
    /// Writes which of the site's own parameters are trained and saved with the adapter: HK_TRAINS_WEIGHT,
    /// HK_TRAINS_BIAS. *trained is 0 before. Null: none. [adapter.4]
    /// Thread: any-thread.
    pub trains: Option<unsafe extern "C" fn(this: *mut c_void, site: *const hk_adapter_site, trained: *mut u32, error: *mut hk_error) -> i32>,
    /// Writes how many virtual tokens begin each row, and HK_VIRTUAL_* flags. In an encoder-decoder, hidden ones
    /// begin the decoder's rows, others the encoder's. Null: none. With virtual tokens, the names of the adapter's
    /// parameters begin with "adapter." alone, without the site's name. [adapter.4]
    /// Thread: any-thread.
    pub virtual_tokens: Option<unsafe extern "C" fn(this: *mut c_void, count: *mut i64, flags: *mut u32, error: *mut hk_error) -> i32>,
    /// Describes the answer at a site that it wants. The host puts "adapter.SITE." before the names of the adapter's
    /// parameters: "lora_A.weight" becomes "adapter.h.0.attn.c_attn.lora_A.weight". A site that is described several
    /// times (layers that share parameters) has the same parameters each time. [adapter.2] [adapter.3] [adapter.4]
    /// [adapter.5]
    /// Thread: describe.
    pub adapt: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values, answer: *mut hk_site_answer, error: *mut hk_error) -> i32>,
    /// Describes a weight and a bias with which the layer alone computes what it computes with the adapter, from the
    /// weight and bias in `values`, whose x, y and normed are 0. *weight and *bias are the given ones before. Null:
    /// the adapter cannot be merged. [adapter.2] [adapter.3] [adapter.6]
    /// Thread: describe.
    pub merge: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values, weight: *mut hk_value, bias: *mut hk_value, error: *mut hk_error) -> i32>,
    /// Writes the adapter_config.json of PEFT. Null: PEFT has no such adapter.
    /// Thread: any-thread.
    pub write_config: Option<unsafe extern "C" fn(this: *mut c_void, writer: *mut hk_config_writer, error: *mut hk_error) -> i32>,
}

// ---- combiner.h

/// An adapter, or a combination, at a site.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_branch {
    pub struct_size: u32,
    /// zero
    pub reserved: u32,
    /// of the adapter, eg: "sst2", or the text of the combination
    pub name: hk_string,
    /// [..., out] float, which the branch alone would add to y; 0: it does not act at this site
    pub delta: hk_value,
    /// [..., width] float, from which the branch computed delta; 0 if delta is 0
    pub input: hk_value,
    /// A [r, in] if delta is a number times (input A^T) B^T, otherwise 0
    pub a: hk_value,
    /// B [out, r], or 0
    pub b: hk_value,
}

/// What a combiner gives; zeros before.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_combined {
    /// set by the host
    pub struct_size: u32,
    /// zero
    pub reserved: u32,
    /// [..., out] float, which is added to y [combiner.2]
    pub delta: hk_value,
    /// [..., count] float: the share of each branch, which the host offers as the port "routing.SITE"
    /// ("routing.SITE.residual"); 0: none
    pub weights: hk_value,
    /// float scalar, which is added to the loss in training; 0: none
    pub loss: hk_value,
}

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_COMBINER_INTERFACE: &str = "hekla.combiner/1";

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_combiner {
    /// Reads the configuration (a recipe's [combine], completed by the manifest's defaults). config is valid during
    /// the call only. [combiner.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Describes the combination of `count` branches, in the order of the recipe, at least one of which acts at this
    /// site. values.weight and values.bias are 0. The host puts "adapter.combine.SITE." before the names of the
    /// combiner's parameters, and "adapter.combine.SITE.residual." at residual sites, which have the name of a linear
    /// layer. [combiner.2] [combiner.3] [combiner.4]
    /// Thread: describe.
    pub combine: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, site: *const hk_adapter_site, values: *const hk_site_values, branches: *const hk_branch, count: u32, combined: *mut hk_combined, error: *mut hk_error) -> i32>,
}

// ---- optimizer.h

// Flags of a parameter.
/// weight decay applies to it; without it (norms, biases) it must not decay
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_OPTIMIZED_DECAYS: u32 = 1;
/// it is the table of an embedding, whose rows are looked up
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_OPTIMIZED_TABLE: u32 = 2;

/// A parameter that is updated.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_optimized {
    pub struct_size: u32,
    pub rank: u32,
    pub dims: [i64; HK_MAX_RANK],
    /// HK_OPTIMIZED_*
    pub flags: u32,
    /// zero
    pub reserved: u32,
}

/// What an update is computed from.
#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_update_values {
    pub struct_size: u32,
    /// float, before the step
    pub parameter: hk_value,
    /// float, of the parameter's shape: the mean over the batch of the step, clipped
    pub gradient: hk_value,
    /// float scalar: of this step, with the parameter's own factor
    pub learning_rate: hk_value,
    /// float scalar: the number of this update, from 1; skipped steps do not count
    pub step: hk_value,
    /// zero
    pub reserved: u32,
}

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
pub const HK_OPTIMIZER_INTERFACE: &str = "hekla.optimizer/1";

#[cfg(any(hekla_minor = "1", hekla_minor = "2"))]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_optimizer {
    /// Reads the configuration (a recipe's [optimizer], completed by the manifest's defaults). config is valid during
    /// the call only. [optimizer.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Writes 1 if it updates such a parameter, 0 if AdamW should. *taken is 1 before. Null: it takes every
    /// parameter. [optimizer.5]
    /// Thread: any-thread.
    pub takes: Option<unsafe extern "C" fn(this: *mut c_void, parameter: *const hk_optimized, taken: *mut i32, error: *mut hk_error) -> i32>,
    /// Describes the update, and writes the new value of the parameter. *updated is 0 before. [optimizer.2]
    /// [optimizer.3] [optimizer.4] [optimizer.5] [optimizer.6]
    /// Thread: describe.
    pub build: Option<unsafe extern "C" fn(this: *mut c_void, builder: *mut hk_builder, parameter: *const hk_optimized, values: *const hk_update_values, updated: *mut hk_value, error: *mut hk_error) -> i32>,
}

// ---- draft/rollout.h

// What an objective needs to know of every token of a completion.
/// its log probability under the frozen reference
pub const HK_ROLLOUT_REFERENCE: u32 = 1;
/// the port "values" [B, T] at the position that predicts it
pub const HK_ROLLOUT_VALUES: u32 = 2;
/// the entropy of the distribution that it was drawn from
pub const HK_ROLLOUT_ENTROPIES: u32 = 4;

/// How an objective uses rollouts; zeros before.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_rollout_needs {
    /// set by the host
    pub struct_size: u32,
    /// HK_ROLLOUT_*
    pub flags: u32,
    /// passes over the rollouts of an iteration; at least 1
    pub epochs: i64,
    /// completions of each prompt, at least; 0: any number
    pub least_generations: i64,
    /// the coefficient with which the first iteration begins; see adapt()
    pub kl_coef: f64,
}

/// The rollouts of one iteration. The completions of one prompt are adjacent. Owned by the host, valid during the
/// call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_rollouts {
    pub struct_size: u32,
    /// completions of each prompt
    pub generations: u32,
    /// completions; a multiple of generations
    pub rows: u64,
    /// from 0
    pub iteration: u64,
    /// [rows + 1]: where each completion begins in the arrays of tokens below; the last one is the number of all
    /// tokens
    pub begins: *const u64,
    /// log probabilities of the tokens under the model that wrote them
    pub logps: *const f32,
    /// the same under the reference; null without HK_ROLLOUT_REFERENCE
    pub ref_logps: *const f32,
    /// null without HK_ROLLOUT_VALUES
    pub values: *const f32,
    /// null without HK_ROLLOUT_ENTROPIES
    pub entropies: *const f32,
    /// [rows]: the weighted sum of the rewards; NaN: the completion could not be scored
    pub scores: *const f64,
    /// [rows]: 1 if the completion ends with the end token, 0 if it was cut off
    pub ended: *const u8,
    /// the current coefficient
    pub kl_coef: f64,
}

/// Takes the results of weigh(), which are copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_rollout_sink {
    pub struct_size: u32,
    /// zero
    pub reserved: u32,
    /// for the functions
    pub context: *mut c_void,
    /// Adds a column of numbers: one for each token of all completions, in order. [rollout.3]
    /// Thread: worker.
    pub column: Option<unsafe extern "C" fn(context: *mut c_void, name: hk_string, numbers: *const f32, count: u64)>,
    /// Adds a number of the iteration to the log.
    /// Thread: worker.
    pub metric: Option<unsafe extern "C" fn(context: *mut c_void, name: hk_string, value: f64)>,
}

pub const HK_ROLLOUT_DRAFT: &str = "hekla.rollout.draft/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_rollout_use {
    /// Reads the configuration of the objective. config is valid during the call only. [rollout.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Tells how rollouts are used.
    /// Thread: any-thread.
    pub needs: Option<unsafe extern "C" fn(this: *mut c_void, needs: *mut hk_rollout_needs, error: *mut hk_error) -> i32>,
    /// Makes the columns of an iteration. [rollout.2]
    /// Thread: worker.
    pub weigh: Option<unsafe extern "C" fn(this: *mut c_void, rollouts: *const hk_rollouts, sink: *const hk_rollout_sink, error: *mut hk_error) -> i32>,
    /// Sets the coefficient of the next iteration, after weigh(). Null: it never changes. [rollout.2]
    /// Thread: worker.
    pub adapt: Option<unsafe extern "C" fn(this: *mut c_void, rollouts: *const hk_rollouts, kl_coef: *mut f64, error: *mut hk_error) -> i32>,
}

// ---- draft/reward.h

/// A completion to score. Owned by the host, valid during the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_scored_text {
    pub struct_size: u32,
    /// of columns()
    pub column_count: u32,
    pub prompt: hk_string,
    /// without special tokens
    pub completion: hk_string,
    /// the texts of the row of data, in the order of columns()
    pub columns: *const hk_string,
}

pub const HK_REWARD_DRAFT: &str = "hekla.reward.draft/1";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hk_reward {
    /// Reads the configuration: the keys of [rewards.NAME] besides id, weight and clip. config is valid during the
    /// call only. [reward.1]
    /// Thread: any-thread.
    pub create: Option<unsafe extern "C" fn(config: *const hk_config, this: *mut *mut c_void, error: *mut hk_error) -> i32>,
    /// Frees what create() made.
    /// Thread: any-thread.
    pub destroy: Option<unsafe extern "C" fn(this: *mut c_void)>,
    /// Lists columns of the data whose texts it needs, besides the prompt, by calling `push` once for each, which
    /// copies it. Null: none.
    /// Thread: any-thread.
    pub columns: Option<unsafe extern "C" fn(this: *mut c_void, push: Option<unsafe extern "C" fn(context: *mut c_void, column: hk_string)>, context: *mut c_void, error: *mut hk_error) -> i32>,
    /// Writes a score for each text; NaN: it cannot be scored. Elements have the size that struct_size gives.
    /// [reward.2]
    /// Thread: worker.
    pub score: Option<unsafe extern "C" fn(this: *mut c_void, texts: *const hk_scored_text, count: u64, scores: *mut f64, error: *mut hk_error) -> i32>,
}
