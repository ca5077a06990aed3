// small_scan: a language model of a selective scan (Gu and Dao 2023). Each channel has states that decay, and the token
// chooses how fast, what it writes and what it reads. A row at once and token by token give the same.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct model {
    int64_t vocabulary, width, states;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "state_size", &m.states, error)) != HK_OK) return code;
    model* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = m;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

static hk_value dense(hk_builder* g, hk_value x, const char* name, int64_t out) {
    const int64_t dims[] = {out, hk_dim(g, x, -1)};
    return hk_linear(G, x, hk_normal(g, name, dims, 2, 0.1), NULL);
}

// x [B, T, W] -> [B, T, W], through states [B, W, N] that are passed on from chunk to chunk.
static hk_value scan(const model* m, hk_builder* g, hk_value x) {
    const int64_t batch = hk_dim(g, x, 0), length = hk_dim(g, x, 1), last = 3;
    const int64_t channels[] = {batch, length, m->width, 1}, states[] = {batch, length, 1, m->states};
    const int64_t kept[] = {batch, m->width, m->states}, rates[] = {m->width, m->states};
    const hk_value step = hk_softplus(G, dense(g, x, "step.weight", m->width));
    const hk_value write = hk_reshape(G, dense(g, x, "write.weight", m->states), states, 4);
    const hk_value read = hk_reshape(G, dense(g, x, "read.weight", m->states), states, 4);
    const hk_value rate = hk_exp(G, hk_normal(g, "rate", rates, 2, 0.5));
    const hk_value decay = hk_exp(G, hk_neg(G, hk_mul(G, hk_reshape(G, step, channels, 4), rate)));
    const hk_value written = hk_mul(G, hk_reshape(G, hk_mul(G, step, x), channels, 4), write);
    hk_scan_linear_options options = hk_scan_linear_defaults();
    options.initial = hk_state_read(G, hk.graph->fill(g, HK_KIND_FLOAT, kept, 3, 0.0), hk_text("state"));
    const hk_value h = hk_scan_linear(G, written, decay, 1, &options);
    hk_state_write(G, hk_reshape(G, hk_slice(G, h, 1, length - 1, 1, NULL), kept, 3), hk_text("state"));
    return hk_sum(G, hk_mul(G, h, read), &last, 1, NULL);
}

static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const int64_t dims[] = {m->vocabulary, m->width};
    const hk_value ids = hk_input(g, "input_ids");
    const hk_value words = hk_normal(g, "words.weight", dims, 2, 0.1);
    const hk_value x = hk_embedding(G, words, ids, NULL);
    const hk_value mixed = scan(m, g, hk_rms_norm_layer(g, x, "norm", 1e-6));
    const hk_value gate = hk_silu(G, dense(g, x, "gate.weight", m->width));
    const hk_value out = dense(g, hk_mul(G, mixed, gate), "out.weight", m->width);
    hk.graph->offer(g, hk_text("hidden"), hk_add(G, x, out));
    hk.graph->offer(g, hk_text("embedding.weight"), words);
    return hk_done(g, error);
}

static int32_t HK_ABI build_head(void* self, hk_builder* g, hk_string head, hk_error* error) {
    (void)self;
    if (!hk_same(head, "lm")) return HK_NOT_FOUND;
    const hk_value hidden = hk_ask(g, "hidden");
    hk.graph->offer(g, hk_text("logits"), hk_linear(G, hidden, hk_ask(g, "embedding.weight"), NULL));
    return hk_done(g, error);
}

static int32_t HK_ABI write_config(void* self, hk_config_writer* out, hk_error* error) {
    const model* m = self;
    const hk_config_interface* config = hk.config;
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("small_scan"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    return code == HK_OK ? config->set_integer(out, hk_text("state_size"), m->states, error) : code;
}

static const hk_architecture table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "small_scan", &table});
