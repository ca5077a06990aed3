#include "generate/options.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::generate {
namespace {

using nlohmann::json;

// Arguments without an effect here: extra outputs, and implementation settings of the reference.
constexpr const char* kWithoutEffect[] = {"use_cache",
                                          "return_dict_in_generate",
                                          "output_scores",
                                          "output_logits",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "renormalize_logits",
                                          "trust_remote_code",
                                          "cache_implementation",
                                          "transformers_version",
                                          "_from_model_config",
                                          "bos_token_id"};

Status wrong(const std::string& key, const json& value, const char* expected) {
    return invalid_argument(fmt::format("{} is {}, expected {}", key, value.dump(), expected));
}

Status ids(const std::string& key, const json& value, std::vector<int32_t>& into) {
    into.clear();
    const json list = value.is_array() ? value : value.is_null() ? json::array() : json::array({value});
    for (const json& id : list) {
        if (!id.is_number_integer()) return wrong(key, value, "a token id, a list of them or null");
        into.push_back(id.get<int32_t>());
    }
    return {};
}

Status id(const std::string& key, const json& value, std::optional<int32_t>& into) {
    std::vector<int32_t> list;
    HK_TRY(ids(key, value, list));
    if (list.size() > 1) return wrong(key, value, "one token id or null");
    into = list.empty() ? std::nullopt : std::optional(list[0]);
    return {};
}

Status number(const std::string& key, const json& value, int64_t& into) {
    if (value.is_null()) return {};
    if (!value.is_number_integer()) return wrong(key, value, "an integer");
    into = value.get<int64_t>();
    return {};
}

Status number(const std::string& key, const json& value, double& into) {
    if (value.is_null()) return {};
    if (!value.is_number()) return wrong(key, value, "a number");
    into = value.get<double>();
    return {};
}

struct Reading {
    Options options;
    std::optional<int64_t> max_length, min_length;
    bool top_k_given = false, max_new_tokens_given = false;

    // Returns whether the key is an argument of generation.
    Result<bool> take(const std::string& key, const json& value) {
        Options& o = options;
        Status status;
        bool is_number = false;
        visit_numbers(
            [&](const char* name, auto& member, auto...) {
                if (key != name) return;
                is_number = true;
                status = number(key, value, member);
            },
            o);
        if (is_number) {
            if (key == "max_new_tokens") max_new_tokens_given = !value.is_null();
            if (key == "top_k") {
                if (value.is_null()) o.top_k = 0;
                top_k_given = true;
            }
        } else if (key == "max_length" || key == "min_length") {
            int64_t length = 0;
            status = number(key, value, length);
            (key == "max_length" ? max_length : min_length) =
                value.is_null() ? std::nullopt : std::optional<int64_t>(length);
        } else if (key == "eos_token_id") {
            status = ids(key, value, o.eos);
        } else if (key == "pad_token_id") {
            status = id(key, value, o.pad);
        } else if (key == "decoder_start_token_id") {
            status = id(key, value, o.decoder_start);
        } else if (key == "forced_bos_token_id") {
            status = id(key, value, o.forced_bos);
        } else if (key == "forced_eos_token_id") {
            status = ids(key, value, o.forced_eos);
        } else if (key == "suppress_tokens") {
            status = ids(key, value, o.suppress);
        } else if (key == "do_sample") {
            if (!value.is_boolean() && !value.is_null()) return wrong(key, value, "true or false");
            o.sample = value.is_boolean() && value.get<bool>();
        } else if (key == "early_stopping") {
            if (value.is_boolean() || value.is_null())
                o.early_stopping =
                    value.is_boolean() && value.get<bool>() ? EarlyStopping::when_full : EarlyStopping::heuristic;
            else if (value == "never")
                o.early_stopping = EarlyStopping::never;
            else
                return wrong(key, value, "true, false or \"never\"");
        } else {
            return false;
        }
        if (!status.ok()) return status;
        return true;
    }
};

bool without_effect(const std::string& key) {
    for (const char* known : kWithoutEffect)
        if (key == known) return true;
    return false;
}

} // namespace

Status check(const Options& o) {
    Status status;
    const auto within = [&](const char* name, int64_t value, int64_t least, int64_t most) {
        if (!status.ok() || (value >= least && value <= most)) return;
        status = invalid_argument(most == std::numeric_limits<int64_t>::max()
                                      ? fmt::format("{} is {}, expected {} or more", name, value, least)
                                      : fmt::format("{} is {}, expected {} to {}", name, value, least, most));
    };
    visit_numbers(
        [&](const char* name, const auto& value, auto... limits) {
            if constexpr (sizeof...(limits) == 2) within(name, value, limits...);
        },
        o);
    HK_TRY(status);
    if (!(o.repetition_penalty > 0.0) || !std::isfinite(o.repetition_penalty))
        return invalid_argument(
            fmt::format("repetition_penalty is {}, expected above 0 (1: off)", o.repetition_penalty));
    if (!(o.temperature > 0.0) || !std::isfinite(o.temperature))
        return invalid_argument(
            fmt::format("temperature is {}, expected above 0; for greedy decoding turn sampling off", o.temperature));
    if (!(o.top_p > 0.0 && o.top_p <= 1.0))
        return invalid_argument(fmt::format("top_p is {}, expected above 0 and at most 1 (1: off)", o.top_p));
    if (!std::isfinite(o.length_penalty))
        return invalid_argument(fmt::format("length_penalty is {}, expected a finite number", o.length_penalty));
    if (o.beams > 1 && o.sample)
        return unsupported("beams and sampling at once: choose beams (num_beams above 1) or sampling (do_sample)");
    if (o.beams > 1 && o.sequences > o.beams)
        return invalid_argument(
            fmt::format("num_return_sequences is {}, expected at most num_beams = {}", o.sequences, o.beams));
    if (o.beams == 1 && !o.sample && o.sequences > 1)
        return invalid_argument(
            fmt::format("num_return_sequences is {}, but without sampling or beams every sequence of "
                        "a prompt is the same; expected 1",
                        o.sequences));
    return {};
}

Result<Options> options_from(const json& config, const json& arguments, int64_t prompt_length) {
    Reading reading;
    if (config.is_object())
        for (const auto& [key, value] : config.items()) HK_TRY(reading.take(key, value).status());
    if (!arguments.is_object() && !arguments.is_null())
        return invalid_argument(fmt::format("generation's arguments are {}, expected an object", arguments.dump()));
    if (arguments.is_object())
        for (const auto& [key, value] : arguments.items()) {
            HK_ASSIGN(const bool known, reading.take(key, value));
            if (!known && !without_effect(key))
                return unsupported(fmt::format("generation has no argument '{}' (given {})", key, value.dump()));
        }
    Options& o = reading.options;
    if (o.sample && !reading.top_k_given) o.top_k = 50; // the reference's default
    if (reading.max_length && !reading.max_new_tokens_given) o.max_new_tokens = *reading.max_length - prompt_length;
    if (reading.min_length) o.min_new_tokens = std::max(o.min_new_tokens, *reading.min_length - prompt_length);
    HK_TRY(check(o));
    return o;
}

void end_as(Options& options, const text::Tokenizer& tokenizer, bool encoder_decoder) {
    std::erase_if(options.eos, [&](int32_t id) { return id >= tokenizer.vocabulary_size(); });
    if (!options.eos.empty()) return;
    std::optional<int32_t> end = tokenizer.special(text::TokenRole::eos);
    if (!end && encoder_decoder) end = tokenizer.special(text::TokenRole::separator);
    if (end) options.eos.push_back(*end);
}

} // namespace hekla::generate
