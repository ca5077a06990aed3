// %NAME%: causal language modelling with focal loss (Lin et al. 2017): what is already likely counts less.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct objective {
    double gamma;
} objective;

static int32_t HK_ABI create(const hk_config* config, const hk_tokenizer* tokenizer, void** self, hk_error* error) {
    double gamma;
    (void)tokenizer;
    const int32_t code = hk_read_real(config, "gamma", &gamma, error);
    if (code != HK_OK) return code;
    objective* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    made->gamma = gamma;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// Examples are windows of a text. Objectives that read tables have columns() instead of tokens_per_example().
static int32_t HK_ABI example_kind(void* self) {
    (void)self;
    return HK_EXAMPLE_WINDOW;
}

static int64_t HK_ABI tokens_per_example(void* self, int64_t length) {
    (void)self;
    return length + 1;
}

// What collate writes and build reads.
static int32_t HK_ABI fields(void* self, int64_t batch, int64_t length,
                             void(HK_ABI* push)(void* context, const hk_field* field), void* context, hk_error* error) {
    const hk_field ids = hk_int_field("input_ids", batch, length), next = hk_int_field("next_ids", batch, length);
    (void)self, (void)error;
    push(context, &ids);
    push(context, &next);
    return HK_OK;
}

// Runs on a worker thread: a pure function of the batch, so that a run can be repeated bit for bit.
static int32_t HK_ABI collate(void* self, const hk_batch* batch, hk_field* all, uint32_t count, hk_error* error) {
    const hk_field* ids = hk_find_field(all, count, "input_ids", HK_KIND_INT32);
    const hk_field* next = hk_find_field(all, count, "next_ids", HK_KIND_INT32);
    (void)self;
    if (ids == NULL || next == NULL)
        return hk_fail(error, HK_FAILED_PRECONDITION, "the batch lacks input_ids or next_ids");
    const int64_t rows = next->dims[0], width = next->dims[1];
    for (int64_t i = 0; i < rows * width; ++i) ((int32_t*)next->data)[i] = HK_IGNORED; // rows of a short last batch count nothing
    for (uint32_t row = 0; row < batch->example_count; ++row) {
        const hk_column* text = hk_find_column(hk_example_at(batch, row), "text");
        if (text == NULL) return hk_fail(error, HK_INVALID_ARGUMENT, "the example has no column 'text'");
        if (text->size < 2) continue;
        const uint64_t size = text->size - 1 < (uint64_t)width ? text->size - 1 : (uint64_t)width;
        memcpy((int32_t*)ids->data + row * width, text->ids, size * sizeof(int32_t));
        memcpy((int32_t*)next->data + row * width, text->ids + 1, size * sizeof(int32_t));
    }
    return HK_OK;
}

// The loss, as a part of the graph. Its gradient is the engine's. One operation a statement: in which order a compiler
// evaluates arguments is its own choice, and must not be the graph's.
static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const objective* o = self;
    const hk_value logits = hk_ask(g, "logits"), labels = hk_input(g, "next_ids");
    const hk_value surprise = hk_cross_entropy(G, logits, labels, NULL); // -log p of each label; 0 where it is ignored
    const hk_value likely = hk_exp(G, hk_neg(G, surprise));
    const hk_value rest = hk_sub(G, hk_like(g, likely, 1.0), likely);
    const hk_value base = hk_add(G, rest, hk_like(g, rest, 1e-6));
    const hk_value focus = hk_pow(G, base, hk_like(g, surprise, o->gamma));
    const hk_value total = hk_sum_all(g, hk_mul(G, focus, surprise));
    const hk_value counted = hk_sum_all(g, hk_compare(G, labels, hk_like(g, labels, HK_IGNORED), 1)); // 1: not equal
    hk.graph->loss(g, hk_text("%NAME%"), total, counted, 1.0);
    return hk_done(g, error);
}

static const hk_objective table = {
    .create = create,
    .destroy = destroy,
    .example_kind = example_kind,
    .tokens_per_example = tokens_per_example,
    .fields = fields,
    .build = build,
    .collate = collate,
};

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "%NAME%", &table});
