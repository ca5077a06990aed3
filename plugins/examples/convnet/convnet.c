// convnet: classes of small images, by two convolutions with batch normalization. The pixels are the tokens of a row.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct model {
    int64_t vocabulary, width, side, labels;
} model;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "side", &m.side, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "num_labels", &m.labels, error)) != HK_OK) return code;
    model* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = m;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// A buffer [width] that begins with one number; 0 without memory for the numbers.
static hk_value filled_buffer(hk_builder* g, const char* name, const char* part, int64_t width, double value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", name, part);
    double* values = malloc((size_t)width * sizeof *values);
    if (values == NULL) return 0;
    for (int64_t i = 0; i < width; ++i) values[i] = value;
    const hk_value made = hk.graph->buffer(g, hk_text(key), HK_KIND_FLOAT, &width, 1, values);
    free(values);
    return made;
}

// a x + b y
static hk_value weighed(hk_builder* g, double a, hk_value x, double b, hk_value y) {
    const hk_value first = hk_mul(G, x, hk_like(g, x, a)), second = hk_mul(G, y, hk_like(g, y, b));
    return hk_add(G, first, second);
}

// Training normalizes with the batch's statistics and moves the running ones, which evaluation reads.
static hk_value batch_norm(hk_builder* g, hk_value x, const char* name) {
    const int64_t axes[] = {0, 1, 2}, width = hk_dim(g, x, 3);
    char key[128];
    const hk_value running_mean = filled_buffer(g, name, "running_mean", width, 0.0);
    const hk_value running_var = filled_buffer(g, name, "running_var", width, 1.0);
    hk_value center = running_mean, variance = running_var;
    if (hk.graph->mode(g) == HK_MODE_TRAIN) {
        const double count = (double)(hk_dim(g, x, 0) * hk_dim(g, x, 1) * hk_dim(g, x, 2));
        center = hk_mean(G, x, axes, 3, NULL);
        const hk_value apart = hk_sub(G, x, center);
        variance = hk_mean(G, hk_mul(G, apart, apart), axes, 3, NULL);
        hk_buffer_update(G, running_mean, weighed(g, 0.9, running_mean, 0.1, center));
        hk_buffer_update(G, running_var, weighed(g, 0.9, running_var, 0.1 * count / (count - 1.0), variance));
    }
    const hk_value apart = hk_sub(G, x, center);
    const hk_value scale = hk_rsqrt(G, hk_add(G, variance, hk_like(g, variance, 1e-5)));
    const hk_value normalized = hk_mul(G, apart, scale);
    snprintf(key, sizeof key, "%s.weight", name);
    const hk_value gained = hk_mul(G, normalized, hk_constant(g, key, &width, 1, 1.0));
    snprintf(key, sizeof key, "%s.bias", name);
    return hk_add(G, gained, hk_constant(g, key, &width, 1, 0.0));
}

// A convolution of 3 x 3 pixels, batch normalization, ReLU: x [B, H, W, C].
static hk_value block(const model* m, hk_builder* g, hk_value x, const char* name) {
    char key[128];
    const int64_t dims[] = {m->width, m->width, 3, 3}, one = 1;
    snprintf(key, sizeof key, "%s.weight", name);
    const hk_value weight = hk_normal(g, key, dims, 4, 0.2);
    hk_conv2d_options options = hk_conv2d_defaults();
    options.padding = &one;
    options.padding_count = 1;
    snprintf(key, sizeof key, "%s.norm", name);
    return hk_relu(G, batch_norm(g, hk_conv2d(G, x, weight, &options), key));
}

static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const hk_value ids = hk_input(g, "input_ids");
    const int64_t words[] = {m->vocabulary, m->width}, pixels = m->side * m->side, two = 2;
    const int64_t image[] = {hk_dim(g, ids, 0), m->side, m->side, m->width};
    const int64_t rows[] = {hk_dim(g, ids, 0), -1, m->width};
    hk_value x = hk_embedding(G, hk_normal(g, "pixels.weight", words, 2, 0.5), ids, NULL);
    if (hk.graph->has_field(g, hk_text("attention_mask"))) { // 0 where padding follows the pixels
        const int64_t mask[] = {hk_dim(g, ids, 0), hk_dim(g, ids, 1), 1};
        const hk_value real = hk_cast(G, hk_input(g, "attention_mask"), HK_KIND_FLOAT);
        x = hk_mul(G, x, hk_reshape(G, real, mask, 3));
    }
    if (pixels > hk_dim(g, ids, 1)) {
        hk_pad_options options = hk_pad_defaults();
        options.after = pixels - hk_dim(g, ids, 1);
        x = hk_pad(G, x, 1, &options);
    }
    x = hk_reshape(G, hk_slice(G, x, 1, 0, pixels, NULL), image, 4);
    x = hk_max_pool2d(G, block(m, g, x, "conv1"), &two, 1, NULL);
    x = block(m, g, x, "conv2");
    hk.graph->offer(g, hk_text("hidden"), hk_reshape(G, x, rows, 3));
    return hk_done(g, error);
}

static int32_t HK_ABI build_head(void* self, hk_builder* g, hk_string head, hk_error* error) {
    const model* m = self;
    const int64_t axis = 1;
    if (!hk_same(head, "classes")) return HK_NOT_FOUND;
    const hk_value of_row = hk_mean(G, hk_ask(g, "hidden"), &axis, 1, NULL);
    hk.graph->offer(g, hk_text("logits"), hk_linear_layer(g, of_row, "out", m->labels, 1));
    return hk_done(g, error);
}

static int32_t HK_ABI write_config(void* self, hk_config_writer* out, hk_error* error) {
    const model* m = self;
    const hk_config_interface* config = hk.config;
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("convnet"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("side"), m->side, error);
    return code == HK_OK ? config->set_integer(out, hk_text("num_labels"), m->labels, error) : code;
}

static const hk_architecture table = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "convnet", &table});
