// A C layer over the plugin ABI: the host's interfaces in one place, printf-style messages, examples and fields by
// name, and the one export. C11, or C++17 without exceptions or the standard library; header only; one file of the
// plugin has HEKLA_PLUGIN at its end.
//
// The operations are hk_NAME(hk.graph, builder, ...) of operations.h. The first error is kept: afterwards every value
// is 0 and every call does nothing, so a build function needs no checks and ends with `return hk_done(builder, error)`,
// which reports the file and line of the first call that failed.
#ifndef HEKLA_PLUGIN_SDK_H
#define HEKLA_PLUGIN_SDK_H

#include "hekla/plugin/plugin.h"

#include <stdarg.h>
#include <stdio.h>

// The host's interfaces, set before anything else runs and constant afterwards. tokenizer and log may be null.
typedef struct hk_interfaces {
    const hk_host* host;
    const hk_error_interface* error;
    const hk_config_interface* config;
    const hk_graph_interface* graph;
    const hk_tokenizer_interface* tokenizer;
    const hk_log_interface* log;
} hk_interfaces;
extern hk_interfaces hk; // HEKLA_PLUGIN defines it

// The place of the first call of this thread that failed since one succeeded; line 0: none.
typedef struct hk_place {
    const char* file;
    int line;
} hk_place;
#if defined(__MINGW32__) && !defined(__clang__)
// GCC's thread-locals on Windows need a DLL of its own (libgcc), and a plugin should need none: errors have no place.
#define HK_HAS_PLACES 0
#define HK_DEFINE_FIRST_FAILURE extern int hk_no_first_failure
#else
#define HK_HAS_PLACES 1
#ifdef __cplusplus
#define HK_THREAD_LOCAL thread_local
#else
#define HK_THREAD_LOCAL _Thread_local
#endif
#define HK_DEFINE_FIRST_FAILURE HK_THREAD_LOCAL hk_place hk_first_failure
extern HK_THREAD_LOCAL hk_place hk_first_failure; // HEKLA_PLUGIN defines it
#endif

// Label of a position that is not scored.
#define HK_IGNORED (-100)

static inline int hk_same(hk_string a, const char* b) {
    return a.size == strlen(b) && (a.size == 0 || memcmp(a.data, b, (size_t)a.size) == 0);
}

// Fills an error like printf and returns the code: return hk_fail(error, HK_INVALID_ARGUMENT, "...", ...).
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline int32_t
hk_fail(hk_error* error, int32_t code, const char* format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    hk_string text;
    text.data = message;
    text.size = size < 0 ? 0 : (size_t)size < sizeof message ? (uint64_t)size : sizeof message - 1;
    hk.error->set(error, code, text);
    return code;
}

// ---- configuration: HK_OK, or a code with the error set

static inline int32_t hk_read_integer(const hk_config* config, const char* key, int64_t* out, hk_error* error) {
    return hk.config->get_integer(config, hk_text(key), out, error);
}
static inline int32_t hk_read_real(const hk_config* config, const char* key, double* out, hk_error* error) {
    return hk.config->get_real(config, hk_text(key), out, error);
}
static inline int32_t hk_read_boolean(const hk_config* config, const char* key, int32_t* out, hk_error* error) {
    return hk.config->get_boolean(config, hk_text(key), out, error);
}
#if HK_TARGET_ABI_MINOR >= 2
// Returns 1 if the key exists and is null, else 0.
static inline int32_t hk_is_null(const hk_config* config, const char* key) {
    return hk.config->is_null(config, hk_text(key));
}
#endif

// ---- graphs

// Returns HK_OK, or the code of the graph's first error, whose message the host has.
static inline int32_t hk_status(hk_builder* builder) { return hk.graph->status(builder, NULL); }

// Returns hk_status(), with the place of the call that failed in `error`, for the end of a build function.
static inline int32_t hk_done(hk_builder* builder, hk_error* error) {
    const int32_t code = hk_status(builder);
#if HK_HAS_PLACES
    const hk_place place = hk_first_failure;
    hk_first_failure.line = 0;
    if (code == HK_OK || place.line == 0) return code;
    const char* name = place.file;
    for (const char* at = place.file; *at != '\0'; ++at)
        if (*at == '/' || *at == '\\') name = at + 1;
    return hk_fail(error, code, "%s:%d", name, place.line);
#else
    (void)error;
    return code;
#endif
}

