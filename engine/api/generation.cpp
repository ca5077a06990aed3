#include "api/generation.hpp"

#include "api/boundary.hpp"
#include "api/call_fields.hpp"
#include "base/json.hpp"
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/settings.hpp"
#include "generate/stop_texts.hpp"
#include "generate/token_scores.hpp"
#include "graph/shape.hpp"
#include "infer/open/open_model.hpp"
#include "infer/open/weights_folder.hpp"
#include "infer/texts/chat.hpp"
#include "infer/texts/logit_bias.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "plugin/composition/model_names.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

namespace hekla::api {

Result<std::unique_ptr<Generation>> Generation::open(const CallEnvironment& environment, const hk_generate_options& o) {
    return infer::open_newest(string_of(o.model),
                              [&](const std::filesystem::path& model) { return open(environment, o, model); });
}

Result<std::unique_ptr<Generation>> Generation::open(const CallEnvironment& environment, const hk_generate_options& o,
                                                     const std::filesystem::path& model) {
    std::unique_ptr<Generation> g(new Generation(environment, o));
    infer::AdapterUses adapters;
    HK_TRY(g->read_adapters(adapters));
    HK_ASSIGN(g->model_, infer::open_model(environment.registry, environment.device, model,
                                           {.head = "lm",
                                            .weights = static_cast<program::Storage>(o.weights),
                                            .panels = environment.weights == nullptr,
                                            .adapters = std::move(adapters),
                                            .adapters_by_row = !g->adapter_of_.empty(),
                                            .slots = {o.adapter_slots, o.adapter_rank, string_of(o.adapter_targets)},
                                            .pool = environment.weights,
                                            .may_wait = environment.own_threads,
                                            .stop = environment.stop},
                                           environment.log));
    const infer::Model& m = g->model_;
    HK_ASSIGN(g->style_, infer::prompt_style(environment.registry, m));
    HK_ASSIGN(g->logit_bias_, infer::parse_logit_biases(*m.tokenizer, texts(o.logit_biases, o.logit_bias_count)));
    if (m.runtime == nullptr) {
        HK_ASSIGN(g->decoder_, generate::make_reference_decoder(*m.composition, m.parameters));
    } else {
        HK_ASSIGN(g->decoder_, generate::make_program_decoder(*m.runtime, *m.store, *m.composition));
    }
    HK_TRY(g->open_chat());
    HK_TRY(g->check_published());
    return g;
}

Status Generation::check_published() const {
    if (options_.published == 0) return {};
    const std::string& file = model_.generation.file;
    if (!model_.generation.published)
        return invalid_argument(
            fmt::format("{}: has no {} whose settings could be used, expected one: choose how tokens "
                        "are drawn with the other options",
                        model_.path.string(), generate::kSettingsFile));
    if (const std::vector<std::string> others = generate::unsupported_settings(model_.generation.values);
        !others.empty())
        environment_.log.warning(
            fmt::format("{}: these settings are not supported, and not used: {}", file, fmt::join(others, ", ")));
    return {};
}

void Generation::set_arguments(nlohmann::json& arguments) const {
    const hk_generate_options& o = options_;
    int32_t published = o.published;
    bool sample = o.greedy == 0;
    if ((published & HK_PUBLISHED_SAMPLING) != 0) {
        const auto found = model_.generation.values.find("do_sample");
        sample = found != model_.generation.values.end() && *found == true;
    }
    if (!sample) published &= HK_PUBLISHED_REPETITION_PENALTY; // the others are of the draw
    const std::map<std::string_view, int32_t> bits{{"temperature", HK_PUBLISHED_TEMPERATURE},
                                                   {"top_k", HK_PUBLISHED_TOP_K},
                                                   {"top_p", HK_PUBLISHED_TOP_P},
                                                   {"min_p", HK_PUBLISHED_MIN_P},
                                                   {"repetition_penalty", HK_PUBLISHED_REPETITION_PENALTY}};
    visit_settings(
        [&](const char* name, const auto& value) {
            const auto bit = bits.find(name);
            if (bit == bits.end() || (published & bit->second) == 0) arguments[name] = value;
        },
        o);
    arguments["do_sample"] = sample && o.beams <= 1;
    arguments["num_beams"] = std::max<int64_t>(o.beams, 1);
    arguments["num_return_sequences"] = 1;
}

Status Generation::open_chat() {
    const std::string wanted = string_of(options_.chat_template);
    if (wanted.empty()) return {};
    if (decoder_->encoder_decoder())
        return unsupported(
            "hk_generate_options.chat_template is set, and the model is an encoder-decoder: it reads texts, "
            "not conversations");
    HK_ASSIGN(chat_, infer::chat_template_of(model_, wanted, string_of(options_.chat_date)));
    HK_ASSIGN(turn_end_, chat_->turn_end(*model_.tokenizer));
    return {};
}

Result<std::vector<int32_t>> Generation::chat_prompt(const std::string& messages) const {
    const nlohmann::ordered_json list = ordered_json_or_null(messages);
    HK_ASSIGN(const std::string text, chat_->render(list, true, model_.tokenizer->vocabulary()));
    return text::chat_ids(*model_.tokenizer, text);
}

Status Generation::read_adapters(infer::AdapterUses& uses) {
    const hk_generate_options& o = options_;
    HK_ASSIGN(uses, infer::parse_adapter_uses(texts(o.adapters, o.adapter_count)));
    const std::vector<infer::AdapterUse>& adapters = uses.each;
    for (uint64_t i = 0; o.prompt_adapters != nullptr && i < o.prompt_count; ++i) {
        const std::string name = string_of(o.prompt_adapters[i]);
        const auto found = std::ranges::find(adapters, name, &infer::AdapterUse::name);
        if (found == adapters.end() && !name.empty()) {
            std::vector<std::string> names;
            for (const infer::AdapterUse& adapter : adapters) names.push_back(adapter.name);
            return invalid_argument(fmt::format("prompt {}: '{}' is not an adapter; expected one of {}, or none", i + 1,
                                                name, fmt::join(names, ", ")));
        }
        adapter_of_.push_back(name.empty() ? -1 : found - adapters.begin());
        adapter_scale_.push_back(name.empty() ? 1.0 : found->scale);
    }
    if (o.adapter_slots == 0 || !adapter_of_.empty()) return {};
    adapter_of_.assign(std::max<std::size_t>(o.prompt_count, 1), -1);
    adapter_scale_.assign(adapter_of_.size(), 1.0);
    return {};
}

generate::Fields Generation::adapter_fields() const {
    generate::Fields fields;
    if (adapter_of_.empty()) return fields;
    const graph::Shape shape{static_cast<int64_t>(adapter_of_.size())};
    fields[plugin::kAdapterRows] = {graph::Kind::int32, shape, {adapter_of_.begin(), adapter_of_.end()}};
    fields[plugin::kAdapterScales] = {graph::Kind::float32, shape, adapter_scale_};
    return fields;
}

void Generation::set_row(std::size_t row, int64_t slot, double scale) {
    adapter_of_[row] = slot;
    adapter_scale_[row] = scale;
}

Status Generation::fill_slot(int64_t slot, const std::vector<std::vector<float>>& values) {
    std::vector<program::ParameterStore::Part> parts;
    for (std::size_t i = 0; i < values.size(); ++i)
        parts.push_back({model_.slot_parameters[i].name, static_cast<uint64_t>(slot) * values[i].size(), values[i]});
    return model_.store->upload(parts);
}

Result<generate::Request> Generation::request_of(const std::vector<std::string>& prompts) const {
    generate::Request request;
    if (decoder_->encoder_decoder()) {
        if (prompts.empty()) return invalid_argument("an encoder-decoder reads a text: give at least one prompt");
        HK_ASSIGN(infer::SourceRows rows, infer::source_rows(environment_.registry, model_, prompts));
        request.prompts = std::move(rows.ids);
        request.fields = std::move(rows.fields);
        request.fields.merge(adapter_fields());
        return request;
    }
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        Result<std::vector<int32_t>> ids =
            chat_ ? chat_prompt(prompts[i]) : infer::prompt_ids(model_, style_, prompts[i]);
        if (!ids.ok()) return chat_ ? ids.status().with_context(fmt::format("prompt {}", i + 1)) : ids.status();
        request.prompts.push_back(ids.take());
    }
    if (prompts.empty()) { // the beginning of a text, or else after a line end
        Result<std::vector<int32_t>> begin = infer::prompt_ids(model_, style_, "");
        request.prompts.push_back(begin.ok() ? begin.take()
                                             : std::vector<int32_t>{model_.tokenizer->find("\n").value_or(0)});
    }
    request.fields = adapter_fields();
    return request;
}

