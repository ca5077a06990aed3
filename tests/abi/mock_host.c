// A minimal host of one minor version of the plugin ABI, in C: loads a plugin, requests one of its interfaces, and
// calls all of its functions from create to destroy. Its tables and structs end where those of that version did, so a
// plugin that uses newer members reads beyond them. Compiled with HK_TARGET_ABI_MINOR=N; for Linux, and for Windows
// with mingw.
//   mock_host PLUGIN [architecture | objective | head | operation] ID
#include "hekla/plugin/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

struct hk_error {
    int32_t code;
    char message[512];
};
struct hk_config {
    int32_t complete; // 0: every key is missing
};
struct hk_config_writer {
    int32_t written;
};
struct hk_builder {
    int32_t operations, scopes, hidden, logits, losses;
    int32_t every_port; // a port exists under any name
    hk_value last;
};

static void fail(const char* what, const char* why) {
    fprintf(stderr, "mock host %d.%d: %s%s%s\n", HK_ABI_MAJOR, HK_TARGET_ABI_MINOR, what, *why ? ": " : "", why);
    exit(1);
}
static void need(int holds, const char* what) {
    if (!holds) fail(what, "");
}
static int same(hk_string a, const char* b) { return a.size == strlen(b) && memcmp(a.data, b, (size_t)a.size) == 0; }

static void HK_ABI error_set(hk_error* error, int32_t code, hk_string message) {
    if (error == NULL) return;
    error->code = code;
    const size_t size = message.size < sizeof error->message - 1 ? (size_t)message.size : sizeof error->message - 1;
    memcpy(error->message, message.data, size);
    error->message[size] = '\0';
}
static const hk_error_interface errors = {error_set};

