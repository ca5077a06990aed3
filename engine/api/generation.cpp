#include "api/generation.hpp"

#include "api/boundary.hpp"
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "infer/prompt_fields.hpp"

#include <nlohmann/json.hpp>

namespace hekla::api {
Result<std::unique_ptr<Generation>> Generation::open(const CallEnvironment& place, const hk_generate_options& o) {
    if (o.weights < 0 || o.weights > 2)
        return invalid_argument(
            fmt::format("weights = {}: expected 0 (float32), 1 (float16) or 2 (bfloat16)", o.weights));
    if (o.reference != 0 && o.weights != 0)
        return invalid_argument("the float64 interpreter stores no weights in 16 bits: leave one of the two out");
    std::unique_ptr<Generation> g(new Generation(place, o));
    HK_ASSIGN(g->model_, infer::open_model(place.registry, place.device, string_of(o.model),
                                           {.head = "lm",
                                            .weights = static_cast<program::Storage>(o.weights),
                                            .pool = place.weights,
                                            .may_wait = place.own_threads,
                                            .stopping = place.stopping},
                                           place.log));
    const infer::Model& m = g->model_;
    HK_ASSIGN(g->both_sides_, infer::reads_both_sides(place.registry, m));
    if (m.runtime == nullptr) {
        HK_ASSIGN(g->decoder_, generate::make_reference_decoder(*m.composition, m.parameters));
    } else {
        HK_ASSIGN(g->decoder_, generate::make_program_decoder(*m.runtime, *m.store, *m.composition));
    }
    return g;
}

Result<generate::Request> Generation::request_of(const std::vector<std::string>& prompts) const {
    generate::Request request;
    if (decoder_->encoder_decoder()) {
        if (prompts.empty()) return invalid_argument("an encoder-decoder writes from a text: give a prompt");
        HK_ASSIGN(infer::SourceRows rows, infer::source_rows(place_.registry, model_, prompts));
        request.prompts = std::move(rows.ids);
        request.fields = std::move(rows.fields);
        return request;
    }
    const std::string prefix = infer::trained_prefix(model_.config, "prompt");
    for (const std::string& prompt : prompts) {
        HK_ASSIGN(std::vector<int32_t> ids, model_.tokenizer->encode(infer::with_prefix(prefix, prompt)));
        if (ids.empty()) return invalid_argument("a prompt is empty: give at least one character");
        request.prompts.push_back(std::move(ids));
    }
    // Nothing was said: begin as a text begins, after its end-of-text token, or after a line end.
    const text::Tokenizer& tokenizer = *model_.tokenizer;
    if (prompts.empty())
        request.prompts.push_back({tokenizer.special(text::TokenRole::bos).value_or(tokenizer.find("\n").value_or(0))});
    return request;
}

Result<generate::Output> Generation::say(const Turn& turn) {
    const hk_generate_options& o = options_;
    HK_ASSIGN(generate::Request request, request_of(turn.prompts));
    request.length = turn.length;
    request.both_sides = both_sides_;
    if (turn.begun) request.begun = [&] { return turn.begun(*decoder_); };
    nlohmann::json arguments = nlohmann::json::object();
    arguments["max_new_tokens"] = o.max_new_tokens;
    arguments["do_sample"] = o.greedy == 0 && o.beams <= 1;
    if (o.beams > 1) arguments["num_beams"] = o.beams;
    arguments["temperature"] = o.temperature;
    arguments["top_k"] = o.top_k;
    arguments["top_p"] = o.top_p;
    arguments["repetition_penalty"] = o.repetition_penalty;
    arguments["no_repeat_ngram_size"] = o.no_repeat_ngram_size;
    HK_ASSIGN(generate::Options options,
              generate::options_from(model_.config, arguments, static_cast<int64_t>(request.prompts[0].size())));
    options.seed = o.seed;
    options.slide_context = o.slide_context != 0;
    const bool encodes = decoder_->encoder_decoder();
    generate::end_as(options, *model_.tokenizer, encodes);
    if (o.echo_prompt != 0 && !encodes && o.text != nullptr)
        for (std::size_t row = 0; row < turn.prompts.size(); ++row) o.text(o.user, row, view(turn.prompts[row]));

    std::vector<text::StreamDecoder> streams(request.prompts.size(), text::StreamDecoder(*model_.tokenizer, true));
    const auto on_token = [&](std::size_t row, int32_t token) {
        if (o.text != nullptr && row < streams.size()) {
            const std::string piece = streams[row].push(token);
            if (!piece.empty()) o.text(o.user, row, view(piece));
        }
        if (turn.token) turn.token();
        return true;
    };
    const auto stop = [&] { return place_.stopping() || (o.stop != nullptr && o.stop(o.user) != 0); };
    HK_ASSIGN(generate::Output output, generate::generate(*decoder_, request, options, on_token, stop));
    for (std::size_t row = 0; row < streams.size() && o.text != nullptr; ++row)
        if (const std::string rest = streams[row].finish(); !rest.empty()) o.text(o.user, row, view(rest));
    return output;
}

} // namespace hekla::api
