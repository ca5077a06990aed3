// %NAME%: a causal language model without attention. Each block mixes a token with the few before it by a convolution of
// its own weights a channel, gated by the token itself, and then thinks about it alone. Change what you like: everything
// is composed of the operations of operations.h, and gradients, kernels and memory are the engine's.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
typedef struct model {
    int64_t vocabulary, width, layers, kernel;
    double dropout;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "num_hidden_layers", &m.layers, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "kernel_size", &m.kernel, error)) != HK_OK) return code;
    if ((code = hk_read_real(config, "dropout", &m.dropout, error)) != HK_OK) return code;
    if (m.width < 1 || m.kernel < 2)
        return hk_fail(error, HK_INVALID_ARGUMENT, "hidden_size must be positive and kernel_size 2 or more");
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

// Dropout while training.
static hk_value drop(const model* m, hk_builder* g, hk_value x) {
    return hk.graph->mode(g) == HK_MODE_TRAIN && m->dropout > 0.0 ? hk_dropout(G, x, m->dropout, NULL) : x;
}

// y_t = sum_k weight_k * x_(t - kernel + 1 + k), channel by channel. Before the row it is 0; while text is
// generated it is what the last chunk ended with, which the state keeps.
static hk_value convolution(const model* m, hk_builder* g, hk_value x, int64_t layer) {
    const int64_t batch = hk_dim(g, x, 0), length = hk_dim(g, x, 1), before = m->kernel - 1;
    const int64_t before_dims[] = {batch, before, m->width}, weight_dims[] = {m->kernel, m->width};
    char state[64], name[64];
    snprintf(state, sizeof state, "layer.%d", (int)layer);
    snprintf(name, sizeof name, "layers.%d.convolution.weight", (int)layer);
    const hk_value nothing = hk.graph->fill(g, HK_KIND_FLOAT, before_dims, 3, 0.0);
    const hk_value parts[] = {hk_state_read(G, nothing, hk_text(state)), x};
    const hk_value all = hk_concat(G, parts, 2, 1);
    hk_state_write(G, hk_slice(G, all, 1, length, before, NULL), hk_text(state));
    const hk_value weight = hk_normal(g, name, weight_dims, 2, 0.3);
    // One slice a statement: in which order a compiler evaluates arguments is its own choice, and must not be the graph's.
    hk_value y = 0;
    for (int64_t k = 0; k < m->kernel; ++k) {
        const hk_value seen = hk_slice(G, all, 1, k, length, NULL);
        const hk_value one = hk_slice(G, weight, 0, k, 1, NULL);
        const hk_value product = hk_mul(G, seen, one);
        y = k == 0 ? product : hk_add(G, y, product);
    }
    return y;
}

// real: 1 where there is a token, 0 where there is padding; 0 if the batch has no padding.
static hk_value block(const model* m, hk_builder* g, hk_value x, hk_value real, int64_t layer) {
    hk_value y = norm(g, x, layer, "mixer_norm");
    hk_value value = dense(g, y, layer, "value", m->width);
    if (real != 0) value = hk_mul(G, value, real);
    const hk_value gate = hk_sigmoid(G, dense(g, y, layer, "gate", m->width));
    y = hk_mul(G, gate, convolution(m, g, value, layer));
    x = hk_add(G, x, drop(m, g, dense(g, y, layer, "out", m->width)));
    y = norm(g, x, layer, "mlp_norm");
    y = hk_silu(G, dense(g, y, layer, "up", 4 * m->width));
    return hk_add(G, x, drop(m, g, dense(g, y, layer, "down", m->width)));
}

// The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const hk_value ids = hk_input(g, "input_ids");
    hk_value x = hk_embedding(G, words(m, g), ids, NULL), real = 0;
    if (hk.graph->mode(g) != HK_MODE_DECODE && hk.graph->has_field(g, hk_text("attention_mask"))) {
        const int64_t dims[] = {hk_dim(g, ids, 0), hk_dim(g, ids, 1), 1};
        real = hk_cast(G, hk_input(g, "attention_mask"), HK_KIND_FLOAT);
        real = hk_reshape(G, real, dims, 3);
    }
    for (int64_t layer = 0; layer < m->layers; ++layer) {
        char scope[32];
        snprintf(scope, sizeof scope, "block.%d", (int)layer);
        hk.graph->scope_begin(g, hk_text(scope)); // errors and pictures name it
        x = block(m, g, x, real, layer);
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
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("num_hidden_layers"), m->layers, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("kernel_size"), m->kernel, error);
    if (code == HK_OK) code = config->set_real(out, hk_text("dropout"), m->dropout, error);
    return code;
}

static const hk_architecture table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "%NAME%", &table});
