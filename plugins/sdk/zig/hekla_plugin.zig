// The plugin ABI 1.2 in Zig: raw declarations of everything in hekla/plugin/.
// Zig 0.14 or newer. hekla.zig is a layer over them.
// A table's functions beyond the host's minor are not there: read hk_host.abi_minor first.
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.

pub const HK_ABI_MAJOR: u32 = 1;
pub const HK_ABI_MINOR: u32 = 2;

// ---- abi.h

// UTF-8 text. [abi.1]
pub const hk_string = extern struct {
    data: [*c]const u8,
    // in bytes
    size: u64,
};

// A tensor of one graph; 0 is none. It dies with its builder, and another builder refuses it. [graph.3]
pub const hk_value = u32;

// Kinds of tensors.
// the engine chooses its storage (32 or 16 bits)
pub const HK_KIND_FLOAT: i32 = 0;
// kept as it is
pub const HK_KIND_FLOAT32: i32 = 1;
pub const HK_KIND_INT32: i32 = 2;

// dimensions of a tensor
pub const HK_MAX_RANK: usize = 6;

// ---- error.h

pub const HK_OK: i32 = 0;
// the value is not allowed
pub const HK_INVALID_ARGUMENT: i32 = 1;
pub const HK_NOT_FOUND: i32 = 2;
// allowed, but not with this version, device or build
pub const HK_UNSUPPORTED: i32 = 3;
// a required earlier call or state is missing
pub const HK_FAILED_PRECONDITION: i32 = 4;
pub const HK_OUT_OF_MEMORY: i32 = 5;
pub const HK_IO: i32 = 6;
// damaged data
pub const HK_CORRUPT: i32 = 7;
pub const HK_DEVICE_LOST: i32 = 8;
pub const HK_CANCELLED: i32 = 9;
// an error in the code that reports it
pub const HK_INTERNAL: i32 = 10;

// Created by the caller, filled by the function that fails.
pub const hk_error = opaque {};

pub const HK_ERROR_INTERFACE = "hekla.error/1";
pub const hk_error_interface = extern struct {
    // Keeps a code and a copy of the message. The last call wins. A null error is allowed and ignored.
    // [any-thread]
    set: ?*const fn (?*hk_error, i32, hk_string) callconv(.c) void,
};

// ---- log.h

pub const HK_LOG_DEBUG: i32 = 0;
pub const HK_LOG_INFO: i32 = 1;
pub const HK_LOG_WARNING: i32 = 2;
pub const HK_LOG_ERROR: i32 = 3;

pub const HK_LOG_INTERFACE = "hekla.log/1";
pub const hk_log_interface = extern struct {
    // Passes a message to the host, which adds the plugin's id and writes it to its log. host: the argument of
    // init(). severity: HK_LOG_*; messages with another value are dropped. The message is copied.
    // [any-thread]
    write: ?*const fn ([*c]const hk_host, i32, hk_string) callconv(.c) void,
};

// ---- config.h

// Owned by the host; valid until the call that it was given to returns.
pub const hk_config = opaque {};

// Owned by the host; valid until the call that it was given to returns.
pub const hk_config_writer = opaque {};

pub const HK_CONFIG_INTERFACE = "hekla.config/1";
pub const hk_config_interface = extern struct {
    // Returns 1 if the key exists and is not null, else 0. Marks the key as read.
    // [describe]
    has: ?*const fn (?*const hk_config, hk_string) callconv(.c) i32,
    // Returns the value of a required key of this type: HK_NOT_FOUND if the key is missing or null,
    // HK_INVALID_ARGUMENT if the value has another type, with the message in error (may be null).
    // [describe]
    get_integer: ?*const fn (?*const hk_config, hk_string, [*c]i64, ?*hk_error) callconv(.c) i32,
    // As get_integer(). Integers are accepted as reals, not the other way.
    // [describe]
    get_real: ?*const fn (?*const hk_config, hk_string, [*c]f64, ?*hk_error) callconv(.c) i32,
    // As get_integer(); writes 1 or 0.
    // [describe]
    get_boolean: ?*const fn (?*const hk_config, hk_string, [*c]i32, ?*hk_error) callconv(.c) i32,
    // As get_integer(). The text is owned by the host and valid as long as the config; copy it to keep it.
    // [describe]
    get_text: ?*const fn (?*const hk_config, hk_string, [*c]hk_string, ?*hk_error) callconv(.c) i32,
    // The number of members of an object or elements of an array; errors as of get_integer().
    // [describe]
    get_count: ?*const fn (?*const hk_config, hk_string, [*c]u64, ?*hk_error) callconv(.c) i32,
    // Writes one key of a configuration. Objects on its path are created; arrays must be created before (set_array).
    // HK_INVALID_ARGUMENT where the path leads through a number or a text, or beyond the end of an array.
    // [describe]
    set_integer: ?*const fn (?*hk_config_writer, hk_string, i64, ?*hk_error) callconv(.c) i32,
    // As set_integer().
    // [describe]
    set_real: ?*const fn (?*hk_config_writer, hk_string, f64, ?*hk_error) callconv(.c) i32,
    // As set_integer(); 0 is false, everything else true.
    // [describe]
    set_boolean: ?*const fn (?*hk_config_writer, hk_string, i32, ?*hk_error) callconv(.c) i32,
    // As set_integer(). The text is copied.
    // [describe]
    set_text: ?*const fn (?*hk_config_writer, hk_string, hk_string, ?*hk_error) callconv(.c) i32,
    // As set_integer().
    // [describe]
    set_null: ?*const fn (?*hk_config_writer, hk_string, ?*hk_error) callconv(.c) i32,
    // Creates an array of `count` elements, at most 2^20, which are then written as "KEY.0", "KEY.1", ...: each must
    // be, as a value, an object or an array of its own. [config.3]
    // [describe]
    set_array: ?*const fn (?*hk_config_writer, hk_string, u64, ?*hk_error) callconv(.c) i32,
    // Returns 1 if the key exists and is null, else 0: also if it is missing. Marks the key as read. A parameter of
    // the manifest with a default is null only if its entry has "null": true; otherwise null is replaced by the
    // default.
    // Since minor 2. [describe]
    is_null: ?*const fn (?*const hk_config, hk_string) callconv(.c) i32,
};

