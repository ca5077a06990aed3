// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
#include "hekla/hekla.h"

extern "C" {

void hk_predict_defaults(hk_predict_options* options) {
    if (options == nullptr) return;
    *options = hk_predict_options{};
    options->struct_size = sizeof *options;
}

void hk_generate_defaults(hk_generate_options* options) {
    if (options == nullptr) return;
    *options = hk_generate_options{};
    options->struct_size = sizeof *options;
    options->max_new_tokens = 128;
    options->temperature = 1;
    options->top_p = 1;
    options->repetition_penalty = 1;
    options->slide_context = 1;
}

void hk_embed_defaults(hk_embed_options* options) {
    if (options == nullptr) return;
    *options = hk_embed_options{};
    options->struct_size = sizeof *options;
    options->pooling = HK_POOLING_MODEL;
}

} // extern "C"