// Notes where a call failed: with the value 0, or with a code other than HK_OK.
static inline void hk_note(int failed, const char* file, int line) {
#if HK_HAS_PLACES
    if (!failed) {
        hk_first_failure.line = 0;
    } else if (hk_first_failure.line == 0) {
        hk_first_failure.file = file;
        hk_first_failure.line = line;
    }
#else
    (void)failed, (void)file, (void)line;
#endif
}
static inline hk_value hk_located(hk_value value, const char* file, int line) {
    hk_note(value == 0, file, line);
    return value;
}
static inline int32_t hk_located_code(int32_t code, const char* file, int line) {
    hk_note(code != HK_OK, file, line);
    return code;
}

// Returns one dimension of a value; the axis may count from the end. 1 after an error, so that loops and divisions are
// safe.
static inline int64_t hk_dim(hk_builder* builder, hk_value value, int axis) {
    int64_t dims[HK_MAX_RANK];
    uint32_t rank = 0;
    if (hk.graph->shape(builder, value, dims, &rank) < 0) return 1;
    const int at = axis < 0 ? axis + (int)rank : axis;
    return at >= 0 && at < (int)rank ? dims[at] : 1;
}

// Returns a number [] of the kind of a value.
static inline hk_value hk_like(hk_builder* builder, hk_value value, double number) {
    int64_t dims[HK_MAX_RANK];
    uint32_t rank = 0;
    const int32_t kind = hk.graph->shape(builder, value, dims, &rank);
    return hk.graph->fill(builder, kind < 0 ? HK_KIND_FLOAT : kind, NULL, 0, number);
}