// ---- tokenizer.h

// Owned by the host; valid until destroy() of the instance that it was given to.
pub const hk_tokenizer = opaque {};

pub const HK_TOKENIZER_INTERFACE = "hekla.tokenizer/1";
pub const hk_tokenizer_interface = extern struct {
    // Number of ids: 0 .. size - 1.
    // [any-thread]
    vocabulary_size: ?*const fn (?*const hk_tokenizer) callconv(.c) i64,
    // The id of the token with a role: "bos" "eos" "pad" "unk" "mask" "separator" "classifier", "sentinel.0" ...; -1
    // if none. Since minor 2 also what the tokenizer puts around texts: "frame" is 0 where rows have it;
    // "frame.LIST.N" is entry N of a list, and -1 after the last. The lists: "single.before" "single.after" around
    // one text; "pair.before" "pair.between" "pair.after" around two; "single.types" "pair.types", the token types of
    // special tokens and texts in order; "begin", what begins a prompt.
    // [any-thread]
    id_of_role: ?*const fn (?*const hk_tokenizer, hk_string) callconv(.c) i64,
    // 1 if the token begins a word, else 0. Ids outside the vocabulary: 0.
    // [any-thread]
    is_word_start: ?*const fn (?*const hk_tokenizer, i64) callconv(.c) i32,
    // Writes the text of ids into a caller's buffer of *size bytes; *size becomes the bytes needed. With a null or
    // too small buffer nothing is written and HK_OK is returned: call again with more space.
    // [any-thread]
    decode: ?*const fn (?*const hk_tokenizer, [*c]const i64, u64, [*c]u8, [*c]u64, ?*hk_error) callconv(.c) i32,
    // 1 if the token ends a sentence (its text ends in a full stop, a question or exclamation mark, or a line end),
    // else 0. Ids outside the vocabulary: 0.
    // [any-thread]
    is_sentence_end: ?*const fn (?*const hk_tokenizer, i64) callconv(.c) i32,
};

// ---- graph.h

// Owned by the host; valid until the build call returns. [graph.8]
pub const hk_builder = opaque {};

// The purpose for which the network is described. The plugin describes the same network in each; the host removes
// what is not needed.
pub const HK_MODE_TRAIN: i32 = 0;
pub const HK_MODE_EVALUATE: i32 = 1;
pub const HK_MODE_ENCODE: i32 = 2;
// lengths are chunks of new tokens; attention with a cache name also sees the earlier ones
pub const HK_MODE_DECODE: i32 = 3;

// Initial values of a parameter that no file provides.
// the constant a
pub const HK_INITIALIZE_CONSTANT: i32 = 0;
// mean a, deviation b
pub const HK_INITIALIZE_NORMAL: i32 = 1;
// from a to b
pub const HK_INITIALIZE_UNIFORM: i32 = 2;
// mean a, deviation b, truncated at two deviations
pub const HK_INITIALIZE_TRUNCATED_NORMAL: i32 = 3;

// Flags of a parameter.
// no weight decay; by default parameters of rank 2 and more have it
pub const HK_PARAMETER_NO_DECAY: u32 = 1;

// Types of attributes.
pub const HK_ATTRIBUTE_INT: i32 = 0;
pub const HK_ATTRIBUTE_REAL: i32 = 1;
pub const HK_ATTRIBUTE_TEXT: i32 = 2;
pub const HK_ATTRIBUTE_INTS: i32 = 3;
pub const HK_ATTRIBUTE_REALS: i32 = 4;

// One named attribute of an operation; only the members of its type are read. Copied by emit().
pub const hk_attribute = extern struct {
    struct_size: u32,
    // HK_ATTRIBUTE_*
    type: i32,
    name: hk_string,
    integer: i64,
    real: f64,
    text: hk_string,
    integers: [*c]const i64,
    reals: [*c]const f64,
    // number of integers or reals
    count: u64,
};

