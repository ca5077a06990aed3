// %NAME%: an operation of its own, y = x * sigmoid(sharpness * gate), in GLSL and with its gradient, and a small language
// model that uses it. Other plugins may use it too, by its id and revision.
#include "hekla_plugin.h"

#include <math.h>
#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

// ---- the operation

// operation() runs once for every element of the first output; load_NAME(i) and store_NAME(i, v) are made by Hekla: they stay
// inside of the tensors, whatever i is.
enum { kernel_line = __LINE__ + 1 }; // so that messages of the compiler name the lines below
static const char kernel[] = "\n"
    "float squashed(float v) { return 1.0 / (1.0 + exp(-v)); }\n"
    "void operation(uint i) {\n"
    "    store_y(i, load_x(i) * squashed(sharpness * load_gate(i)));\n"
    "}\n";

// What it takes and gives.
static const hk_operation_description* HK_ABI describe(void) {
    static const hk_operation_input inputs[] = {{sizeof(hk_operation_input), HK_KIND_FLOAT, HK_TEXT("x")},
                                                {sizeof(hk_operation_input), HK_KIND_FLOAT, HK_TEXT("gate")}};
    static const hk_attribute usual = {.struct_size = sizeof usual, .type = HK_ATTRIBUTE_REAL, .real = 1.0};
    static const hk_operation_attribute attributes[] = {
        {sizeof(hk_operation_attribute), HK_ATTRIBUTE_REAL, HK_TEXT("sharpness"), &usual}};
    static const hk_string outputs[] = {HK_TEXT("y")};
    static const hk_operation_description description = {
        .struct_size = sizeof description,
        .revision = 1,
        .input_count = 2,
        .attribute_count = 1,
        .output_count = 1,
        .inputs = inputs,
        .attributes = attributes,
        .outputs = outputs,
        .glsl = HK_TEXT(kernel),
        .glsl_file = HK_TEXT("%SOURCE%"),
        .glsl_line = kernel_line,
    };
    return &description;
}

// The shapes that come out, and what is wrong with those that go in.
static int32_t HK_ABI shape(const hk_operation_use* use, hk_operation_cost* cost, hk_error* error) {
    (void)cost; // one invocation an element, each tensor read or written once: what the host thinks is right
    if (!hk_same_shape(hk_use_input(use, 0), hk_use_input(use, 1)))
        return hk_fail(error, HK_INVALID_ARGUMENT, "inputs 0 and 1 must have the same shape");
    hk_give_shape_of(hk_use_output(use, 0), hk_use_input(use, 0));
    return HK_OK;
}

// The gradient of each input, in operations of operations.h (or other ones of your own).
static int32_t HK_ABI gradient(hk_builder* g, const hk_operation_gradient* use, hk_error* error) {
    const double sharpness = hk_attribute_at(use->attributes, 0)->real;
    const hk_value x = use->inputs[0], gate = use->inputs[1], dy = use->output_gradients[0];
    const hk_value s = hk_sigmoid(G, hk_mul(G, gate, hk_like(g, gate, sharpness)));
    const hk_value closed = hk_sub(G, hk_like(g, s, 1.0), s);
    const hk_value of_x = hk_mul(G, dy, s);
    const hk_value of_gate = hk_mul(G, hk_mul(G, of_x, x), closed);
    use->input_gradients[0] = of_x;
    use->input_gradients[1] = hk_mul(G, of_gate, hk_like(g, of_gate, sharpness));
    return hk_done(g, error);
}

// The same in double precision, plainly: the kernel is checked against it.
static int32_t HK_ABI reference(const hk_operation_use* use, hk_error* error) {
    (void)error;
    const double sharpness = hk_attribute_at(use->attributes, 0)->real;
    const double *x = hk_use_input(use, 0)->data, *gate = hk_use_input(use, 1)->data;
    double* y = hk_use_output(use, 0)->data;
    const int64_t count = hk_elements(hk_use_output(use, 0));
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] / (1.0 + exp(-sharpness * gate[i]));
    return HK_OK;
}

static const hk_operation operation = {.describe = describe, .shape = shape, .gradient = gradient, .reference = reference};

// ---- the model that uses it

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
typedef struct model {
    int64_t vocabulary, positions, width, layers, heads;
    double sharpness;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "max_position_embeddings", &m.positions, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "num_hidden_layers", &m.layers, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "num_attention_heads", &m.heads, error)) != HK_OK) return code;
    if ((code = hk_read_real(config, "sharpness", &m.sharpness, error)) != HK_OK) return code;
    if (m.heads < 1 || m.width < 1 || m.width % m.heads != 0)
        return hk_fail(error, HK_INVALID_ARGUMENT, "hidden_size = %d must be a multiple of num_attention_heads = %d",
                       (int)m.width, (int)m.heads);
    model* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = m;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// The same name is the same parameter, in every call.
static hk_value words(const model* m, hk_builder* g) {
    const int64_t dims[] = {m->vocabulary, m->width};
    return hk_normal(g, "words.weight", dims, 2, 0.02);
}

static hk_value dense(hk_builder* g, hk_value x, int64_t layer, const char* part, int64_t out) {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.%s", (int)layer, part);
    return hk_linear_layer(g, x, name, out, 0);
}

static hk_value norm(hk_builder* g, hk_value x, int64_t layer, const char* part) {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.%s", (int)layer, part);
    return hk_rms_norm_layer(g, x, name, 1e-6);
}

