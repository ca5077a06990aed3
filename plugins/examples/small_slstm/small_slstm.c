// small_slstm: a language model of an sLSTM layer (Beck et al. 2024). Its gates read what the layer returned for the
// token before, which no scan can compute: a loop over the tokens. The exponential gates are kept finite by their
// running maximum.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct model {
    int64_t vocabulary, width;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
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

static hk_value state(const model* m, hk_builder* g, hk_value t, int64_t batch, const char* name, double initial) {
    const int64_t kept[] = {batch, m->width};
    return hk_loop_state(G, t, hk_state_read(G, hk.graph->fill(g, HK_KIND_FLOAT, kept, 2, initial), hk_text(name)));
}

// x [B, T, W] -> [B, T, W], with four states [B, W] that are passed on from token to token, and from chunk to chunk.
static hk_value slstm(const model* m, hk_builder* g, hk_value x) {
    const int64_t batch = hk_dim(g, x, 0), length = hk_dim(g, x, 1), width = m->width;
    const int64_t square[] = {4 * width, width};
    const hk_value from_x = dense(g, x, "input.weight", 4 * width); // one product for all tokens, before the loop
    const hk_value recurrent = hk_normal(g, "recurrent.weight", square, 2, 0.1);
    const hk_value t = hk_loop_index(G, length, NULL);
    const hk_value h = state(m, g, t, batch, "h", 0.0);
    const hk_value cell = state(m, g, t, batch, "cell", 0.0);
    const hk_value norm = state(m, g, t, batch, "norm", 0.0);
    const hk_value largest = state(m, g, t, batch, "largest", -1e4);
    const hk_value now = hk_loop_step(G, t, from_x, NULL);
    const hk_value gates = hk_add(G, now, hk_linear(G, h, recurrent, NULL));
    const hk_value input = hk_slice(G, gates, 1, 0, width, NULL);
    const hk_value forget = hk_add(G, hk_log_sigmoid(G, hk_slice(G, gates, 1, width, width, NULL)), largest);
    const hk_value fresh = hk_tanh(G, hk_slice(G, gates, 1, 2 * width, width, NULL));
    const hk_value output = hk_sigmoid(G, hk_slice(G, gates, 1, 3 * width, width, NULL));
    const hk_value next_largest = hk_maximum(G, input, forget);
    const hk_value write = hk_exp(G, hk_sub(G, input, next_largest));
    const hk_value keep = hk_exp(G, hk_sub(G, forget, next_largest));
    const hk_value kept_cell = hk_mul(G, keep, cell);
    const hk_value next_cell = hk_add(G, kept_cell, hk_mul(G, write, fresh));
    const hk_value next_norm = hk_add(G, hk_mul(G, keep, norm), write);
    const hk_value next_h = hk_mul(G, output, hk_div(G, next_cell, next_norm));
    hk_state_write(G, hk_loop_next(G, h, next_h), hk_text("h"));
    hk_state_write(G, hk_loop_next(G, cell, next_cell), hk_text("cell"));
    hk_state_write(G, hk_loop_next(G, norm, next_norm), hk_text("norm"));
    hk_state_write(G, hk_loop_next(G, largest, next_largest), hk_text("largest"));
    return hk_loop_collect(G, t, next_h, NULL);
}

static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const int64_t dims[] = {m->vocabulary, m->width};
    const hk_value ids = hk_input(g, "input_ids");
    const hk_value words = hk_normal(g, "words.weight", dims, 2, 0.1);
    const hk_value x = hk_embedding(G, words, ids, NULL);
    const hk_value mixed = slstm(m, g, hk_rms_norm_layer(g, x, "norm", 1e-6));
    hk.graph->offer(g, hk_text("hidden"), hk_add(G, x, dense(g, mixed, "out.weight", m->width)));
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
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("small_slstm"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    return code == HK_OK ? config->set_integer(out, hk_text("hidden_size"), m->width, error) : code;
}

static const hk_architecture table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "small_slstm", &table});
