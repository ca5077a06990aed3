// %NAME%: each gradient is divided by the root of a running mean of its squares (RMSprop, Hinton 2012).
#include "hekla_plugin.h"

#include "hekla/plugin/optimizer.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct rms {
    double alpha, eps;
} rms;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    rms read = {0.0, 0.0};
    int32_t code = hk_read_real(config, "alpha", &read.alpha, error);
    if (code == HK_OK) code = hk_read_real(config, "eps", &read.eps, error);
    if (code != HK_OK) return code;
    rms* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = read;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// The new parameter. A state begins with the value of a fill, and hk_state_write() sets it for the following step.
static int32_t HK_ABI build(void* self, hk_builder* g, const hk_optimized* parameter, const hk_update_values* values,
                            hk_value* updated, hk_error* error) {
    const rms* own = self;
    const hk_value zeros = hk.graph->fill(g, HK_KIND_FLOAT, parameter->dims, parameter->rank, 0.0);
    const hk_value before = hk_state_read(G, zeros, hk_text("square_avg"));
    const hk_value gradient = values->gradient;
    const hk_value change = hk_mul(G, hk_sub(G, hk_mul(G, gradient, gradient), before), hk_like(g, gradient, 1.0 - own->alpha));
    const hk_value squares = hk_state_write(G, hk_add(G, before, change), hk_text("square_avg"));
    const hk_value root = hk_add(G, hk_sqrt(G, squares), hk_like(g, squares, own->eps));
    *updated = hk_sub(G, values->parameter, hk_div(G, hk_mul(G, values->learning_rate, gradient), root));
    return hk_done(g, error);
}

static const hk_optimizer table = {
    .create = create,
    .destroy = destroy,
    .build = build,
};

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "%NAME%", &table});
