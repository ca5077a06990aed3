// A host of one minor version of the plugin ABI, in as little C as it takes: loads a plugin, asks it for an architecture
// and runs it through its life. Its tables end where those of that version did, so a plugin that calls what is newer
// reads beyond them. Compiled with HK_TARGET_ABI_MINOR=N; for Linux, and for Windows by mingw.
//   mock_host PLUGIN ID
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
    int32_t operations, scopes, hidden, logits;
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
    if (code == HK_OK) *out = 4;
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
#if HK_TARGET_ABI_MINOR >= 2
static int32_t HK_ABI set_array(hk_config_writer* w, hk_string k, uint64_t v, hk_error* e) { return (void)k, (void)v, (void)e, wrote(w); }
#endif
static const hk_config_interface configs = {
    .has = has, .get_integer = get_integer, .get_real = get_real, .get_boolean = get_boolean, .get_text = get_text,
    .get_count = get_count, .set_integer = set_integer, .set_real = set_real, .set_boolean = set_boolean,
    .set_text = set_text, .set_null = set_null,
#if HK_TARGET_ABI_MINOR >= 2
    .set_array = set_array,
#endif
};

static hk_value made(hk_builder* b) { return ++b->last; }
static int32_t HK_ABI mode(hk_builder* b) { return (void)b, HK_MODE_TRAIN; }
static int32_t HK_ABI has_field(hk_builder* b, hk_string field) { return (void)b, same(field, "input_ids"); }
static hk_value HK_ABI input(hk_builder* b, hk_string field) { return has_field(b, field) ? made(b) : 0; }
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
    for (uint32_t i = 0; i < attribute_count; ++i) need(attributes[i].struct_size == sizeof(hk_attribute), "an attribute's struct_size");
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
static int32_t HK_ABI has_port(hk_builder* b, hk_string port) { return same(port, "hidden") ? b->hidden : 0; }
static hk_value HK_ABI ask(hk_builder* b, hk_string port) { return has_port(b, port) ? made(b) : 0; }
static void HK_ABI loss(hk_builder* b, hk_string n, hk_value s, hk_value c, double w) { (void)b, (void)n, (void)s, (void)c, (void)w; }
static void HK_ABI metric(hk_builder* b, hk_string n, hk_value s, hk_value c) { (void)b, (void)n, (void)s, (void)c; }
static void HK_ABI graph_fail(hk_builder* b, int32_t code, hk_string message) {
    (void)b, (void)code;
    fprintf(stderr, "%.*s\n", (int)message.size, message.data);
    fail("the plugin gave up", "");
}
static int32_t HK_ABI status(hk_builder* b, hk_error* error) { return (void)b, (void)error, HK_OK; }
static const hk_graph_interface graphs = {
    .mode = mode, .has_field = has_field, .input = input, .parameter = parameter, .buffer = buffer, .constant = constant,
    .fill = fill, .iota = iota, .positions = positions, .step_scalar = step_scalar, .emit = emit,
    .operation_revision = operation_revision, .shape = shape, .scope_begin = scope_begin, .scope_end = scope_end,
    .recompute_begin = region, .recompute_end = region, .offer = offer, .has_port = has_port, .ask = ask, .loss = loss,
    .metric = metric, .fail = graph_fail, .status = status,
};

static const void* HK_ABI get_interface(const hk_host* host, hk_string id) {
    (void)host;
    if (same(id, HK_ERROR_INTERFACE)) return &errors;
    if (same(id, HK_CONFIG_INTERFACE)) return &configs;
    if (same(id, HK_GRAPH_INTERFACE)) return &graphs;
    return NULL; // no tokenizer, no log: a plugin must do without
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

int main(int argc, char** argv) {
    if (argc != 3) fail("usage: mock_host PLUGIN ID", "");
    const hk_plugin_entry* entry = load(argv[1]);
    need(entry != NULL && entry->magic == HK_ENTRY_MAGIC && entry->struct_size >= sizeof *entry, "the entry is damaged");
    need(entry->abi_major == HK_ABI_MAJOR, "another major version");
    need(entry->abi_minor_needed <= HK_TARGET_ABI_MINOR, "the plugin asks for a newer host");

    hk_host host;
    memset(&host, 0, sizeof host);
    host.struct_size = (uint32_t)sizeof host;
    host.abi_major = HK_ABI_MAJOR;
    host.abi_minor = HK_TARGET_ABI_MINOR;
    host.name = hk_text("mock");
    host.version = hk_text("1");
    host.get_interface = get_interface;
    hk_error error = {HK_OK, ""};
    if (entry->init(&host, &error) != HK_OK) fail("init", error.message);

    hk_string cut = hk_text(HK_ARCHITECTURE_INTERFACE);
    --cut.size;
    need(entry->get_interface(hk_text("hekla.unheard-of/7"), hk_text(argv[2])) == NULL, "it has an interface that does not exist");
    need(entry->get_interface(cut, hk_text(argv[2])) == NULL, "it takes the beginning of an interface for the whole");
    need(entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE "0"), hk_text(argv[2])) == NULL, "it takes more than an interface for one");
    need(entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE), hk_text("unheard-of")) == NULL, "it has an id that does not exist");
    const hk_architecture* table = entry->get_interface(hk_text(HK_ARCHITECTURE_INTERFACE), hk_text(argv[2]));
    need(table != NULL, "it has not the architecture");

    const hk_config empty = {0}, complete = {1};
    void* self = &error;
    need(table->create(&empty, &self, &error) != HK_OK && self == &error, "create without a configuration");
    need(error.message[0] != '\0', "create failed without a word");
    void* other = NULL;
    if (table->create(&complete, &self, &error) != HK_OK) fail("create", error.message);
    if (table->create(&complete, &other, &error) != HK_OK) fail("create", error.message);
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
    entry->deinit();
    printf("%s: %d operations, host %d.%d\n", argv[2], first.operations, HK_ABI_MAJOR, HK_TARGET_ABI_MINOR);
    return 0;
}
