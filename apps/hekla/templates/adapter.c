// %NAME%: a low-rank matrix that is added to every linear layer of a trained body: y + B A x (LoRA, Hu et al. 2021).
#include "hekla_plugin.h"

#include "hekla/plugin/adapter.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct low_rank {
    int64_t rank;
} low_rank;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    low_rank read = {0};
    const int32_t code = hk_read_integer(config, "rank", &read.rank, error);
    if (code != HK_OK) return code;
    low_rank* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = read;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// Where it acts.
static int32_t HK_ABI wants(void* self, const hk_adapter_site* site, int32_t* wanted, hk_error* error) {
    (void)self, (void)error;
    *wanted = site->kind == HK_SITE_LINEAR && (site->flags & HK_SITE_OF_HEAD) == 0;
    return HK_OK;
}

typedef struct matrices {
    hk_value a, b; // [rank, in], [out, rank]
} matrices;

static matrices matrices_of(const low_rank* own, hk_builder* g, const hk_adapter_site* site) {
    const int64_t dims_of_a[] = {own->rank, site->in}, dims_of_b[] = {site->out, own->rank};
    const hk_value a = hk_normal(g, "a", dims_of_a, 2, 0.02);
    const matrices made = {a, hk_constant(g, "b", dims_of_b, 2, 0.0)};
    return made;
}

// What is added to y. B begins with zeros, so that nothing changes before training.
static int32_t HK_ABI adapt(void* self, hk_builder* g, const hk_adapter_site* site, const hk_site_values* values, hk_site_answer* answer,
                            hk_error* error) {
    const matrices own = matrices_of(self, g, site);
    answer->kind = HK_ANSWER_DELTA;
    answer->value = hk_linear(G, hk_linear(G, values->x, own.a, NULL), own.b, NULL);
    answer->input = values->x;
    return hk_done(g, error);
}

// The weight with which the layer alone computes the same.
static int32_t HK_ABI merge(void* self, hk_builder* g, const hk_adapter_site* site, const hk_site_values* values, hk_value* weight,
                            hk_value* bias, hk_error* error) {
    (void)bias;
    const matrices own = matrices_of(self, g, site);
    *weight = hk_add(G, values->weight, hk_matmul(G, own.b, own.a, NULL));
    return hk_done(g, error);
}

static const hk_adapter table = {
    .create = create,
    .destroy = destroy,
    .wants = wants,
    .adapt = adapt,
    .merge = merge,
};

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "%NAME%", &table});