// dims: `rank` dimensions. [graph.4]
pub const HK_GRAPH_INTERFACE = "hekla.graph/1";
pub const hk_graph_interface = extern struct {
    // HK_MODE_*.
    // [describe]
    mode: ?*const fn (?*hk_builder) callconv(.c) i32,
    // 1 if the batch has this field, else 0.
    // [describe]
    has_field: ?*const fn (?*hk_builder, hk_string) callconv(.c) i32,
    // A field of the batch, with the kind and shape that the batch gives it (see shape()). A missing field is an
    // error that lists the existing ones.
    // [describe]
    input: ?*const fn (?*hk_builder, hk_string) callconv(.c) hk_value,
    // A trained tensor by its name in the files of the reference implementation. The same name gives the same
    // parameter; shape and flags must agree, and the first initializer is used. initializer: HK_INITIALIZE_*, with
    // its numbers a and b. flags: HK_PARAMETER_*.
    // [describe]
    parameter: ?*const fn (?*hk_builder, hk_string, [*c]const i64, u32, i32, f64, f64, u32) callconv(.c) hk_value,
    // A tensor that is saved with the model and not trained. values: row-major, as many as the shape holds; copied.
    // [describe]
    buffer: ?*const fn (?*hk_builder, hk_string, i32, [*c]const i64, u32, [*c]const f64) callconv(.c) hk_value,
    // A tensor that the plugin computes (sinusoids, tables). values: row-major, as many as the shape holds; copied.
    // [describe]
    constant: ?*const fn (?*hk_builder, i32, [*c]const i64, u32, [*c]const f64) callconv(.c) hk_value,
    // A tensor filled with one number.
    // [describe]
    fill: ?*const fn (?*hk_builder, i32, [*c]const i64, u32, f64) callconv(.c) hk_value,
    // int32 [length]: start, start + step, ...
    // [describe]
    iota: ?*const fn (?*hk_builder, i64, i64, i64) callconv(.c) hk_value,
    // int32 [batch, length]: the position of each token in its row: 0, 1, ...; in decode mode counted from the tokens
    // in the cache.
    // [describe]
    positions: ?*const fn (?*hk_builder, i64, i64) callconv(.c) hk_value,
    // A float32 scalar [] that a schedule of the recipe or the host sets at each step, without describing the graph
    // again. Since minor 1, a training sets two names itself unless a schedule does: "train.step", the number of the
    // step from 0, and "train.progress", that number divided by the steps of the run; an evaluation has the values of
    // the last step.
    // [describe]
    step_scalar: ?*const fn (?*hk_builder, hk_string, f64) callconv(.c) hk_value,
    // One operation by name and revision. Optional inputs may be 0; trailing ones may be left out. Attributes that
    // are left out have the defaults of that revision. Writes output_count values, 0 after an error. Returns HK_OK,
    // or the code of the sticky error.
    // [describe]
    emit: ?*const fn (?*hk_builder, hk_string, u32, [*c]const hk_value, u32, [*c]const hk_attribute, u32, [*c]hk_value, u32) callconv(.c) i32,
    // The newest revision of an operation that this host supports; 0 if it does not support the operation.
    // [describe]
    operation_revision: ?*const fn (?*hk_builder, hk_string) callconv(.c) u32,
    // Kind and shape of a value: writes *rank and that many of the HK_MAX_RANK elements of dims. Returns the kind, or
    // -1 after an error with nothing written.
    // [describe]
    shape: ?*const fn (?*hk_builder, hk_value, [*c]i64, [*c]u32) callconv(.c) i32,
    // Opens a scope, whose name is used in messages, dumps and random streams: "block.3", "attention". [graph.7]
    // [describe]
    scope_begin: ?*const fn (?*hk_builder, hk_string) callconv(.c) void,
    // Closes the innermost scope.
    // [describe]
    scope_end: ?*const fn (?*hk_builder) callconv(.c) void,
    // Opens a region whose activations may be dropped after use and recomputed for the gradient. [graph.7]
    // [describe]
    recompute_begin: ?*const fn (?*hk_builder) callconv(.c) void,
    // Closes the region.
    // [describe]
    recompute_end: ?*const fn (?*hk_builder) callconv(.c) void,
    // Offers a value as a port. An architecture offers values by name, eg: "hidden", "layer.3.hidden",
    // "encoder.hidden"; a head asks for them and offers others, eg: "logits"; an objective asks for both. A name can
    // be offered once.
    // [describe]
    offer: ?*const fn (?*hk_builder, hk_string, hk_value) callconv(.c) void,
    // 1 if the port was offered, else 0.
    // [describe]
    has_port: ?*const fn (?*hk_builder, hk_string) callconv(.c) i32,
    // The value of a port. A port that was not offered is an error that lists the existing ones.
    // [describe]
    ask: ?*const fn (?*hk_builder, hk_string) callconv(.c) hk_value,
    // Adds weight * sum / count to the loss. sum and count are scalars []; count must depend on fields alone (number
    // of labels, rows), so that it is known for all micro-batches in advance: gradient accumulation then equals one
    // large batch. Where count is 0 the term is 0.
    // [describe]
    loss: ?*const fn (?*hk_builder, hk_string, hk_value, hk_value, f64) callconv(.c) void,
    // A number to report, sum / count over all batches of an evaluation, eg: "accuracy". Never differentiated.
    // [describe]
    metric: ?*const fn (?*hk_builder, hk_string, hk_value, hk_value) callconv(.c) void,
    // Sets the plugin's own error as the sticky error. The message is copied.
    // [describe]
    fail: ?*const fn (?*hk_builder, i32, hk_string) callconv(.c) void,
    // HK_OK or the code of the first error; error (may be null) gets its message.
    // [describe]
    status: ?*const fn (?*hk_builder, ?*hk_error) callconv(.c) i32,
    // All positions that positions() has in rows of this length are less than this number, so that tables of
    // positions need no more rows: in decode mode the tokens that the cache holds, otherwise the length, both with
    // the positions of virtual tokens; INT64_MAX if the host does not know it. The field "position_ids" may have
    // others.
    // Since minor 2. [describe]
    position_count: ?*const fn (?*hk_builder, i64) callconv(.c) i64,
};

// ---- entry.h

// 'HKPL'
pub const HK_ENTRY_MAGIC: u32 = 0x4C504B48;

// Identity and interfaces of the host. Owned by the host, valid from init() until deinit() returns.
pub const hk_host = extern struct {
    struct_size: u32,
    abi_major: u32,
    abi_minor: u32,
    // zero
    reserved: u32,
    // eg: "hekla"
    name: hk_string,
    // eg: "0.1.0"
    version: hk_string,
    // The host's interface of that id, eg: HK_GRAPH_INTERFACE, or null if it has none. Owned by the host, valid until
    // deinit() returns.
    // [any-thread]
    get_interface: ?*const fn ([*c]const hk_host, hk_string) callconv(.c) ?*const anyopaque,
};

// Identity and functions of the plugin. Owned by the plugin, constant, valid as long as its code is mapped.
pub const hk_plugin_entry = extern struct {
    // HK_ENTRY_MAGIC
    magic: u32,
    // sizeof(hk_plugin_entry)
    struct_size: u32,
    // HK_ABI_MAJOR
    abi_major: u32,
    // HK_TARGET_ABI_MINOR: the oldest host that can run this plugin
    abi_minor_needed: u32,
    // HK_ABI_MINOR; used in messages only
    abi_minor_built: u32,
    // zero
    reserved: u32,
    // empty; a fork whose ABI differs must set its own, and is refused elsewhere
    build_tag: hk_string,
    // Called before anything else. An error refuses the plugin, and deinit() is not called. [entry.8]
    // [any-thread]
    init: ?*const fn ([*c]const hk_host, ?*hk_error) callconv(.c) i32,
    // Called last. The code stays mapped. [entry.7]
    // [any-thread]
    deinit: ?*const fn () callconv(.c) void,
    // The plugin's implementation of (interface, id), eg: ("hekla.architecture/1", "gpt2"), or null if it has none.
    // Owned by the plugin, valid until deinit() returns. [entry.6]
    // [any-thread]
    get_interface: ?*const fn (hk_string, hk_string) callconv(.c) ?*const anyopaque,
};

