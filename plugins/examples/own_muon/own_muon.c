// own_muon: Muon (Jordan et al. 2024), the momentum of a matrix made nearly orthogonal by a Newton-Schulz iteration.
#include "hekla_plugin.h"

#include "hekla/plugin/optimizer.h"

#include <math.h>
#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct muon {
    double momentum;
    int64_t steps;
} muon;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    muon read = {0.0, 0};
    int32_t code = hk_read_real(config, "momentum", &read.momentum, error);
    if (code == HK_OK) code = hk_read_integer(config, "ns_steps", &read.steps, error);
    if (code != HK_OK) return code;
    muon* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = read;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// AdamW updates vectors, and the tables of embeddings.
static int32_t HK_ABI takes(void* self, const hk_optimized* parameter, int32_t* taken, hk_error* error) {
    (void)self, (void)error;
    *taken = parameter->rank == 2 && (parameter->flags & HK_OPTIMIZED_TABLE) == 0;
    return HK_OK;
}

static hk_value times(hk_builder* g, hk_value x, double factor) { return hk_mul(G, x, hk_like(g, x, factor)); }

// a + (b - a) weight
static hk_value lerp(hk_builder* g, hk_value a, hk_value b, double weight) {
    return hk_add(G, a, times(g, hk_sub(G, b, a), weight));
}

// The iteration works on the smaller product of the matrix with itself.
static hk_value orthogonal(hk_builder* g, const hk_optimized* parameter, hk_value x, int64_t steps) {
    const int tall = parameter->dims[0] > parameter->dims[1];
    hk_matmul_options product = hk_matmul_defaults();
    product.transpose_a = tall;
    product.transpose_b = !tall;
    const hk_value length = hk_sqrt(G, hk_sum_all(g, hk_mul(G, x, x)));
    x = hk_div(G, x, hk_add(G, length, hk_like(g, length, 1e-12)));
    for (int64_t i = 0; i < steps; ++i) {
        const hk_value gram = hk_matmul(G, x, x, &product);
        const hk_value square = hk_matmul(G, gram, gram, NULL);
        const hk_value first = times(g, gram, -4.775), second = times(g, square, 2.0315);
        const hk_value polynomial = hk_add(G, first, second);
        const hk_value turned = tall ? hk_matmul(G, x, polynomial, NULL) : hk_matmul(G, polynomial, x, NULL);
        x = hk_add(G, times(g, x, 3.4445), turned);
    }
    return x;
}

static int32_t HK_ABI build(void* self, hk_builder* g, const hk_optimized* parameter, const hk_update_values* values,
                            hk_value* updated, hk_error* error) {
    const muon* own = self;
    const hk_value zeros = hk.graph->fill(g, HK_KIND_FLOAT, parameter->dims, parameter->rank, 0.0);
    const hk_value before = hk_state_read(G, zeros, hk_text("momentum"));
    const hk_value mean =
        hk_state_write(G, lerp(g, before, values->gradient, 1.0 - own->momentum), hk_text("momentum"));
    const hk_value direction = orthogonal(g, parameter, lerp(g, values->gradient, mean, own->momentum), own->steps);
    const double rows = (double)parameter->dims[0], columns = (double)parameter->dims[1];
    const hk_value rate = times(g, values->learning_rate, sqrt(rows > columns ? rows / columns : 1.0));
    *updated = hk_sub(G, values->parameter, hk_mul(G, rate, direction));
    return hk_done(g, error);
}

static const hk_optimizer table = {
    .create = create,
    .destroy = destroy,
    .takes = takes,
    .build = build,
};

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "own_muon", &table});