// Returns the sum over all axes.
static inline hk_value hk_sum_all(hk_builder* builder, hk_value value) {
    int64_t axes[HK_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    int64_t dims[HK_MAX_RANK];
    uint32_t rank = 0;
    if (hk.graph->shape(builder, value, dims, &rank) < 0) return 0;
    return hk_sum(hk.graph, builder, value, axes, rank, NULL);
}

// Returns parameters initialized with a normal distribution, zeros, or ones.
static inline hk_value hk_normal(hk_builder* builder, const char* name, const int64_t* dims, uint32_t rank,
                                 double deviation) {
    return hk.graph->parameter(builder, hk_text(name), dims, rank, HK_INITIALIZE_NORMAL, 0.0, deviation, 0);
}
static inline hk_value hk_constant(hk_builder* builder, const char* name, const int64_t* dims, uint32_t rank,
                                   double value) {
    return hk.graph->parameter(builder, hk_text(name), dims, rank, HK_INITIALIZE_CONSTANT, value, 0.0, 0);
}

// Applies NAME.weight, and NAME.bias if `bias` is set: x [..., in] -> [..., out].
static inline hk_value hk_linear_layer(hk_builder* builder, hk_value x, const char* name, int64_t out, int bias) {
    char key[256];
    const int64_t dims[2] = {out, hk_dim(builder, x, -1)};
    hk_linear_options options = hk_linear_defaults();
    snprintf(key, sizeof key, "%s.weight", name);
    const hk_value weight = hk_normal(builder, key, dims, 2, 0.02);
    snprintf(key, sizeof key, "%s.bias", name);
    if (bias) options.bias = hk_constant(builder, key, dims, 1, 0.0);
    return hk_linear(hk.graph, builder, x, weight, &options);
}

// Applies NAME.weight over the last axis.
static inline hk_value hk_rms_norm_layer(hk_builder* builder, hk_value x, const char* name, double epsilon) {
    char key[256];
    const int64_t width = hk_dim(builder, x, -1);
    hk_rms_norm_options options = hk_rms_norm_defaults();
    snprintf(key, sizeof key, "%s.weight", name);
    options.gain = hk_constant(builder, key, &width, 1, 1.0);
    options.epsilon = epsilon;
    return hk_rms_norm(hk.graph, builder, x, &options);
}

// From here on every call of an operation, and of the functions above, carries its place.
#include "located_operations.h"
#define hk_like(...) hk_located(hk_like(__VA_ARGS__), __FILE__, __LINE__)
#define hk_sum_all(...) hk_located(hk_sum_all(__VA_ARGS__), __FILE__, __LINE__)
#define hk_normal(...) hk_located(hk_normal(__VA_ARGS__), __FILE__, __LINE__)
#define hk_constant(...) hk_located(hk_constant(__VA_ARGS__), __FILE__, __LINE__)
#define hk_linear_layer(...) hk_located(hk_linear_layer(__VA_ARGS__), __FILE__, __LINE__)
#define hk_rms_norm_layer(...) hk_located(hk_rms_norm_layer(__VA_ARGS__), __FILE__, __LINE__)
// Fields and ports, which may be missing.
#define hk_input(builder, field) hk_located(hk.graph->input(builder, hk_text(field)), __FILE__, __LINE__)
#define hk_ask(builder, port) hk_located(hk.graph->ask(builder, hk_text(port)), __FILE__, __LINE__)

// ---- examples, fields and outputs by name; null if there is none

// Returns element i of an array of the host. Structs of a newer host may be longer than in these headers, so the first
// element contains their size. [abi.5]
static inline const void* hk_element(const void* first, uint32_t i) {
    uint32_t size;
    memcpy(&size, first, sizeof size); // every data struct begins with its struct_size
    return (const char*)first + (size_t)i * size;
}
static inline const hk_example* hk_example_at(const hk_batch* batch, uint32_t row) {
    return (const hk_example*)hk_element(batch->examples, row);
}
static inline const hk_column* hk_find_column(const hk_example* example, const char* name) {
    for (uint32_t i = 0; i < example->column_count; ++i) {
        const hk_column* column = (const hk_column*)hk_element(example->columns, i);
        if (hk_same(column->name, name)) return column;
    }
    return NULL;
}
static inline const hk_field* hk_find_field(const hk_field* fields, uint32_t count, const char* name, int32_t kind) {
    for (uint32_t i = 0; i < count; ++i) {
        const hk_field* field = (const hk_field*)hk_element(fields, i);
        if (hk_same(field->name, name) && field->kind == kind) return field;
    }
    return NULL;
}
static inline const hk_output* hk_find_output(const hk_decode_input* input, const char* port) {
    for (uint32_t i = 0; i < input->output_count; ++i) {
        const hk_output* output = (const hk_output*)hk_element(input->outputs, i);
        if (hk_same(output->port, port)) return output;
    }
    return NULL;
}

// Returns an int32 field [batch, length], for fields() of an objective.
static inline hk_field hk_int_field(const char* name, int64_t batch, int64_t length) {
    hk_field field;
    memset(&field, 0, sizeof field);
    field.struct_size = (uint32_t)sizeof field;
    field.kind = HK_KIND_INT32;
    field.name = hk_text(name);
    field.rank = 2;
    field.dims[0] = batch;
    field.dims[1] = length;
    return field;
}

// ---- the plugin's own operations

// A hk_string of a literal, or of an array of char, for constant initializers: .glsl = HK_TEXT("...")
#define HK_TEXT(literal)                                                                                               \
    { literal, sizeof(literal) - 1 }

// Emits a plugin's own operation, of this or another plugin, by name and revision; returns its first output.
static inline hk_value hk_own(hk_builder* builder, const char* name, uint32_t revision, const hk_value* inputs,
                              uint32_t input_count, const hk_attribute* attributes, uint32_t attribute_count) {
    hk_value output = 0;
    hk.graph->emit(builder, hk_text(name), revision, inputs, input_count, attributes, attribute_count, &output, 1);
    return output;
}

static inline const hk_operation_tensor* hk_use_input(const hk_operation_use* use, uint32_t i) {
    return (const hk_operation_tensor*)hk_element(use->inputs, i);
}
static inline hk_operation_tensor* hk_use_output(const hk_operation_use* use, uint32_t i) {
    return (hk_operation_tensor*)((char*)use->outputs + (size_t)i * use->outputs->struct_size);
}
// Returns attribute i of a use, in the order of the description.
static inline const hk_attribute* hk_attribute_at(const hk_attribute* attributes, uint32_t i) {
    return (const hk_attribute*)hk_element(attributes, i);
}
static inline int64_t hk_elements(const hk_operation_tensor* tensor) {
    int64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; ++d) count *= tensor->dims[d];
    return count;
}
static inline int hk_same_shape(const hk_operation_tensor* a, const hk_operation_tensor* b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}
// In shape(): the output is a float tensor with the shape of another tensor.
static inline void hk_give_shape_of(hk_operation_tensor* output, const hk_operation_tensor* like) {
    output->kind = HK_KIND_FLOAT;
    output->rank = like->rank;
    memcpy(output->dims, like->dims, sizeof output->dims);
}