// the only export: const hk_plugin_entry* hekla_plugin_entry(void);
pub const HK_ENTRY_SYMBOL = "hekla_plugin_entry";

// ---- drafts.h

// Null where the plugin's manifest names no drafts. [drafts.2]
pub const HK_DRAFTS_INTERFACE = "hekla.drafts/1";
pub const hk_drafts_interface = extern struct {
    // The host's draft of that id, eg: "hekla.adapter.draft/1", or null if it has none or the manifest does not name
    // it. Owned by the host, valid until deinit() returns.
    // [any-thread]
    get: ?*const fn ([*c]const hk_host, hk_string) callconv(.c) ?*const anyopaque,
};

// Asked for with the id "" where the manifest provides a draft.
pub const HK_DRAFT_OFFERS_INTERFACE = "hekla.draft-offers/1";
pub const hk_draft_offers = extern struct {
    // As get_interface() of the entry, for interfaces that are drafts.
    // [any-thread]
    get: ?*const fn (hk_string, hk_string) callconv(.c) ?*const anyopaque,
};

// ---- field.h

// Described by an objective's fields(), its storage filled by collate(), and read by a head's decode().
pub const hk_field = extern struct {
    struct_size: u32,
    // HK_KIND_INT32 or HK_KIND_FLOAT32
    kind: i32,
    name: hk_string,
    rank: u32,
    // zero
    reserved: u32,
    dims: [HK_MAX_RANK]i64,
    // int32_t or float values, row-major, zeroed by the host; null in fields()
    data: ?*anyopaque,
};

// ---- example.h

// Contents of a column.
// ids of a text, without special tokens; parts: its sentences, where they matter
pub const HK_COLUMN_TOKENS: i32 = 0;
// ids of a text that the data has as separate words; parts: the words
pub const HK_COLUMN_WORDS: i32 = 1;
// ids of several texts, one after the other; parts: the texts
pub const HK_COLUMN_CHOICES: i32 = 2;
// numbers of classes: one per row, or one per word
pub const HK_COLUMN_CLASSES: i32 = 3;
// real numbers
pub const HK_COLUMN_NUMBERS: i32 = 4;
// Position of a part of a text: ids are its first token and one past its last, in the nearest column of tokens that
// the objective names before it. The data has the part itself and, in the column of numbers that the objective names
// after it, possibly the character of the text at which it begins; otherwise it is the first such part.
pub const HK_COLUMN_SPANS: i32 = 5;
// ids of a conversation as the chat template writes it, with all of its special tokens; parts: alternately what was
// given and what the assistant writes with the end of its turn, given first. A column that asks for tokens has this
// kind in an example whose data has messages there: ids are those of the prompt up to where the assistant begins, or
// of an answer with the end of its turn, and there are no parts.
pub const HK_COLUMN_MESSAGES: i32 = 6;

// One column of an example. Only the members of its kind are read.
pub const hk_column = extern struct {
    struct_size: u32,
    // HK_COLUMN_*
    kind: i32,
    name: hk_string,
    // all kinds but numbers; -1 is an unknown class
    ids: [*c]const i32,
    numbers: [*c]const f32,
    // number of ids or numbers
    size: u64,
    // start of each part in ids, ascending from 0
    parts: [*c]const u64,
    part_count: u64,
};

// One example. `index` and `epoch`, with the seed of the batch, are the key of every random number for it.
pub const hk_example = extern struct {
    struct_size: u32,
    column_count: u32,
    // elements have the size that their struct_size gives
    columns: [*c]const hk_column,
    // in the corpus
    index: u64,
    // UINT64_MAX in evaluations, so that all evaluations draw the same numbers
    epoch: u64,
    // number of the text that it was cut from; examples of one text are consecutive
    document: u64,
};

// All examples of the split that a batch was drawn from, eg: to find a sentence that does not follow.
pub const hk_corpus = extern struct {
    struct_size: u32,
    // zero
    reserved: u32,
    example_count: u64,
    // for get()
    context: ?*anyopaque,
    // Writes the example of an index below example_count into one whose struct_size is set [abi.5]; valid until the
    // calling collate() returns.
    // [worker]
    get: ?*const fn (?*anyopaque, u64, [*c]hk_example, ?*hk_error) callconv(.c) i32,
};

// Input of collate().
pub const hk_batch = extern struct {
    struct_size: u32,
    // may be less than the number of rows of the fields: the other rows must have no weight in any loss or metric
    example_count: u32,
    // one per row
    examples: [*c]const hk_example,
    // null: only the examples above exist
    corpus: [*c]const hk_corpus,
    seed: u64,
    // number of the step of the training that the batch is for, from 0; in evaluations that of the last step before,
    // and 0 outside of trainings. Where layers are frozen, their results for the rows of a table may be computed
    // once, for a step before the first: there the fields that they read must not depend on it
    step: u64,
};

// ---- architecture.h