// [B, T, H D] -> [B, H, T, D] of a layer's output.
static hk_value heads_of(const model* m, hk_builder* g, hk_value x, int64_t layer, const char* part) {
    static const int64_t order[] = {0, 2, 1, 3};
    const hk_value y = dense(g, x, layer, part, m->width);
    const int64_t dims[] = {hk_dim(g, y, 0), hk_dim(g, y, 1), m->heads, m->width / m->heads};
    return hk_transpose(G, hk_reshape(G, y, dims, 4), order, 4);
}

// padding: 1 where there is a token, 0 where there is padding; 0 if the batch has no padding.
static hk_value attend(const model* m, hk_builder* g, hk_value x, hk_value padding, int64_t layer) {
    static const int64_t order[] = {0, 2, 1, 3};
    char cache[32];
    snprintf(cache, sizeof cache, "layer.%d", (int)layer);
    const hk_value in = norm(g, x, layer, "attention_norm");
    // One a statement: in which order a compiler evaluates arguments is its own choice, and must not be the graph's.
    const hk_value q = heads_of(m, g, in, layer, "query");
    const hk_value k = heads_of(m, g, in, layer, "key");
    const hk_value v = heads_of(m, g, in, layer, "value");
    hk_attention_options options = hk_attention_defaults();
    options.key_padding = padding;
    options.scale = 1.0 / sqrt((double)(m->width / m->heads));
    options.causal = 1;
    options.cache = hk_text(cache); // generation keeps keys and values
    const hk_value y = hk_transpose(G, hk_attention(G, q, k, v, &options), order, 4);
    const int64_t dims[] = {hk_dim(g, y, 0), hk_dim(g, y, 1), m->width};
    return dense(g, hk_reshape(G, y, dims, 3), layer, "out", m->width);
}

static hk_value feed_forward(const model* m, hk_builder* g, hk_value x, int64_t layer) {
    const hk_value in = norm(g, x, layer, "mlp_norm");
    const hk_value up = dense(g, in, layer, "up", 4 * m->width);
    const hk_value both[] = {up, dense(g, in, layer, "gate", 4 * m->width)};
    const hk_attribute sharpness = hk_attribute_real("sharpness", m->sharpness);
    return dense(g, hk_own(g, "%NAME%.gate", 1, both, 2, &sharpness, 1), layer, "down", m->width);
}

// Only the result of a block is kept for the gradient; what is in the region is computed again.
static hk_value block(const model* m, hk_builder* g, hk_value x, hk_value padding, int64_t layer) {
    hk.graph->recompute_begin(g);
    hk.graph->scope_begin(g, hk_text("attention")); // errors and pictures name it
    const hk_value seen = attend(m, g, x, padding, layer);
    hk.graph->scope_end(g);
    x = hk_add(G, x, seen);
    hk.graph->scope_begin(g, hk_text("mlp"));
    const hk_value thought = feed_forward(m, g, x, layer);
    hk.graph->scope_end(g);
    x = hk_add(G, x, thought);
    hk.graph->recompute_end(g);
    return x;
}

// The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const hk_value ids = hk_input(g, "input_ids");
    const int64_t batch = hk_dim(g, ids, 0), length = hk_dim(g, ids, 1), positions[] = {m->positions, m->width};
    if (length > m->positions)
        return hk_fail(error, HK_INVALID_ARGUMENT, "the batch has rows of %d tokens, the model max_position_embeddings = %d",
                       (int)length, (int)m->positions);
    const hk_value places = hk.graph->has_field(g, hk_text("position_ids")) ? hk_input(g, "position_ids")
                                                                            : hk.graph->positions(g, batch, length);
    const hk_value of_words = hk_embedding(G, words(m, g), ids, NULL);
    const hk_value table = hk_normal(g, "positions.weight", positions, 2, 0.02);
    hk_value x = hk_add(G, of_words, hk_embedding(G, table, places, NULL)), padding = 0;
    if (hk.graph->mode(g) != HK_MODE_DECODE && hk.graph->has_field(g, hk_text("attention_mask")))
        padding = hk_input(g, "attention_mask");
    for (int64_t layer = 0; layer < m->layers; ++layer) {
        char scope[32];
        snprintf(scope, sizeof scope, "block.%d", (int)layer);
        hk.graph->scope_begin(g, hk_text(scope));
        x = block(m, g, x, padding, layer);
        hk.graph->scope_end(g);
    }
    hk.graph->offer(g, hk_text("hidden"), hk_rms_norm_layer(g, x, "norm", 1e-6));
    hk.graph->offer(g, hk_text("embedding.weight"), words(m, g)); // so that heads for any body can say tokens
    return hk_done(g, error);
}

// Heads of its own; HK_NOT_FOUND leaves an id to the heads of other plugins.
static int32_t HK_ABI build_head(void* self, hk_builder* g, hk_string head, hk_error* error) {
    if (!hk_same(head, "lm")) return HK_NOT_FOUND;
    const hk_value hidden = hk_ask(g, "hidden");
    hk.graph->offer(g, hk_text("logits"), hk_linear(G, hidden, words(self, g), NULL)); // tied: the embedding is the decoder
    return hk_done(g, error);
}

static int32_t HK_ABI write_config(void* self, hk_config_writer* out, hk_error* error) {
    const model* m = self;
    const hk_config_interface* config = hk.config;
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("%NAME%"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("max_position_embeddings"), m->positions, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("num_hidden_layers"), m->layers, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("num_attention_heads"), m->heads, error);
    if (code == HK_OK) code = config->set_real(out, hk_text("sharpness"), m->sharpness, error);
    return code;
}

static const hk_architecture architecture = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_OPERATION_INTERFACE, "%NAME%.gate", &operation}, {HK_ARCHITECTURE_INTERFACE, "%NAME%", &architecture});