static int32_t HK_ABI has(const hk_config* c, hk_string key) { return (void)key, c->complete; }
static int32_t missing(const hk_config* c, hk_string key, hk_error* error) {
    if (c->complete) return HK_OK;
    error_set(error, HK_NOT_FOUND, key);
    return HK_NOT_FOUND;
}
static int32_t HK_ABI get_integer(const hk_config* c, hk_string key, int64_t* out, hk_error* error) {
    const int32_t code = missing(c, key, error);
    if (code == HK_OK) *out = 8;
    return code;
}
static int32_t HK_ABI get_real(const hk_config* c, hk_string key, double* out, hk_error* error) {
    const int32_t code = missing(c, key, error);
    if (code == HK_OK) *out = 0.5;
    return code;
}
static int32_t HK_ABI get_boolean(const hk_config* c, hk_string key, int32_t* out, hk_error* error) {
    const int32_t code = missing(c, key, error);
    if (code == HK_OK) *out = 1;
    return code;
}
static int32_t HK_ABI get_text(const hk_config* c, hk_string key, hk_string* out, hk_error* error) {
    const int32_t code = missing(c, key, error);
    if (code == HK_OK) *out = hk_text("");
    return code;
}
static int32_t HK_ABI get_count(const hk_config* c, hk_string key, uint64_t* out, hk_error* error) {
    const int32_t code = missing(c, key, error);
    if (code == HK_OK) *out = 0;
    return code;
}
static int32_t wrote(hk_config_writer* w) {
    ++w->written;
    return HK_OK;
}
static int32_t HK_ABI set_integer(hk_config_writer* w, hk_string k, int64_t v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
static int32_t HK_ABI set_real(hk_config_writer* w, hk_string k, double v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
static int32_t HK_ABI set_boolean(hk_config_writer* w, hk_string k, int32_t v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
static int32_t HK_ABI set_text(hk_config_writer* w, hk_string k, hk_string v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
static int32_t HK_ABI set_null(hk_config_writer* w, hk_string k, hk_error* e) { return (void)k, (void)e, wrote(w); }
static int32_t HK_ABI set_array(hk_config_writer* w, hk_string k, uint64_t v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
#if HK_TARGET_ABI_MINOR >= 2
static int32_t HK_ABI is_null(const hk_config* c, hk_string k) { return (void)c, (void)k, 0; }
#endif
static const hk_config_interface configs = {
    .has = has, .get_integer = get_integer, .get_real = get_real, .get_boolean = get_boolean, .get_text = get_text,
    .get_count = get_count, .set_integer = set_integer, .set_real = set_real, .set_boolean = set_boolean,
    .set_text = set_text, .set_null = set_null, .set_array = set_array,
#if HK_TARGET_ABI_MINOR >= 2
    .is_null = is_null,
#endif
};

static hk_value made(hk_builder* b) { return ++b->last; }
static int32_t HK_ABI mode(hk_builder* b) { return (void)b, HK_MODE_TRAIN; }
static int32_t HK_ABI has_field(hk_builder* b, hk_string field) { return (void)b, same(field, "input_ids") || same(field, "labels"); }
static hk_value HK_ABI input(hk_builder* b, hk_string field) { return (void)field, made(b); }
static hk_value HK_ABI parameter(hk_builder* b, hk_string n, const int64_t* d, uint32_t r, int32_t i, double x, double y, uint32_t f) {
    (void)i, (void)x, (void)y, (void)f;
    return n.size > 0 && d != NULL && r <= HK_MAX_RANK ? made(b) : 0;
}
static hk_value HK_ABI buffer(hk_builder* b, hk_string n, int32_t k, const int64_t* d, uint32_t r, const double* v) {
    return (void)n, (void)k, (void)d, (void)r, (void)v, made(b);
}
static hk_value HK_ABI constant(hk_builder* b, int32_t k, const int64_t* d, uint32_t r, const double* v) {
    return (void)k, (void)d, (void)r, (void)v, made(b);
}
static hk_value HK_ABI fill(hk_builder* b, int32_t k, const int64_t* d, uint32_t r, double v) { return (void)k, (void)d, (void)r, (void)v, made(b); }
static hk_value HK_ABI iota(hk_builder* b, int64_t l, int64_t s, int64_t t) { return (void)l, (void)s, (void)t, made(b); }
static hk_value HK_ABI positions(hk_builder* b, int64_t n, int64_t l) { return (void)n, (void)l, made(b); }
static hk_value HK_ABI step_scalar(hk_builder* b, hk_string n, double v) { return (void)n, (void)v, made(b); }
static int32_t HK_ABI emit(hk_builder* b, hk_string name, uint32_t revision, const hk_value* inputs, uint32_t input_count,
                           const hk_attribute* attributes, uint32_t attribute_count, hk_value* outputs, uint32_t output_count) {
    need(name.size > 0 && revision >= 1, "emit without a name or revision");
    for (uint32_t i = 0; i < input_count; ++i) need(inputs[i] <= b->last, "emit of a value that was never made");
    // A plugin built for an older minor may have shorter structs, all of the same size.
    for (uint32_t i = 0; i < attribute_count; ++i) {
        const hk_attribute* a = (const hk_attribute*)((const char*)attributes + (size_t)i * attributes->struct_size);
        need(a->struct_size == attributes->struct_size && a->struct_size <= sizeof(hk_attribute), "an attribute's struct_size");
        need(a->name.size > 0, "an attribute's name");
    }
    for (uint32_t i = 0; i < output_count; ++i) outputs[i] = made(b);
    ++b->operations;
    return HK_OK;
}
static uint32_t HK_ABI operation_revision(hk_builder* b, hk_string name) { return (void)b, (void)name, 1; }
static int32_t HK_ABI shape(hk_builder* b, hk_value v, int64_t* dims, uint32_t* rank) {
    (void)b, (void)v;
    dims[0] = 2, dims[1] = 8, dims[2] = 4, *rank = 3;
    return HK_KIND_FLOAT;
}
static void HK_ABI scope_begin(hk_builder* b, hk_string name) { (void)name, ++b->scopes; }
static void HK_ABI scope_end(hk_builder* b) { --b->scopes; }
static void HK_ABI region(hk_builder* b) { (void)b; }
static void HK_ABI offer(hk_builder* b, hk_string port, hk_value v) {
    need(v != 0, "a port without a value");
    b->hidden |= same(port, "hidden");
    b->logits |= same(port, "logits");
}
static int32_t HK_ABI has_port(hk_builder* b, hk_string port) { return b->every_port || (same(port, "hidden") && b->hidden); }
static hk_value HK_ABI ask(hk_builder* b, hk_string port) { return has_port(b, port) ? made(b) : 0; }
static void HK_ABI loss(hk_builder* b, hk_string n, hk_value s, hk_value c, double w) {
    (void)n, (void)w;
    need(s != 0 && c != 0, "a loss without a sum or count");
    ++b->losses;
}
static void HK_ABI metric(hk_builder* b, hk_string n, hk_value s, hk_value c) { (void)b, (void)n, (void)s, (void)c; }
static void HK_ABI graph_fail(hk_builder* b, int32_t code, hk_string message) {
    (void)b, (void)code;
    fprintf(stderr, "%.*s\n", (int)message.size, message.data);
    fail("the plugin gave up", "");
}
static int32_t HK_ABI status(hk_builder* b, hk_error* error) { return (void)b, (void)error, HK_OK; }
#if HK_TARGET_ABI_MINOR >= 2
static int64_t HK_ABI position_count(hk_builder* b, int64_t length) { return (void)b, length; }
#endif
static const hk_graph_interface graphs = {
    .mode = mode, .has_field = has_field, .input = input, .parameter = parameter, .buffer = buffer, .constant = constant,
    .fill = fill, .iota = iota, .positions = positions, .step_scalar = step_scalar, .emit = emit,
    .operation_revision = operation_revision, .shape = shape, .scope_begin = scope_begin, .scope_end = scope_end,
    .recompute_begin = region, .recompute_end = region, .offer = offer, .has_port = has_port, .ask = ask, .loss = loss,
    .metric = metric, .fail = graph_fail, .status = status,
#if HK_TARGET_ABI_MINOR >= 2
    .position_count = position_count,
#endif
};

static const void* HK_ABI get_interface(const hk_host* host, hk_string id) {
    (void)host;
    if (same(id, HK_ERROR_INTERFACE)) return &errors;
    if (same(id, HK_CONFIG_INTERFACE)) return &configs;
    if (same(id, HK_GRAPH_INTERFACE)) return &graphs;
    return NULL; // no tokenizer, no log: both are optional
}

static const hk_plugin_entry* load(const char* path) {
    typedef const hk_plugin_entry* (*entry_function)(void);
    entry_function entry = NULL;
#if defined(_WIN32)
    const HMODULE library = LoadLibraryA(path);
    if (library == NULL) fail("the plugin cannot be loaded", path);
    const FARPROC symbol = GetProcAddress(library, HK_ENTRY_SYMBOL);
#else
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail("the plugin cannot be loaded", dlerror());
    void* symbol = dlsym(library, HK_ENTRY_SYMBOL);
#endif
    if (symbol == NULL) fail("the plugin does not export", HK_ENTRY_SYMBOL);
    memcpy(&entry, &symbol, sizeof entry);
    return entry();
}

// ---- the lifecycle of one instance of each kind

static const hk_config empty_config = {0}, complete_config = {1};

static void try_architecture(const hk_plugin_entry* entry, const char* id) {
    hk_error error = {HK_OK, ""};
    const hk_architecture* table = entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE), hk_text(id));
    need(table != NULL, "it has not the architecture");
    void* self = &error;
    need(table->create(&empty_config, &self, &error) != HK_OK && self == &error, "create without a configuration");
    need(error.message[0] != '\0', "create failed without a word");
    void* other = NULL;
    if (table->create(&complete_config, &self, &error) != HK_OK) fail("create", error.message);
    if (table->create(&complete_config, &other, &error) != HK_OK) fail("create", error.message);
    need(self != NULL && other != NULL && self != other, "two instances");
    hk_builder first, second;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    if (table->build(self, &first, &error) != HK_OK) fail("build", error.message);
    if (table->build(other, &second, &error) != HK_OK) fail("build", error.message);
    need(first.operations == second.operations && first.last == second.last, "two instances built two graphs");
    need(first.hidden && first.scopes == 0 && first.operations > 10, "the body");
    need(table->build_head(self, &first, hk_text("unheard-of"), &error) == HK_NOT_FOUND, "a head that does not exist");
    if (table->build_head(self, &first, hk_text("lm"), &error) != HK_OK) fail("build_head", error.message);
    need(first.logits, "the head offers no logits");
    hk_config_writer writer = {0};
    if (table->write_config(self, &writer, &error) != HK_OK) fail("write_config", error.message);
    need(writer.written > 2, "write_config wrote little");
    table->destroy(other);
    table->destroy(self);
    printf("%s: %d operations, host %d.%d\n", id, first.operations, HK_ABI_MAJOR, HK_TARGET_ABI_MINOR);
}

#define ROWS 2
#define TOKENS 8
#define MOST_FIELDS 8
typedef struct described {
    hk_field fields[MOST_FIELDS];
    char names[MOST_FIELDS][32];
    uint32_t count;
} described;

static void HK_ABI push_field(void* context, const hk_field* field) {
    described* all = context;
    need(all->count < MOST_FIELDS && field->struct_size <= sizeof(hk_field) && field->name.size < 32 && field->rank <= HK_MAX_RANK, "a field");
    hk_field* to = &all->fields[all->count];
    memset(to, 0, sizeof *to);
    memcpy(to, field, field->struct_size); // members missing in an older plugin's struct are zero
    to->struct_size = (uint32_t)sizeof *to;
    memcpy(all->names[all->count], field->name.data, (size_t)field->name.size);
    to->name.data = all->names[all->count];
    ++all->count;
}

// Fields of tokens, as for next-token prediction, with a guard after each.
static void try_objective(const hk_plugin_entry* entry, const char* id) {
    hk_error error = {HK_OK, ""};
    const hk_objective* table = entry->get_interface(hk_text(HK_OBJECTIVE_INTERFACE), hk_text(id));
    need(table != NULL, "it has not the objective");
    void* self = NULL;
    if (table->create(&complete_config, NULL, &self, &error) != HK_OK) fail("create", error.message);
    need(table->example_kind(self) == HK_EXAMPLE_WINDOW, "the kind of its examples");
    const int64_t tokens = table->tokens_per_example(self, TOKENS);
    need(tokens >= TOKENS && tokens <= 2 * TOKENS, "how many tokens fill a row");
    described all;
    all.count = 0;
    if (table->fields(self, ROWS, TOKENS, push_field, &all, &error) != HK_OK) fail("fields", error.message);
    need(all.count > 0, "it has no fields");

    int32_t ids[ROWS][2 * TOKENS];
    hk_column columns[ROWS];
    hk_example examples[ROWS];
    hk_batch batch;
    memset(columns, 0, sizeof columns);
    memset(examples, 0, sizeof examples);
    memset(&batch, 0, sizeof batch);
    for (int row = 0; row < ROWS; ++row) {
        for (int t = 0; t < 2 * TOKENS; ++t) ids[row][t] = 10 * row + t;
        columns[row].struct_size = (uint32_t)sizeof columns[row];
        columns[row].kind = HK_COLUMN_TOKENS;
        columns[row].name = hk_text("text");
        columns[row].ids = ids[row];
        columns[row].size = (uint64_t)tokens;
        examples[row].struct_size = (uint32_t)sizeof examples[row];
        examples[row].column_count = 1;
        examples[row].columns = &columns[row];
        examples[row].index = (uint64_t)row;
    }
    batch.struct_size = (uint32_t)sizeof batch;
    batch.example_count = ROWS;
    batch.examples = examples;
    int32_t storage[MOST_FIELDS][ROWS * TOKENS + 1], again[MOST_FIELDS][ROWS * TOKENS + 1];
    for (int round = 0; round < 2; ++round) {
        for (uint32_t i = 0; i < all.count; ++i) {
            need(all.fields[i].rank == 2 && all.fields[i].dims[0] == ROWS && all.fields[i].dims[1] == TOKENS, "the shape of a field");
            all.fields[i].data = round == 0 ? storage[i] : again[i];
            memset(all.fields[i].data, 0, sizeof storage[i]);
            ((int32_t*)all.fields[i].data)[ROWS * TOKENS] = 12345;
        }
        if (table->collate(self, &batch, all.fields, all.count, &error) != HK_OK) fail("collate", error.message);
    }
    for (uint32_t i = 0; i < all.count; ++i) {
        need(memcmp(storage[i], again[i], sizeof storage[i]) == 0, "two collates, two batches");
        need(storage[i][ROWS * TOKENS] == 12345, "it wrote behind a field");
        if (same(all.fields[i].name, "input_ids")) need(storage[i][TOKENS] == 10 && storage[i][TOKENS + 1] == 11, "the second row's tokens");
    }
    hk_builder builder;
    memset(&builder, 0, sizeof builder);
    builder.every_port = 1;
    if (table->build(self, &builder, &error) != HK_OK) fail("build", error.message);
    need(builder.losses > 0, "it has no loss");
    table->destroy(self);
    printf("%s: %d operations, host %d.%d\n", id, builder.operations, HK_ABI_MAJOR, HK_TARGET_ABI_MINOR);
}

static void HK_ABI push_port(void* context, hk_string port) {
    char* name = context;
    need(port.size > 0 && port.size < 32, "a port's name");
    memcpy(name, port.data, (size_t)port.size);
    name[port.size] = '\0';
}
static void HK_ABI push_row(void* context, hk_string json) {
    need(json.size >= 2 && json.data[0] == '{' && json.data[json.size - 1] == '}', "decode says no object");
    ++*(int*)context;
}

// Scores of classes: three per row.
static void try_head(const hk_plugin_entry* entry, const char* id) {
    hk_error error = {HK_OK, ""};
    const hk_head* table = entry->get_interface(hk_text(HK_HEAD_INTERFACE), hk_text(id));
    need(table != NULL, "it has not the head");
    void* self = NULL;
    if (table->create(&complete_config, &self, &error) != HK_OK) fail("create", error.message);
    hk_builder builder;
    memset(&builder, 0, sizeof builder);
    builder.every_port = 1;
    if (table->build(self, &builder, &error) != HK_OK) fail("build", error.message);
    need(builder.logits, "it offers no logits");
    if (table->decode != NULL) {
        char port[32] = "";
        if (table->decode_ports(self, push_port, port, &error) != HK_OK) fail("decode_ports", error.message);
        // Two outputs, to test that the second is found after the first for any struct size.
        static const float scores[ROWS][4] = {{1, 2, 3, 0}, {3, 2, 1, 0}};
        hk_output outputs[2];
        hk_decode_input input;
        memset(outputs, 0, sizeof outputs);
        memset(&input, 0, sizeof input);
        for (int i = 0; i < 2; ++i) {
            outputs[i].struct_size = (uint32_t)sizeof outputs[i];
            outputs[i].rank = 2;
            outputs[i].port = i == 0 ? hk_text("unheard-of") : hk_text(port);
            outputs[i].values = &scores[0][0];
            outputs[i].dims[0] = ROWS;
            outputs[i].dims[1] = 4;
        }
        input.struct_size = (uint32_t)sizeof input;
        input.output_count = 2;
        input.outputs = outputs;
        input.row_count = ROWS;
        int rows = 0;
        if (table->decode(self, &input, push_row, &rows, &error) != HK_OK) fail("decode", error.message);
        need(rows == ROWS, "decode says something of another number of rows");
    }
    table->destroy(self);
    printf("%s: %d operations, host %d.%d\n", id, builder.operations, HK_ABI_MAJOR, HK_TARGET_ABI_MINOR);
}

// Calls an operation with two float inputs and one real attribute, like x * sigmoid(sharpness * gate).
static void try_operation(const hk_plugin_entry* entry, const char* id) {
    hk_error error = {HK_OK, ""};
    const hk_operation* table = entry->get_interface(hk_text(HK_OPERATION_INTERFACE), hk_text(id));
    need(table != NULL, "it has not the operation");
    const hk_operation_description* d = table->describe();
    need(d != NULL && d == table->describe() && d->struct_size <= sizeof *d, "its description");
    need(d->revision == 1 && d->input_count == 2 && d->attribute_count == 1 && d->output_count == 1 && d->glsl.size > 0, "what it takes and gives");
    const hk_operation_input* second = (const hk_operation_input*)((const char*)d->inputs + d->inputs->struct_size);
    need(same(second->name, "gate"), "its second input");

    double values[2][6] = {{1, 2, 3, 4, 5, 6}, {0, 0, 0, 100, 100, 100}}, out[7] = {0, 0, 0, 0, 0, 0, 12345};
    hk_operation_tensor inputs[2], output;
    memset(inputs, 0, sizeof inputs);
    memset(&output, 0, sizeof output);
    for (int i = 0; i < 2; ++i) {
        inputs[i].struct_size = (uint32_t)sizeof inputs[i];
        inputs[i].rank = 2;
        inputs[i].dims[0] = 2;
        inputs[i].dims[1] = i == 0 ? 3 : 4;
        inputs[i].data = values[i];
    }
    output.struct_size = (uint32_t)sizeof output;
    hk_attribute sharpness = hk_attribute_real("sharpness", 1.0);
    hk_operation_use use;
    hk_operation_cost cost;
    memset(&use, 0, sizeof use);
    memset(&cost, 0, sizeof cost);
    use.struct_size = (uint32_t)sizeof use;
    use.input_count = 2, use.attribute_count = 1, use.output_count = 1;
    use.inputs = inputs, use.attributes = &sharpness, use.outputs = &output;
    cost.struct_size = (uint32_t)sizeof cost;
    need(table->shape(&use, &cost, &error) != HK_OK && error.message[0] != '\0', "two shapes that do not fit");
    inputs[1].dims[1] = 3;
    if (table->shape(&use, &cost, &error) != HK_OK) fail("shape", error.message);
    need(output.rank == 2 && output.dims[0] == 2 && output.dims[1] == 3, "the shape of its output");
    output.data = out;
    if (table->reference(&use, &error) != HK_OK) fail("reference", error.message);
    need(out[0] == 0.5 && out[2] == 1.5 && out[3] == 4 && out[5] == 6 && out[6] == 12345, "what its reference computes");

    hk_builder builder;
    memset(&builder, 0, sizeof builder);
    builder.last = 4;
    const hk_value given[] = {1, 2}, result = 3, upstream = 4;
    hk_value gradients[] = {0, 0};
    hk_operation_gradient gradient;
    memset(&gradient, 0, sizeof gradient);
    gradient.struct_size = (uint32_t)sizeof gradient;
    gradient.input_count = 2, gradient.attribute_count = 1, gradient.output_count = 1;
    gradient.inputs = given, gradient.attributes = &sharpness, gradient.outputs = &result;
    gradient.output_gradients = &upstream, gradient.input_gradients = gradients;
    if (table->gradient(&builder, &gradient, &error) != HK_OK) fail("gradient", error.message);
    need(gradients[0] != 0 && gradients[1] != 0, "its gradients");
    printf("%s: %d operations, host %d.%d\n", id, builder.operations, HK_ABI_MAJOR, HK_TARGET_ABI_MINOR);
}

int main(int argc, char** argv) {
    if (argc != 3 && argc != 4) fail("usage: mock_host PLUGIN [architecture | objective | head | operation] ID", "");
    const char *kind = argc == 4 ? argv[2] : "architecture", *id = argv[argc - 1];
    const hk_plugin_entry* entry = load(argv[1]);
    need(entry != NULL && entry->magic == HK_ENTRY_MAGIC && entry->struct_size >= sizeof *entry, "the entry is damaged");
    need(entry->abi_major == HK_ABI_MAJOR, "another major version");
    need(entry->abi_minor_needed <= HK_TARGET_ABI_MINOR, "the plugin asks for a newer host");

    hk_host host, second;
    memset(&host, 0, sizeof host);
    host.struct_size = (uint32_t)sizeof host;
    host.abi_major = HK_ABI_MAJOR;
    host.abi_minor = HK_TARGET_ABI_MINOR;
    host.name = hk_text("mock");
    host.version = hk_text("1");
    host.get_interface = get_interface;
    hk_error error = {HK_OK, ""};
    if (entry->init(&host, &error) != HK_OK) fail("init", error.message);
    second = host;
    need(entry->init(&second, &error) == HK_FAILED_PRECONDITION && error.message[0] != '\0', "it serves two hosts at once");

    hk_string cut = hk_text(HK_ARCHITECTURE_INTERFACE);
    --cut.size;
    need(entry->get_interface(hk_text("hekla.unheard-of/7"), hk_text(id)) == NULL, "it has an interface that does not exist");
    need(entry->get_interface(cut, hk_text(id)) == NULL, "it takes the beginning of an interface for the whole");
    need(entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE "0"), hk_text(id)) == NULL, "it takes more than an interface for one");
    need(entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE), hk_text("unheard-of")) == NULL, "it has an id that does not exist");
    if (strcmp(kind, "architecture") == 0) try_architecture(entry, id);
    else if (strcmp(kind, "objective") == 0) try_objective(entry, id);
    else if (strcmp(kind, "head") == 0) try_head(entry, id);
    else if (strcmp(kind, "operation") == 0) try_operation(entry, id);
    else fail("there is no kind", kind);
    entry->deinit();
    // A plugin that was shut down can be started again.
    if (entry->init(&second, &error) != HK_OK) fail("init after deinit", error.message);
    entry->deinit();
    return 0;
}
