// The members of option structs by name, without callbacks: for capturing calls, replaying them and keeping copies.
// A visitor takes (name, member) for numbers and strings, list(name, strings, count), and rows(name, rows, lengths,
// count).
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
#pragma once

#include "hekla/plan.h"
#include "hekla/session.h"

// clang-format off
namespace hekla::api {

template<class V>
void visit_fields(V& v, hk_train_options& o) {
    v("recipe", o.recipe);
    v.list("overrides", o.overrides, o.override_count);
}

template<class V>
void visit_fields(V& v, hk_evaluate_options& o) {
    v("test", o.test);
    v("recipe", o.recipe);
    v.list("overrides", o.overrides, o.override_count);
    v.list("adapters", o.adapters, o.adapter_count);
}

template<class V>
void visit_fields(V& v, hk_predict_options& o) {
    v("reference", o.reference);
    v("model", o.model);
    v("batch", o.batch);
    v("length", o.length);
    v.list("texts", o.texts, o.text_count);
    if (o.second_texts != nullptr || v.reads()) v.list("second_texts", o.second_texts, o.text_count);
    v("file", o.file);
    v("format", o.format);
    v.list("columns", o.columns, o.column_count);
    v.list("adapters", o.adapters, o.adapter_count);
}

template<class V>
void visit_fields(V& v, hk_generate_options& o) {
    v("greedy", o.greedy);
    v("model", o.model);
    v.list("prompts", o.prompts, o.prompt_count);
    v("max_new_tokens", o.max_new_tokens);
    v("beams", o.beams);
    v("top_k", o.top_k);
    v("temperature", o.temperature);
    v("top_p", o.top_p);
    v("repetition_penalty", o.repetition_penalty);
    v("no_repeat_ngram_size", o.no_repeat_ngram_size);
    v("seed", o.seed);
    v("reference", o.reference);
    v("slide_context", o.slide_context);
    v("weights", o.weights);
    v("echo_prompt", o.echo_prompt);
    v.list("adapters", o.adapters, o.adapter_count);
    if (o.prompt_adapters != nullptr || v.reads()) v.list("prompt_adapters", o.prompt_adapters, o.prompt_count);
    v("adapter_slots", o.adapter_slots);
    v("adapter_rank", o.adapter_rank);
    v("adapter_targets", o.adapter_targets);
    v("chat_template", o.chat_template);
    v("chat_date", o.chat_date);
    v("min_p", o.min_p);
    v.list("stop_texts", o.stop_texts, o.stop_text_count);
    v.list("logit_biases", o.logit_biases, o.logit_bias_count);
    v("likeliest_tokens", o.likeliest_tokens);
    v("published", o.published);
}

template<class V>
void visit_fields(V& v, hk_embed_options& o) {
    v("reference", o.reference);
    v("model", o.model);
    v("port", o.port);
    v("pooling", o.pooling);
    v("batch", o.batch);
    v.list("texts", o.texts, o.text_count);
    v.rows("rows", o.rows, o.row_lengths, o.row_count);
    v("fields_file", o.fields_file);
    v.list("adapters", o.adapters, o.adapter_count);
    v("prompt", o.prompt);
    v("plain_tokens", o.plain_tokens);
}

template<class V>
void visit_fields(V& v, hk_session_options& o) {
    v("microseconds", o.microseconds);
    v("length", o.length);
}

template<class V>
void visit_fields(V& v, hk_forward_options& o) {
    v("attention", o.attention);
    v("model", o.model);
    v("rows", o.rows);
    v("length", o.length);
    v.list("ports", o.ports, o.port_count);
    v("lens", o.lens);
    v("decoder_length", o.decoder_length);
}

template<class V>
void visit_fields(V& v, hk_plan_options& o) {
    v("mode", o.mode);
    v("recipe", o.recipe);
    v.list("overrides", o.overrides, o.override_count);
    v("model", o.model);
    v("rows", o.rows);
    v("length", o.length);
    v.list("ports", o.ports, o.port_count);
    v("attention", o.attention);
    v("weights", o.weights);
    v("measure", o.measure);
    v("adapters_by_row", o.adapters_by_row);
    v.list("adapters", o.adapters, o.adapter_count);
    v("adapter_slots", o.adapter_slots);
    v("adapter_rank", o.adapter_rank);
    v("adapter_targets", o.adapter_targets);
    v("ranks", o.ranks);
    v("nodes", o.nodes);
    v("link_bytes_per_second", o.link_bytes_per_second);
    v("link_latency", o.link_latency);
}

// The members that are settings of the same name in generate::options_from().
template<class V>
void visit_settings(V&& v, const hk_generate_options& o) {
    v("max_new_tokens", o.max_new_tokens);
    v("top_k", o.top_k);
    v("temperature", o.temperature);
    v("top_p", o.top_p);
    v("repetition_penalty", o.repetition_penalty);
    v("no_repeat_ngram_size", o.no_repeat_ngram_size);
    v("min_p", o.min_p);
}

} // namespace hekla::api