pub const HK_ARCHITECTURE_INTERFACE = "hekla.architecture/1";
pub const hk_architecture = extern struct {
    // Reads the configuration (config.json of the reference, completed by the manifest's defaults). config is valid
    // during the call only. [architecture.1]
    // [any-thread]
    create: ?*const fn (?*const hk_config, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // Describes the body and offers its ports. [architecture.2]
    // [describe]
    build: ?*const fn (?*anyopaque, ?*hk_builder, ?*hk_error) callconv(.c) i32,
    // Describes the architecture's own head of that id, eg: "lm", after build() on the same builder, so that the
    // ports exist. Returns HK_NOT_FOUND, with error untouched, if it has no such head; a head plugin of that id is
    // then used.
    // [describe]
    build_head: ?*const fn (?*anyopaque, ?*hk_builder, hk_string, ?*hk_error) callconv(.c) i32,
    // Writes config.json as the reference implementation reads it. [architecture.3]
    // [any-thread]
    write_config: ?*const fn (?*anyopaque, ?*hk_config_writer, ?*hk_error) callconv(.c) i32,
};

// ---- objective.h

// Kinds of examples.
// consecutive tokens of the corpus, tokens_per_example() of them: column "text"
pub const HK_EXAMPLE_WINDOW: i32 = 0;
// consecutive sentences of one text, about as many tokens: column "text"
pub const HK_EXAMPLE_DOCUMENT: i32 = 1;
// a row of a table, with the columns that columns() names
pub const HK_EXAMPLE_ROW: i32 = 2;

// Flags of a column.
// the data may lack the column
pub const HK_COLUMN_OPTIONAL: u32 = 1;
// the target of the prediction; absent where it is not known. The row then has no weight in the loss. [objective.5]
pub const HK_COLUMN_TARGET: u32 = 2;

// A column that an objective reads.
pub const hk_column_need = extern struct {
    struct_size: u32,
    // HK_COLUMN_*
    kind: i32,
    name: hk_string,
    // HK_COLUMN_OPTIONAL, HK_COLUMN_TARGET
    flags: u32,
    // zero
    reserved: u32,
};

pub const HK_OBJECTIVE_INTERFACE = "hekla.objective/1";
pub const hk_objective = extern struct {
    // tokenizer may be null where a graph is only described for given fields, or only columns() is called. It is
    // valid until destroy(); config is valid during the call only. [objective.1]
    // [any-thread]
    create: ?*const fn (?*const hk_config, ?*const hk_tokenizer, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // HK_EXAMPLE_*.
    // [any-thread]
    example_kind: ?*const fn (?*anyopaque) callconv(.c) i32,
    // Windows and documents: how many raw tokens fill one row of the given length, eg: length + 1 for next-token
    // prediction, length - 2 where two special tokens are added.
    // [any-thread]
    tokens_per_example: ?*const fn (?*anyopaque, i64) callconv(.c) i64,
    // Rows: lists the columns by calling `push` once for each, which copies it. Null for windows and documents.
    // [any-thread]
    columns: ?*const fn (?*anyopaque, ?*const fn (?*anyopaque, [*c]const hk_column_need) callconv(.c) void, ?*anyopaque, ?*hk_error) callconv(.c) i32,
    // The length of a row that holds the whole example, in tokens; longer rows waste time. Null: every example fills
    // a row.
    // [worker]
    example_length: ?*const fn (?*anyopaque, [*c]const hk_example) callconv(.c) i64,
    // Lists the fields of a batch with this number of rows and tokens per row, by calling `push` once for each, which
    // copies it. [objective.3]
    // [any-thread]
    fields: ?*const fn (?*anyopaque, i64, i64, ?*const fn (?*anyopaque, [*c]const hk_field) callconv(.c) void, ?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Asks for fields and ports, adds losses and metrics. [objective.4]
    // [describe]
    build: ?*const fn (?*anyopaque, ?*hk_builder, ?*hk_error) callconv(.c) i32,
    // Fills the fields of one batch, in the order of fields(). An example that is longer than a row is truncated in a
    // way that suits the objective. Null if fields cannot be made from examples: such an objective only evaluates
    // given batches. [objective.2] [objective.5]
    // [worker]
    collate: ?*const fn (?*anyopaque, [*c]const hk_batch, [*c]hk_field, u32, ?*hk_error) callconv(.c) i32,
};

// ---- head.h

// One output of the network on the host, row-major.
pub const hk_output = extern struct {
    struct_size: u32,
    rank: u32,
    // eg: "logits"
    port: hk_string,
    values: [*c]const f32,
    dims: [HK_MAX_RANK]i64,
};

// Input of decode(). Owned by the host, valid until decode() returns.
pub const hk_decode_input = extern struct {
    struct_size: u32,
    output_count: u32,
    outputs: [*c]const hk_output,
    // of the batch
    fields: [*c]const hk_field,
    field_count: u32,
    // the number of rows with an example; these are the first rows of the fields
    row_count: u32,
    // may be null
    tokenizer: ?*const hk_tokenizer,
};

pub const HK_HEAD_INTERFACE = "hekla.head/1";
pub const hk_head = extern struct {
    // config is valid during the call only. [head.1]
    // [any-thread]
    create: ?*const fn (?*const hk_config, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // Asks for ports of the body and offers its own, eg: "logits". Not called if the architecture has its own head of
    // this id; decode then reads the ports of that head.
    // [describe]
    build: ?*const fn (?*anyopaque, ?*hk_builder, ?*hk_error) callconv(.c) i32,
    // Lists the ports that decode() reads, by calling `push` once for each. Null if decode is null.
    // [any-thread]
    decode_ports: ?*const fn (?*anyopaque, ?*const fn (?*anyopaque, hk_string) callconv(.c) void, ?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Turns the outputs of a batch into one JSON object per row, by calling `push` once for each of row_count rows in
    // order. push copies the texts. Null if the head's outputs are not decoded. Members that hosts know, and score
    // against the columns of the example:
    // [worker]
    decode: ?*const fn (?*anyopaque, [*c]const hk_decode_input, ?*const fn (?*anyopaque, hk_string) callconv(.c) void, ?*anyopaque, ?*hk_error) callconv(.c) i32,
};

// ---- operation.h

// An input, by position in emit(). [operation.4]
pub const hk_operation_input = extern struct {
    struct_size: u32,
    // HK_KIND_FLOAT (takes float and float32) or HK_KIND_INT32
    kind: i32,
    name: hk_string,
};

// An attribute. [operation.4]
pub const hk_operation_attribute = extern struct {
    struct_size: u32,
    // HK_ATTRIBUTE_*
    type: i32,
    name: hk_string,
    // default value (its name is not read); null: the attribute is required
    fallback: [*c]const hk_attribute,
};

// The constant part of a revision. Elements of an array all have the struct_size of the first.
pub const hk_operation_description = extern struct {
    struct_size: u32,
    // from 1 [operation.3]
    revision: u32,
    input_count: u32,
    attribute_count: u32,
    output_count: u32,
    // 0: the host's choice; else 1 to 256
    local_size: u32,
    inputs: [*c]const hk_operation_input,
    attributes: [*c]const hk_operation_attribute,
    // their names
    outputs: [*c]const hk_string,
    // or empty, with spirv
    glsl: hk_string,
    // source file of the text, for messages; may be empty
    glsl_file: hk_string,
    // line of the text's first line in glsl_file; 0: lines count from 1
    glsl_line: u32,
    // zero
    reserved: u32,
    // or null, with glsl
    spirv: [*c]const u32,
    // words
    spirv_count: u64,
};

// A tensor of one use. In shape() there is no data.
pub const hk_operation_tensor = extern struct {
    struct_size: u32,
    // HK_KIND_*
    kind: i32,
    rank: u32,
    // zero
    reserved: u32,
    dims: [HK_MAX_RANK]i64,
    // row-major; integers are exact. Only an output's may be written to
    data: [*c]f64,
};

// One use: the tensors, and every attribute with its value, in their order.
pub const hk_operation_use = extern struct {
    struct_size: u32,
    input_count: u32,
    attribute_count: u32,
    output_count: u32,
    inputs: [*c]const hk_operation_tensor,
    attributes: [*c]const hk_attribute,
    outputs: [*c]hk_operation_tensor,
};

// Cost of a use. 0 selects the host's default: one invocation per element of the first output (rounded up to
// local_size), one FLOP per element of each output, every tensor read or written once.
pub const hk_operation_cost = extern struct {
    struct_size: u32,
    // zero
    reserved: u32,
    // [operation.5]
    invocations: u64,
    flops: f64,
    bytes: f64,
};

// Values in the builder of the gradient's graph. output_gradients: 0 for int32 outputs, zeros for outputs that are
// not used.
pub const hk_operation_gradient = extern struct {
    struct_size: u32,
    input_count: u32,
    attribute_count: u32,
    output_count: u32,
    inputs: [*c]const hk_value,
    attributes: [*c]const hk_attribute,
    outputs: [*c]const hk_value,
    output_gradients: [*c]const hk_value,
    // written by the plugin: a value of the input's shape, or 0 for no gradient, as after stop_gradient
    input_gradients: [*c]hk_value,
};

// [operation.1] [operation.2]
pub const HK_OPERATION_INTERFACE = "hekla.operation/1";
pub const hk_operation = extern struct {
    // Valid until deinit() returns.
    // [any-thread]
    describe: ?*const fn () callconv(.c) [*c]const hk_operation_description,
    // Writes kind, rank and dims of every output (all are float, rank 0 before), and the cost; or returns an error
    // for the shapes or attributes. Called whenever the operation is emitted, after the host has checked the kinds of
    // inputs and types of attributes.
    // [any-thread]
    shape: ?*const fn ([*c]const hk_operation_use, [*c]hk_operation_cost, ?*hk_error) callconv(.c) i32,
    // Describes the gradients with operations of `builder`, including plugins' own. Null: the operation has no
    // gradient, and its inputs must not depend on trained parameters. [operation.7]
    // [describe]
    gradient: ?*const fn (?*hk_builder, [*c]const hk_operation_gradient, ?*hk_error) callconv(.c) i32,
    // Computes the outputs, whose data is zeros at first. The kernel is checked against it.
    // [any-thread]
    reference: ?*const fn ([*c]const hk_operation_use, ?*hk_error) callconv(.c) i32,
};

// ---- adapter.h

// Kinds of sites.
// a linear layer: y = x W^T + bias
pub const HK_SITE_LINEAR: i32 = 0;
// an embedding: y = W[x]
pub const HK_SITE_EMBEDDING: i32 = 1;
// a layer norm or RMS norm with a gain: y = normalized(x) W + bias
pub const HK_SITE_NORM: i32 = 2;
// the end of a block's part: y, what the part computes, is added to the residual stream x
pub const HK_SITE_RESIDUAL: i32 = 3;
// keys x and values y of attention, [B, out, tokens, in]; of an encoder-decoder, the decoder's self-attention; asked
// for only if there are virtual tokens
pub const HK_SITE_ATTENTION: i32 = 4;

// Flags of a site.
// it belongs to a head, not to the body
pub const HK_SITE_OF_HEAD: u32 = 1;
// residual: the part is attention; without it, a feed-forward network
pub const HK_SITE_OF_ATTENTION: u32 = 2;
// residual: the part is attention to an encoder's states
pub const HK_SITE_OF_CROSS: u32 = 4;
// embedding: its ids are the batch's input_ids
pub const HK_SITE_OF_TOKENS: u32 = 8;
// attention: of the decoder of an encoder-decoder
pub const HK_SITE_OF_DECODER: u32 = 16;

// What an adapter answers at a site.
// y is unchanged
pub const HK_ANSWER_NONE: i32 = 0;
// the value is added to y
pub const HK_ANSWER_DELTA: i32 = 1;
// the value replaces y
pub const HK_ANSWER_VALUE: i32 = 2;
// residual: the value replaces the sum of x and y, and the norm that follows it in the block
pub const HK_ANSWER_RESULT: i32 = 3;
// what virtual tokens have in place of what the body computes: embedding of tokens, or a norm of values [B, T, out]:
// value [count, out]; attention: keys [out, count, in] as value, values as second
pub const HK_ANSWER_VIRTUAL: i32 = 4;

// Flags of virtual tokens.
// heads and objective do not see them: the host cuts them from the body's ports that have one element per token
pub const HK_VIRTUAL_HIDDEN: u32 = 1;
// they take no positions: the row's own tokens begin at position 0; without it, at position count
pub const HK_VIRTUAL_WITHOUT_POSITIONS: u32 = 2;

// Parameters of a site that are trained with the adapter.
pub const HK_TRAINS_WEIGHT: u32 = 1;
pub const HK_TRAINS_BIAS: u32 = 2;

// Flags of initial(), with those of parameters.
// it is saved and not trained
pub const HK_INITIAL_FIXED: u32 = 2;

// A place where body or head use a parameter W [out, in] (an embedding: [in, out], in is the number of rows; a norm:
// [out]). The host finds residual sites in graphs where a linear layer (with dropout, scales or a norm after it, if
// there are any) is added to values [B, T, out] on which it depends.
pub const hk_adapter_site = extern struct {
    struct_size: u32,
    // HK_SITE_*
    kind: i32,
    // the path of the module in the reference implementation, eg: "h.0.attn.c_attn"; a head that is tied to the
    // embedding has a name of its own, eg: "lm_head"; residual: that of the part's last linear layer, eg:
    // "h.0.attn.c_proj"; attention: "attention.0" and so on, in the order of description
    name: hk_string,
    // the parameter that it uses, eg: "h.0.attn.c_attn.weight"; residual and attention: empty
    parameter: hk_string,
    // the parameter of its bias, or empty
    bias: hk_string,
    // norm and residual: as out; attention: width of a head
    in: i64,
    // attention: number of heads of keys and values
    out: i64,
    // attention: its number, from 0; otherwise 0
    index: i64,
    // HK_SITE_OF_*
    flags: u32,
    // zero
    reserved: u32,
};

// The values of a site.
pub const hk_site_values = extern struct {
    struct_size: u32,
    // [..., in] float; an embedding's ids [...] int32; residual: the stream before the part
    x: hk_value,
    // [..., out] float, bias included
    y: hk_value,
    // W [out, in], transposed if the file has it otherwise (GPT-2); an embedding's table [in, out]; a norm's gain
    // [out]; residual: 0
    weight: hk_value,
    // [out], or 0
    bias: hk_value,
    // residual: x + y after the norm that follows in the block (BERT), or x + y if none does (GPT-2); otherwise 0
    normed: hk_value,
    // zero
    reserved: u32,
};

// What an adapter answers at a site; zeros before.
pub const hk_site_answer = extern struct {
    // set by the host
    struct_size: u32,
    // HK_ANSWER_*
    kind: i32,
    // [..., out] float [adapter.2]
    value: hk_value,
    // HK_ANSWER_VIRTUAL at attention only
    second: hk_value,
    // what the answer is computed from, for combiners that compare adapters by it; 0: y
    input: hk_value,
    // zero
    reserved: u32,
    // A [r, in] if value is a number times (x A^T) B^T at a linear layer, for combiners that compare adapters by
    // their matrices; otherwise 0
    a: hk_value,
    // B [out, r], or 0
    b: hk_value,
};

// What an adapter needs of the host besides hekla.config/1 and hekla.graph/1.
pub const HK_ADAPTER_HOST_INTERFACE = "hekla.adapter-host/1";
pub const hk_adapter_host = extern struct {
    // The name of a member of an object, in the order of names; index is less than get_count(). The text is valid as
    // long as the config. HK_NOT_FOUND: the key is not an object, or has fewer members.
    // Since minor 1. [describe]
    member: ?*const fn (?*const hk_config, hk_string, u64, [*c]hk_string, ?*hk_error) callconv(.c) i32,
    // Writes 1 if the regular expression (PCRE2's syntax) matches the whole text, else 0. HK_INVALID_ARGUMENT: it is
    // not an expression, or takes too many steps.
    // Since minor 1. [any-thread]
    matches: ?*const fn (hk_string, hk_string, [*c]i32, ?*hk_error) callconv(.c) i32,
    // A parameter of the adapter, as parameter() of hekla.graph/1, whose initial values are those of `value`,
    // computed in float64 from parameters of the body, for a combiner also from those of adapters that folders have.
    // `value` is float and depends on no field of the batch. flags: HK_PARAMETER_*, HK_INITIAL_*. Returns 0 after an
    // error.
    // Since minor 1. [describe]
    initial: ?*const fn (?*hk_builder, hk_string, hk_value, u32) callconv(.c) hk_value,
};

pub const HK_ADAPTER_INTERFACE = "hekla.adapter/1";
pub const hk_adapter = extern struct {
    // Reads the configuration (a recipe's [adapter], completed by the manifest's defaults). config is valid during
    // the call only. [adapter.1]
    // Since minor 1. [any-thread]
    create: ?*const fn (?*const hk_config, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // Since minor 1. [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // Writes 1 if the adapter acts at this site. *wanted is 0 before. [adapter.4]
    // Since minor 1. [any-thread]
    wants: ?*const fn (?*anyopaque, [*c]const hk_adapter_site, [*c]i32, ?*hk_error) callconv(.c) i32,
    // Writes which of the site's own parameters are trained and saved with the adapter: HK_TRAINS_WEIGHT,
    // HK_TRAINS_BIAS. *trained is 0 before. Null: none. [adapter.4]
    // Since minor 1. [any-thread]
    trains: ?*const fn (?*anyopaque, [*c]const hk_adapter_site, [*c]u32, ?*hk_error) callconv(.c) i32,
    // Writes how many virtual tokens begin each row, and HK_VIRTUAL_* flags. In an encoder-decoder, hidden ones begin
    // the decoder's rows, others the encoder's. Null: none. With virtual tokens, the names of the adapter's
    // parameters begin with "adapter." alone, without the site's name. [adapter.4]
    // Since minor 1. [any-thread]
    virtual_tokens: ?*const fn (?*anyopaque, [*c]i64, [*c]u32, ?*hk_error) callconv(.c) i32,
    // Describes the answer at a site that it wants. The host puts "adapter.SITE." before the names of the adapter's
    // parameters: "lora_A.weight" becomes "adapter.h.0.attn.c_attn.lora_A.weight". A site that is described several
    // times (layers that share parameters) has the same parameters each time. [adapter.2] [adapter.3] [adapter.4]
    // [adapter.5]
    // Since minor 1. [describe]
    adapt: ?*const fn (?*anyopaque, ?*hk_builder, [*c]const hk_adapter_site, [*c]const hk_site_values, [*c]hk_site_answer, ?*hk_error) callconv(.c) i32,
    // Describes a weight and a bias with which the layer alone computes what it computes with the adapter, from the
    // weight and bias in `values`, whose x, y and normed are 0. *weight and *bias are the given ones before. Null:
    // the adapter cannot be merged. [adapter.2] [adapter.3] [adapter.6]
    // Since minor 1. [describe]
    merge: ?*const fn (?*anyopaque, ?*hk_builder, [*c]const hk_adapter_site, [*c]const hk_site_values, [*c]hk_value, [*c]hk_value, ?*hk_error) callconv(.c) i32,
    // Writes the adapter_config.json of PEFT. Null: PEFT has no such adapter.
    // Since minor 1. [any-thread]
    write_config: ?*const fn (?*anyopaque, ?*hk_config_writer, ?*hk_error) callconv(.c) i32,
};

// ---- combiner.h

// An adapter, or a combination, at a site.
pub const hk_branch = extern struct {
    struct_size: u32,
    // zero
    reserved: u32,
    // of the adapter, eg: "sst2", or the text of the combination
    name: hk_string,
    // [..., out] float, which the branch alone would add to y; 0: it does not act at this site
    delta: hk_value,
    // [..., width] float, from which the branch computed delta; 0 if delta is 0
    input: hk_value,
    // A [r, in] if delta is a number times (input A^T) B^T, otherwise 0
    a: hk_value,
    // B [out, r], or 0
    b: hk_value,
};

// What a combiner gives; zeros before.
pub const hk_combined = extern struct {
    // set by the host
    struct_size: u32,
    // zero
    reserved: u32,
    // [..., out] float, which is added to y [combiner.2]
    delta: hk_value,
    // [..., count] float: the share of each branch, which the host offers as the port "routing.SITE"
    // ("routing.SITE.residual"); 0: none
    weights: hk_value,
    // float scalar, which is added to the loss in training; 0: none
    loss: hk_value,
};

pub const HK_COMBINER_INTERFACE = "hekla.combiner/1";
pub const hk_combiner = extern struct {
    // Reads the configuration (a recipe's [combine], completed by the manifest's defaults). config is valid during
    // the call only. [combiner.1]
    // Since minor 1. [any-thread]
    create: ?*const fn (?*const hk_config, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // Since minor 1. [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // Describes the combination of `count` branches, in the order of the recipe, at least one of which acts at this
    // site. values.weight and values.bias are 0. The host puts "adapter.combine.SITE." before the names of the
    // combiner's parameters, and "adapter.combine.SITE.residual." at residual sites, which have the name of a linear
    // layer. [combiner.2] [combiner.3] [combiner.4]
    // Since minor 1. [describe]
    combine: ?*const fn (?*anyopaque, ?*hk_builder, [*c]const hk_adapter_site, [*c]const hk_site_values, [*c]const hk_branch, u32, [*c]hk_combined, ?*hk_error) callconv(.c) i32,
};

// ---- optimizer.h

// Flags of a parameter.
// weight decay applies to it; without it (norms, biases) it must not decay
pub const HK_OPTIMIZED_DECAYS: u32 = 1;
// it is the table of an embedding, whose rows are looked up
pub const HK_OPTIMIZED_TABLE: u32 = 2;

// A parameter that is updated.
pub const hk_optimized = extern struct {
    struct_size: u32,
    rank: u32,
    dims: [HK_MAX_RANK]i64,
    // HK_OPTIMIZED_*
    flags: u32,
    // zero
    reserved: u32,
};

// What an update is computed from.
pub const hk_update_values = extern struct {
    struct_size: u32,
    // float, before the step
    parameter: hk_value,
    // float, of the parameter's shape: the mean over the batch of the step, clipped
    gradient: hk_value,
    // float scalar: of this step, with the parameter's own factor
    learning_rate: hk_value,
    // float scalar: the number of this update, from 1; skipped steps do not count
    step: hk_value,
    // zero
    reserved: u32,
};

pub const HK_OPTIMIZER_INTERFACE = "hekla.optimizer/1";
pub const hk_optimizer = extern struct {
    // Reads the configuration (a recipe's [optimizer], completed by the manifest's defaults). config is valid during
    // the call only. [optimizer.1]
    // Since minor 1. [any-thread]
    create: ?*const fn (?*const hk_config, [*c]?*anyopaque, ?*hk_error) callconv(.c) i32,
    // Frees what create() made.
    // Since minor 1. [any-thread]
    destroy: ?*const fn (?*anyopaque) callconv(.c) void,
    // Writes 1 if it updates such a parameter, 0 if AdamW should. *taken is 1 before. Null: it takes every parameter.
    // [optimizer.5]
    // Since minor 1. [any-thread]
    takes: ?*const fn (?*anyopaque, [*c]const hk_optimized, [*c]i32, ?*hk_error) callconv(.c) i32,
    // Describes the update, and writes the new value of the parameter. *updated is 0 before. [optimizer.2]
    // [optimizer.3] [optimizer.4] [optimizer.5] [optimizer.6]
    // Since minor 1. [describe]
    build: ?*const fn (?*anyopaque, ?*hk_builder, [*c]const hk_optimized, [*c]const hk_update_values, [*c]hk_value, ?*hk_error) callconv(.c) i32,
};