// ---- the entry

#if defined(__cplusplus)
#define HK_EXTERN_C extern "C"
#else
#define HK_EXTERN_C
#endif

// An interface that a plugin library provides: {HK_OBJECTIVE_INTERFACE, "focal", &table}.
typedef struct hk_offered {
    const char* interface_id;
    const char* id;
    const void* table;
} hk_offered;

static inline int32_t hk_take_interfaces(hk_interfaces* all, const hk_host* host, hk_error* error) {
    if (all->host != NULL) { // [entry.8]
        const hk_error_interface* set =
            (const hk_error_interface*)host->get_interface(host, hk_text(HK_ERROR_INTERFACE));
        if (set != NULL)
            set->set(error, HK_FAILED_PRECONDITION, hk_text("the plugin serves another host in this process already"));
        return HK_FAILED_PRECONDITION;
    }
    all->host = host;
    all->error = (const hk_error_interface*)host->get_interface(host, hk_text(HK_ERROR_INTERFACE));
    all->config = (const hk_config_interface*)host->get_interface(host, hk_text(HK_CONFIG_INTERFACE));
    all->graph = (const hk_graph_interface*)host->get_interface(host, hk_text(HK_GRAPH_INTERFACE));
    all->tokenizer = (const hk_tokenizer_interface*)host->get_interface(host, hk_text(HK_TOKENIZER_INTERFACE));
    all->log = (const hk_log_interface*)host->get_interface(host, hk_text(HK_LOG_INTERFACE));
    if (all->error != NULL && all->config != NULL && all->graph != NULL) return HK_OK;
    all->host = NULL;
    if (all->error == NULL) return HK_UNSUPPORTED;
    return hk_fail(error, HK_UNSUPPORTED, "the host lacks %s or %s", HK_CONFIG_INTERFACE, HK_GRAPH_INTERFACE);
}

// HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "focal", &focal}, ...): the one export.
#define HEKLA_PLUGIN(...)                                                                                              \
    hk_interfaces hk;                                                                                                  \
    HK_DEFINE_FIRST_FAILURE;                                                                                           \
    static int32_t HK_ABI hk_plugin_init(const hk_host* host, hk_error* error) {                                       \
        return hk_take_interfaces(&hk, host, error);                                                                   \
    }                                                                                                                  \
    static void HK_ABI hk_plugin_deinit(void) { hk.host = NULL; }                                                      \
    static const void* HK_ABI hk_plugin_get(hk_string interface_id, hk_string id) {                                    \
        static const hk_offered offers[] = {__VA_ARGS__};                                                              \
        for (size_t i = 0; i < sizeof offers / sizeof offers[0]; ++i)                                                  \
            if (hk_same(interface_id, offers[i].interface_id) && hk_same(id, offers[i].id)) return offers[i].table;    \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    HK_EXTERN_C HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void);                                             \
    HK_EXTERN_C HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void) {                                            \
        static const hk_plugin_entry entry = {HK_ENTRY_MAGIC,   (uint32_t)sizeof(hk_plugin_entry),                     \
                                              HK_ABI_MAJOR,     HK_TARGET_ABI_MINOR,                                   \
                                              HK_ABI_MINOR,     0,                                                     \
                                              {NULL, 0},        hk_plugin_init,                                        \
                                              hk_plugin_deinit, hk_plugin_get};                                        \
        return &entry;                                                                                                 \
    }                                                                                                                  \
    typedef int hk_needs_a_semicolon

#endif
