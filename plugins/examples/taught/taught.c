// taught: a language model with a teacher, which has the student's weights averaged over steps (Tarvainen and Valpola
// 2017). The objective taught_next adds the squared distance of the student's logits from the teacher's; evaluation and
// generation use the teacher.
#include "hekla_plugin.h"

#include <stdlib.h>

#define G hk.graph, g // what every operation begins with

typedef struct model {
    int64_t vocabulary, width;
    double decay;
} model;

typedef struct weights {
    hk_value words, up, down;
} weights;

static int32_t HK_ABI create(const hk_config* config, void** self, hk_error* error) {
    model m;
    int32_t code;
    if ((code = hk_read_integer(config, "vocab_size", &m.vocabulary, error)) != HK_OK) return code;
    if ((code = hk_read_integer(config, "hidden_size", &m.width, error)) != HK_OK) return code;
    if ((code = hk_read_real(config, "decay", &m.decay, error)) != HK_OK) return code;
    model* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = m;
    *self = made;
    return HK_OK;
}

static void HK_ABI destroy(void* self) { free(self); }

// x + down gelu(up x)
static hk_value network(hk_builder* g, weights w, hk_value ids) {
    const hk_value x = hk_embedding(G, w.words, ids, NULL);
    const hk_value inner = hk_gelu(G, hk_linear(G, x, w.up, NULL), NULL);
    return hk_add(G, x, hk_linear(G, inner, w.down, NULL));
}

// The average from before the step; a step moves it toward `value`.
static hk_value averaged(const model* m, hk_builder* g, const char* name, hk_value value, const int64_t* dims,
                         uint32_t rank) {
    int64_t elements = 1;
    for (uint32_t i = 0; i < rank; ++i) elements *= dims[i];
    double* zeros = calloc((size_t)elements, sizeof *zeros);
    if (zeros == NULL) return 0;
    const hk_value average = hk.graph->buffer(g, hk_text(name), HK_KIND_FLOAT, dims, rank, zeros);
    free(zeros);
    if (hk.graph->mode(g) == HK_MODE_TRAIN) {
        const hk_value kept = hk_mul(G, average, hk_like(g, average, m->decay));
        const hk_value added = hk_mul(G, value, hk_like(g, value, 1.0 - m->decay));
        hk_buffer_update(G, average, hk_add(G, kept, added));
    }
    return average;
}

static int32_t HK_ABI build(void* self, hk_builder* g, hk_error* error) {
    const model* m = self;
    const int training = hk.graph->mode(g) == HK_MODE_TRAIN;
    const int64_t one = 1, table[] = {m->vocabulary, m->width}, wide[] = {4 * m->width, m->width},
                  tall[] = {m->width, 4 * m->width};
    const hk_value ids = hk_input(g, "input_ids");
    weights student, teacher;
    student.words = hk_normal(g, "words.weight", table, 2, 0.1);
    student.up = hk_normal(g, "up.weight", wide, 2, 0.1);
    student.down = hk_normal(g, "down.weight", tall, 2, 0.1);
    // Of the averages, which begin with zeros, this part is known: 0 before the first step, and nearly 1 later.
    const hk_value known = averaged(m, g, "average.known", hk.graph->fill(g, HK_KIND_FLOAT, &one, 1, 1.0), &one, 1);
    const hk_value divisor = hk_maximum(G, known, hk_like(g, known, 1e-6));
    teacher.words = hk_div(G, averaged(m, g, "average.words", student.words, table, 2), divisor);
    teacher.up = hk_div(G, averaged(m, g, "average.up", student.up, wide, 2), divisor);
    teacher.down = hk_div(G, averaged(m, g, "average.down", student.down, tall, 2), divisor);
    const hk_value of_teacher = network(g, teacher, ids);
    hk.graph->offer(g, hk_text("hidden"), training ? network(g, student, ids) : of_teacher);
    hk.graph->offer(g, hk_text("embedding.weight"), training ? student.words : teacher.words);
    hk.graph->offer(g, hk_text("average.logits"), hk_linear(G, of_teacher, teacher.words, NULL));
    hk.graph->offer(g, hk_text("average.known"), known);
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
    int32_t code = config->set_text(out, hk_text("model_type"), hk_text("taught"), error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("vocab_size"), m->vocabulary, error);
    if (code == HK_OK) code = config->set_integer(out, hk_text("hidden_size"), m->width, error);
    return code == HK_OK ? config->set_real(out, hk_text("decay"), m->decay, error) : code;
}

