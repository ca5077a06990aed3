// experts: a language model whose feed-forward layer is a mixture of experts (Shazeer et al. 2017). Each token chooses k of
// them, and only those are computed. Without experts it is one layer of the size that a token would use.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct model {
    int64_t vocabulary, width, experts, chosen, size;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "num_experts", &m.experts, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "experts_per_token", &m.chosen, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "expert_size", &m.size, error)) != HK_OK) return code;
    if (m.experts > 0 && m.chosen > m.experts)
        return hk_fail(error, HK_INVALID_ARGUMENT, "experts_per_token must not exceed num_experts");
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

// x [B, T, W], moved on by one token; the last one of a chunk is kept for the next chunk.
static hk_value token_before(hk_builder* g, hk_value x) {
    const int64_t length = hk_dim(g, x, 1);
    const int64_t one[] = {hk_dim(g, x, 0), 1, hk_dim(g, x, 2)};
    const hk_value last = hk_state_read(G, hk.graph->fill(g, HK_KIND_FLOAT, one, 3, 0.0), hk_text("last"));
    hk_state_write(G, hk_slice(G, x, 1, length - 1, 1, NULL), hk_text("last"));
    const hk_value parts[] = {last, x};
    return hk_slice(G, hk_concat(G, parts, 2, 1), 1, 0, length, NULL);
}

static hk_value one_layer(const model* m, hk_builder* g, hk_value x) {
    const hk_value up = hk_silu(G, dense(g, x, "up.weight", m->chosen * m->size));
    return dense(g, up, "down.weight", m->width);
}

// x [B, T, W] -> [B, T, W]: every token k times, with an expert each, weighed by the scores of the router.
static hk_value mixture(const model* m, hk_builder* g, hk_value x) {
    const int64_t batch = hk_dim(g, x, 0), length = hk_dim(g, x, 1), tokens = batch * length, k = m->chosen;
    const int64_t first = 1, rows = tokens * k;
    const int64_t whole[] = {batch, length, m->width}, single[] = {tokens, 1, m->width}, scored[] = {tokens, m->experts};
    const int64_t times[] = {tokens, k, m->width}, flat[] = {rows, m->width}, shares[] = {tokens, k, 1};
    const int64_t ups[] = {m->experts, m->size, m->width}, downs[] = {m->experts, m->width, m->size};
    const hk_value token = hk_reshape(G, x, single, 3);
    const hk_value scores = hk_softmax(G, hk_reshape(G, dense(g, token, "router.weight", m->experts), scored, 2), NULL);
    hk_value best[2]; // values, indices
    hk_top_k(G, scores, k, best);
    hk_sum_options keep = hk_sum_defaults();
    keep.keep = 1;
    const hk_value weights = hk_div(G, best[0], hk_sum(G, best[0], &first, 1, &keep));
    const hk_value expert = hk_reshape(G, best[1], &rows, 1);
    const hk_value each = hk_reshape(G, hk_broadcast(G, token, times, 3), flat, 2);
    const hk_value up = hk_normal(g, "experts.up", ups, 3, 0.1), down = hk_normal(g, "experts.down", downs, 3, 0.1);
    const hk_value inner = hk_silu(G, hk_row_linear(G, each, up, expert, NULL));
    const hk_value y = hk_reshape(G, hk_row_linear(G, inner, down, expert, NULL), times, 3);
    const hk_value weighed = hk_mul(G, y, hk_reshape(G, weights, shares, 3));
    return hk_reshape(G, hk_sum(G, weighed, &first, 1, NULL), whole, 3);
}

static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const int64_t dims[] = {m->vocabulary, m->width};
    const hk_value ids = hk_input(g, "input_ids");
    const hk_value words = hk_normal(g, "words.weight", dims, 2, 0.1);
    const hk_value x = hk_embedding(G, words, ids, NULL);
    const hk_value seen = hk_add(G, x, dense(g, token_before(g, x), "before.weight", m->width));
    const hk_value normed = hk_rms_norm_layer(g, seen, "norm", 1e-6);
    const hk_value fed = m->experts > 0 ? mixture(m, g, normed) : one_layer(m, g, normed);
    hk.graph->offer(g, hk_text("hidden"), hk_add(G, seen, fed));
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
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("experts"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("num_experts"), m->experts, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("experts_per_token"), m->chosen, error);
    return code == HK_OK ? config->set_integer(out, hk_text("expert_size"), m->size, error) : code;
}

static const hk_architecture table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "experts", &table});
