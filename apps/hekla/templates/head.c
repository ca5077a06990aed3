// %NAME%: classes of a row, from the mean of its tokens' states through a hidden layer.
#include "hekla_plugin.h"

#include <math.h>
#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct head {
    int64_t labels, inner;
} head;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    head h = {2, 0};
    int32_t code = HK_OK;
    if (hk.config->has(config, hk_text("num_labels"))) code = hk_read_integer(config, "num_labels", &h.labels, error);
    if (code == HK_OK) code = hk_read_integer(config, "inner_size", &h.inner, error);
    if (code != HK_OK) return code;
    head* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = h;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// Asks the body for what it offers, and offers what the objective asks for.
static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const head* h = self;
    const hk_value hidden = hk_ask(g, "hidden"); // [B, T, width]
    const int64_t dims[] = {hk_dim(g, hidden, 0), hk_dim(g, hidden, 1), 1}, row_dims[] = {dims[0], 1}, tokens[] = {1};
    hk_value mask; // padding never counts
    if (hk.graph->has_field(g, hk_text("attention_mask")))
        mask = hk_input(g, "attention_mask");
    else
        mask = hk.graph->fill(g, HK_KIND_INT32, dims, 2, 1.0);
    mask = hk_cast(G, mask, HK_KIND_FLOAT);
    const hk_value total = hk_sum(G, hk_mul(G, hidden, hk_reshape(G, mask, dims, 3)), tokens, 1, NULL);
    const hk_value count = hk_reshape(G, hk_sum(G, mask, tokens, 1, NULL), row_dims, 2);
    const hk_value inner = hk_gelu(G, hk_linear_layer(g, hk_div(G, total, count), "%NAME%.inner", h->inner, 1), NULL);
    hk.graph->offer(g, hk_text("logits"), hk_linear_layer(g, inner, "%NAME%.out", h->labels, 1));
    return hk_done(g, error);
}

// What decode reads.
static int32_t HK_ABI decode_ports(void* self, void(HK_ABI* push)(void* context, hk_string port), void* context, hk_error* error) {
    (void)self, (void)error;
    push(context, hk_text("logits"));
    return HK_OK;
}

// The result of each row, as JSON. Runs on many threads at once.
static int32_t HK_ABI decode(void* self, const hk_decode_input* input, void(HK_ABI* push)(void* context, hk_string json),
                             void* context, hk_error* error) {
    const hk_output* logits = hk_find_output(input, "logits");
    (void)self;
    if (logits == NULL || logits->rank != 2) return hk_fail(error, HK_INVALID_ARGUMENT, "there are no logits [rows, labels] to read");
    const int64_t labels = logits->dims[1];
    const size_t room = 64 + (size_t)labels * 32;
    char* json = malloc(room);
    if (json == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    for (uint32_t row = 0; row < input->row_count; ++row) {
        const float* scores = logits->values + row * labels;
        int64_t best = 0;
        double sum = 0.0;
        for (int64_t i = 1; i < labels; ++i)
            if (scores[i] > scores[best]) best = i;
        for (int64_t i = 0; i < labels; ++i) sum += exp((double)scores[i] - scores[best]);
        size_t size = (size_t)snprintf(json, room, "{\"label\": %lld, \"probabilities\": [", (long long)best);
        for (int64_t i = 0; i < labels; ++i) {
            // In billionths: %.9g writes a comma where the host's locale has one.
            const double share = exp((double)scores[i] - scores[best]) / sum;
            const unsigned long long parts = share > 0.0 ? (unsigned long long)(share * 1e9 + 0.5) : 0;
            size += (size_t)snprintf(json + size, room - size, "%s%llu.%09llu", i > 0 ? ", " : "", parts / 1000000000, parts % 1000000000);
        }
        snprintf(json + size, room - size, "]}");
        push(context, hk_text(json));
    }
    free(json);
    return HK_OK;
}

static const hk_head table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .decode_ports = decode_ports,
    .decode = decode,
};

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "%NAME%", &table});