static const hk_architecture architecture = {
    .create = create,
    .destroy = destroy,
    .build = build,
    .build_head = build_head,
    .write_config = write_config,
};

typedef struct objective {
    double weight;
} objective;

static int32_t HK_ABI next_create(const hk_config* config, const hk_tokenizer* tokenizer, void** self,
                                  hk_error* error) {
    objective read;
    (void)tokenizer;
    const int32_t code = hk_read_real(config, "weight", &read.weight, error);
    if (code != HK_OK) return code;
    objective* made = malloc(sizeof *made);
    if (made == NULL) return hk_fail(error, HK_OUT_OF_MEMORY, "out of memory");
    *made = read;
    *self = made;
    return HK_OK;
}

static int32_t HK_ABI next_kind(void* self) { return (void)self, HK_EXAMPLE_WINDOW; }
static int64_t HK_ABI next_tokens(void* self, int64_t length) { return (void)self, length + 1; }

static int32_t HK_ABI next_fields(void* self, int64_t batch, int64_t length,
                                  void(HK_ABI* push)(void* context, const hk_field* field), void* context,
                                  hk_error* error) {
    const hk_field ids = hk_int_field("input_ids", batch, length), next = hk_int_field("next_ids", batch, length);
    (void)self, (void)error;
    push(context, &ids);
    push(context, &next);
    return HK_OK;
}

static int32_t HK_ABI next_collate(void* self, const hk_batch* batch, hk_field* all, uint32_t count, hk_error* error) {
    const hk_field* ids = hk_find_field(all, count, "input_ids", HK_KIND_INT32);
    const hk_field* next = hk_find_field(all, count, "next_ids", HK_KIND_INT32);
    (void)self;
    if (ids == NULL || next == NULL)
        return hk_fail(error, HK_FAILED_PRECONDITION, "the batch lacks input_ids or next_ids");
    const int64_t rows = next->dims[0], width = next->dims[1];
    for (int64_t i = 0; i < rows * width; ++i) ((int32_t*)next->data)[i] = HK_IGNORED;
    for (uint32_t row = 0; row < batch->example_count; ++row) {
        const hk_column* text = hk_find_column(hk_example_at(batch, row), "text");
        if (text == NULL) return hk_fail(error, HK_INVALID_ARGUMENT, "the example has no column 'text'");
        for (int64_t t = 0; t < width && (uint64_t)t + 1 < text->size; ++t) {
            ((int32_t*)ids->data)[row * width + t] = text->ids[t];
            ((int32_t*)next->data)[row * width + t] = text->ids[t + 1];
        }
    }
    return HK_OK;
}

static int32_t HK_ABI next_build(void* self, hk_builder* g, hk_error* error) {
    const int64_t axis = 2;
    const hk_value logits = hk_ask(g, "logits"), labels = hk_input(g, "next_ids");
    const hk_value counts = hk_compare(G, labels, hk_like(g, labels, HK_IGNORED), 1); // 1: not equal
    const hk_value count = hk_sum_all(g, counts);
    hk.graph->loss(g, hk_text("next"), hk_sum_all(g, hk_cross_entropy(G, logits, labels, NULL)), count, 1.0);
    if (hk.graph->mode(g) != HK_MODE_TRAIN) return hk_done(g, error);
    const hk_value apart = hk_sub(G, logits, hk_ask(g, "average.logits"));
    const hk_value squares = hk_mean(G, hk_mul(G, apart, apart), &axis, 1, NULL);
    const hk_value of_token = hk_mul(G, squares, hk_cast(G, counts, HK_KIND_FLOAT));
    const hk_value weighed = hk_mul(G, of_token, hk_ask(g, "average.known"));
    hk.graph->loss(g, hk_text("teacher"), hk_sum_all(g, weighed), count, ((const objective*)self)->weight);
    return hk_done(g, error);
}

static const hk_objective next = {
    .create = next_create,
    .destroy = destroy,
    .example_kind = next_kind,
    .tokens_per_example = next_tokens,
    .fields = next_fields,
    .build = next_build,
    .collate = next_collate,
};

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "taught", &architecture}, {HK_OBJECTIVE_INTERFACE, "taught_next", &next});
