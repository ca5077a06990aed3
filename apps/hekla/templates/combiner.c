// %NAME%: of several adapters, the mean of what they add, times a trained number for each channel.
#include "hekla_plugin.h"

#include "hekla/plugin/combiner.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct scaled_mean {
    double begin;
} scaled_mean;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    scaled_mean read = {0.0};
    const int32_t code = hk_read_real(config, "begin", &read.begin, error);
    if (code != HK_OK) return code;
    scaled_mean* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = read;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// What is added to y, from what each branch would add alone.
static int32_t HK_ABI combine(void* self, hk_builder* g, const hk_adapter_site* site, const hk_site_values* values,
                              const hk_branch* branches, uint32_t count, hk_combined* combined, hk_error* error) {
    const scaled_mean* own = self;
    (void)values;
    hk_value sum = 0;
    double acting = 0.0;
    for (uint32_t i = 0; i < count; ++i) {
        const hk_branch* branch = hk_element(branches, i);
        if (branch->delta == 0) continue; // it has nothing to add at this site
        sum = acting == 0.0 ? branch->delta : hk_add(G, sum, branch->delta);
        acting += 1.0;
    }
    const hk_value scale = hk_constant(g, "scale", &site->out, 1, own->begin);
    const hk_value scaled = hk_mul(G, sum, scale);
    combined->delta = hk_mul(G, scaled, hk_like(g, scaled, 1.0 / acting));
    return hk_done(g, error);
}

static const hk_combiner table = {
    .create = create,
    .destroy = destroy,
    .combine = combine,
};

HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "%NAME%", &table});
