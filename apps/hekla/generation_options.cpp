#include "generation_options.hpp"

namespace hekla::app {

int GenerationChoice::weights() const { return dtype == "f16" ? 1 : dtype == "bf16" ? 2 : 0; }

hk_generate_options GenerationChoice::chosen(hk::Views& views) const {
    hk_generate_options all = options;
    const bool likeliest = greedy || all.temperature == 0.0;
    all.greedy = likeliest ? 1 : 0;
    if (likeliest) all.temperature = 1.0;
    all.published = as_published ? HK_PUBLISHED_ALL : 0;
    for (const auto& [option, bits] : published)
        if (option->count() > 0) all.published &= ~bits;
    all.weights = weights();
    all.stop_texts = views.of(stop_texts);
    all.stop_text_count = stop_texts.size();
    all.logit_biases = views.of(logit_biases);
    all.logit_bias_count = logit_biases.size();
    return all;
}

void add_generation_options(CLI::App& parser, GenerationChoice& choice) {
    hk_generate_options& o = choice.options;
    parser.add_option("--max-new-tokens", o.max_new_tokens, "length limit in tokens")->capture_default_str();
    const auto publish = [&](const CLI::Option* option, int32_t bits) { choice.published.emplace_back(option, bits); };
    parser.add_flag(
        "--as-published", choice.as_published,
        "draw tokens as generation_config.json of the model's folder has it (do_sample, temperature, top_k, "
        "top_p, min_p, repetition_penalty), except what these options are given for; a value for drawing "
        "(--temperature 0.7) draws");
    publish(parser.add_flag("--greedy", choice.greedy, "always take the most likely token"), HK_PUBLISHED_SAMPLING);
    publish(parser
                .add_option("--temperature", o.temperature,
                            "divides the logits: above 1 more varied, below 1 more predictable text; 0: as --greedy")
                ->capture_default_str(),
            HK_PUBLISHED_TEMPERATURE | HK_PUBLISHED_SAMPLING);
    publish(parser.add_option("--top-k", o.top_k, "sample from the K most likely tokens; 0: from all")
                ->capture_default_str(),
            HK_PUBLISHED_TOP_K | HK_PUBLISHED_SAMPLING);
    publish(parser
                .add_option("--top-p", o.top_p,
                            "sample from the most likely tokens whose probabilities add up to P; 1: from all")
                ->capture_default_str(),
            HK_PUBLISHED_TOP_P | HK_PUBLISHED_SAMPLING);
    publish(
        parser
            .add_option(
                "--min-p", o.min_p,
                "sample from tokens that are at least P times as likely as the most likely one, after --temperature, "
                "--top-k and --top-p; 0: from all")
            ->capture_default_str(),
        HK_PUBLISHED_MIN_P | HK_PUBLISHED_SAMPLING);
    publish(parser
                .add_option("--repetition-penalty", o.repetition_penalty,
                            "above 1: tokens that were used become less likely")
                ->capture_default_str(),
            HK_PUBLISHED_REPETITION_PENALTY);
    parser.add_option("--no-repeat-ngram-size", o.no_repeat_ngram_size, "repeat no N-gram; 0: off")
        ->capture_default_str();
    parser
        .add_option("--stop", choice.stop_texts,
                    "text that ends the generated text, without being part of it; may be given several times")
        ->allow_extra_args(false);
    parser
        .add_option(
            "--logit-bias", choice.logit_biases,
            "TOKEN=NUMBER: add the number to the logit of a token, an id or the text of one (\"5\" in quotes is a "
            "text, as in JSON); -inf forbids it; may be given several times")
        ->allow_extra_args(false);
    parser.add_option("--seed", o.seed, "seed of the sampling")->capture_default_str();
    parser
        .add_option(
            "--dtype", choice.dtype,
            "storage of the model's matrices, and of the keys and values of past tokens; 16 bits take half the memory")
        ->check(CLI::IsMember({"f32", "f16", "bf16"}))
        ->capture_default_str();
}

} // namespace hekla::app