void Generation::tell_token(std::size_t row, std::span<const float> logits, int32_t token) const {
    const text::Tokenizer& tokenizer = *model_.tokenizer;
    const auto scores = generate::score_tokens(logits, token, static_cast<std::size_t>(options_.likeliest_tokens));
    std::vector<std::string> texts;
    for (const generate::TokenScore& score : scores) // a model may have more ids than its tokenizer
        texts.push_back(score.token < tokenizer.vocabulary_size() ? tokenizer.text_of(score.token, false) : "");
    std::vector<hk_token_score> likeliest;
    for (std::size_t i = 1; i < scores.size(); ++i)
        likeliest.push_back({view(texts[i]), scores[i].log_probability, scores[i].token});
    hk_generated_token told{};
    told.struct_size = sizeof told;
    told.id = token;
    told.text = view(texts[0]);
    told.log_probability = scores[0].log_probability;
    told.likeliest = likeliest.data();
    told.likeliest_count = likeliest.size();
    options_.token(options_.user, row, &told);
}

Result<generate::Output> Generation::write(const Round& round) {
    const hk_generate_options& o = options_;
    HK_ASSIGN(generate::Request request, request_of(round.prompts));
    request.length = round.length;
    request.both_sides = style_.both_sides;
    if (round.prepared) request.begun = [&] { return round.prepared(*decoder_); };
    if (round.between)
        request.changed = [&]() -> Result<std::optional<generate::FieldChange>> {
            HK_ASSIGN(std::optional<std::vector<std::size_t>> computed, round.between());
            if (!computed) return std::optional<generate::FieldChange>();
            return std::optional(generate::FieldChange{adapter_fields(), std::move(*computed)});
        };
    nlohmann::json arguments = nlohmann::json::object();
    set_arguments(arguments);
    HK_ASSIGN(generate::Options options,
              generate::options_from(model_.generation.values, arguments,
                                     static_cast<int64_t>(request.prompts[0].size()), model_.generation.file));
    options.seed = o.seed;
    options.logit_bias = logit_bias_;
    options.slide_context = o.slide_context != 0;
    const bool encodes = decoder_->encoder_decoder();
    generate::end_as(options, *model_.tokenizer, encodes);
    if (turn_end_) options.eos.push_back(*turn_end_);
    for (const std::string& stop : stop_texts_) // special tokens are not part of the text
        if (const auto id = model_.tokenizer->find(stop); id && model_.tokenizer->vocabulary().is_special(*id))
            options.eos.push_back(*id);
    if (o.echo_prompt != 0 && !encodes && o.text != nullptr)
        for (std::size_t row = 0; row < round.prompts.size(); ++row) o.text(o.user, row, view(round.prompts[row]));

    std::vector<text::StreamDecoder> streams(request.prompts.size(), text::StreamDecoder(*model_.tokenizer, true));
    for (std::size_t row = 0; row < round.prompts.size() && !encodes; ++row) // the first generated word follows a word
        for (const int32_t id : request.prompts[row]) static_cast<void>(streams[row].push(id));
    std::vector<generate::StopTexts> stops(streams.size(), generate::StopTexts(stop_texts_));
    if (!stop_texts_.empty()) request.ended = [&](std::size_t row) { return stops[row].found(); };
    if (o.token != nullptr)
        request.chosen_from = [&](std::size_t row, std::span<const float> logits, int32_t token) {
            tell_token(row, logits, token);
        };
    const bool writes = o.text != nullptr || !stop_texts_.empty();
    const auto write_text = [&](std::size_t row, const std::string& piece) {
        if (o.text != nullptr && !piece.empty()) o.text(o.user, row, view(piece));
    };
    const auto on_token = [&](std::size_t row, int32_t token) {
        if (writes) write_text(row, stops[row].push(streams[row].push(token)));
        if (round.token) round.token();
        return true;
    };
    const auto stop = [&] { return environment_.stop.stopped() || (o.stop != nullptr && o.stop(o.user) != 0); };
    HK_ASSIGN(generate::Output output, generate::generate(*decoder_, request, options, on_token, stop));
    for (std::size_t row = 0; row < streams.size(); ++row) {
        write_text(row, stops[row].push(streams[row].finish()));
        write_text(row, stops[row].finish());
    }
    return output;
}

} // namespace hekla::api
