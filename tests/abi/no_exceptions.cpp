// An objective for next-token prediction in C++ without exceptions, RTTI, the standard library or allocations, written
// against the C interface.
#include "hekla_plugin.h"

static int nothing_to_keep;

static int32_t HK_ABI create(const hk_config*, const hk_tokenizer*, void** self, hk_error*) {
    *self = &nothing_to_keep;
    return HK_OK;
}
static void HK_ABI destroy(void*) {}
static int32_t HK_ABI example_kind(void*) { return HK_EXAMPLE_WINDOW; }
static int64_t HK_ABI tokens_per_example(void*, int64_t length) { return length + 1; }
static int32_t HK_ABI fields(void*, int64_t batch, int64_t length, void(HK_ABI* push)(void*, const hk_field*),
                             void* context, hk_error*) {
    const hk_field ids = hk_int_field("input_ids", batch, length), labels = hk_int_field("labels", batch, length);
    push(context, &ids);
    push(context, &labels);
    return HK_OK;
}
static int32_t HK_ABI build(void*, hk_builder* g, hk_error*) {
    const hk_value logits = hk.graph->ask(g, hk_text("logits")), labels = hk.graph->input(g, hk_text("labels"));
    const hk_value rows = hk_cross_entropy(hk.graph, g, logits, labels, NULL);
    const hk_value counted = hk_compare(hk.graph, g, labels, hk_like(g, labels, HK_IGNORED), 1);
    const hk_value total = hk_sum_all(g, rows);
    hk.graph->loss(g, hk_text("next"), total, hk_sum_all(g, counted), 1.0);
    return hk_status(g);
}
static int32_t HK_ABI collate(void*, const hk_batch* batch, hk_field* all, uint32_t count, hk_error* error) {
    const hk_field* ids = hk_find_field(all, count, "input_ids", HK_KIND_INT32);
    const hk_field* labels = hk_find_field(all, count, "labels", HK_KIND_INT32);
    if (ids == NULL || labels == NULL)
        return hk_fail(error, HK_FAILED_PRECONDITION, "the batch lacks input_ids or labels");
    const int64_t rows = labels->dims[0], width = labels->dims[1];
    int32_t *from = (int32_t*)ids->data, *to = (int32_t*)labels->data;
    for (int64_t i = 0; i < rows * width; ++i) to[i] = HK_IGNORED;
    for (uint32_t row = 0; row < batch->example_count; ++row) {
        const hk_column* text = hk_find_column(hk_example_at(batch, row), "text");
        if (text == NULL) return hk_fail(error, HK_INVALID_ARGUMENT, "the example has no column 'text'");
        for (int64_t t = 0; t < width && (uint64_t)t + 1 < text->size; ++t) {
            from[row * width + t] = text->ids[t];
            to[row * width + t] = text->ids[t + 1];
        }
    }
    return HK_OK;
}

static const hk_objective table = {create, destroy, example_kind, tokens_per_example, NULL, NULL,
                                   fields, build,   collate};

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "variant", &table});
