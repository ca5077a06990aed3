#include "generate/options.hpp"

#include "base/strict_table.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <span>

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

// Settings of transformers' GenerationConfig that change how tokens are computed, not which.
constexpr const char* kOfImplementation[] = {
    "assistant_",         "cache_config",   "chat_format",        "compile_config",     "disable_compile",
    "is_assistant",       "low_memory",     "max_matching_ngram", "max_window_size",    "num_assistant",
    "prefill_chunk_size", "prompt_lookup_", "target_lookbehind",  "use_model_defaults", "continuous_batching"};

// Returns whether a key without an option here changes nothing with this value.
bool is_neutral(const std::string& key, const json& value) {
    if (std::ranges::any_of(kOfImplementation, [&](const char* prefix) { return key.starts_with(prefix); }))
        return true;
    constexpr const char* kOffAtOne[] = {"typical_p", "encoder_repetition_penalty", "guidance_scale",
                                         "num_beam_groups"};
    if (std::ranges::find(kOffAtOne, key) != std::end(kOffAtOne)) return value.is_null() || value == 1;
    if (key.starts_with("_") || value.is_null() || value == false) return true;
    return value.is_number() ? value == 0 : !value.is_boolean() && value.empty();
}

// Reads a token id, or a list of them; null is an empty list. Returns whether the key is given.
bool read_ids(StrictTable& in, const char* key, std::vector<int32_t>& into) {
    const json* value = in.find(key);
    if (value == nullptr) return false;
    into.clear();
    const json list = value->is_array() ? *value : value->is_null() ? json::array() : json::array({*value});
    for (const json& id : list)
        if (id.is_number_integer())
            into.push_back(id.get<int32_t>());
        else
            in.wrong(*value, key, "a token id, a list of them or null");
    return true;
}

// The same for at most one.
void read_id(StrictTable& in, const char* key, std::optional<int32_t>& into) {
    std::vector<int32_t> list;
    if (!read_ids(in, key, list)) return;
    if (list.size() > 1) in.wrong(*in.find(key), key, "one token id or null");
    into = list.empty() ? std::nullopt : std::optional(list[0]);
}

// Reads a number; null changes nothing. Returns whether there is one.
template<class Number>
bool read_number(StrictTable& in, const char* key, Number& into) {
    const json* value = in.find(key);
    return value != nullptr && !value->is_null() && in.take(*value, key, into);
}

// Reads a length; null is none.
void read_length(StrictTable& in, const char* key, std::optional<int64_t>& into) {
    int64_t length = 0;
    if (read_number(in, key, length))
        into = length;
    else if (in.find(key) != nullptr)
        into.reset();
}

struct Reading {
    Options options;
    std::optional<int64_t> max_length, min_length;
    bool top_k_given = false, max_new_tokens_given = false;

    void read(StrictTable& in) {
        Options& o = options;
        visit_numbers([&](const char* key, auto& member, auto...) { read_number(in, key, member); }, o);
        if (const json* count = in.find("max_new_tokens")) max_new_tokens_given = !count->is_null();
        if (const json* top_k = in.find("top_k")) {
            top_k_given = true;
            if (top_k->is_null()) o.top_k = 0;
        }
        read_length(in, "max_length", max_length);
        read_length(in, "min_length", min_length);
        read_ids(in, "eos_token_id", o.eos);
        read_id(in, "pad_token_id", o.pad);
        read_id(in, "decoder_start_token_id", o.decoder_start);
        read_id(in, "forced_bos_token_id", o.forced_bos);
        read_ids(in, "forced_eos_token_id", o.forced_eos);
        read_ids(in, "suppress_tokens", o.suppress);
        if (const json* sample = in.find("do_sample")) {
            o.sample = false;
            if (!sample->is_null()) in.take(*sample, "do_sample", o.sample);
        }
        if (const json* early = in.find("early_stopping")) {
            if (!early->is_boolean() && !early->is_null() && *early != "never")
                in.wrong(*early, "early_stopping", "true, false or \"never\"");
            o.early_stopping = *early == "never" ? EarlyStopping::never
                               : *early == true  ? EarlyStopping::when_full
                                                 : EarlyStopping::heuristic;
        }
        for (const char* key : kWithoutEffect) in.find(key);
    }
};

Status check(std::span<const LogitBias> biases) {
    std::set<int32_t> tokens;
    for (const auto& [token, value] : biases) {
        if (!(value < std::numeric_limits<float>::infinity()))
            return invalid_argument(fmt::format(
                "logit_bias of token {} is {}, expected a finite number, or -inf to forbid the token", token, value));
        if (!tokens.insert(token).second)
            return invalid_argument(
                fmt::format("logit_bias has token {} twice, expected one number for a token", token));
    }
    return {};
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
    HK_TRY(check(o.logit_bias));
    if (!(o.repetition_penalty > 0.0) || !std::isfinite(o.repetition_penalty))
        return invalid_argument(
            fmt::format("repetition_penalty is {}, expected above 0 (1: off)", o.repetition_penalty));
    if (!(o.temperature > 0.0) || !std::isfinite(o.temperature))
        return invalid_argument(
            fmt::format("temperature is {}, expected above 0; for greedy decoding turn sampling off", o.temperature));
    if (!(o.top_p > 0.0 && o.top_p <= 1.0))
        return invalid_argument(fmt::format("top_p is {}, expected above 0 and at most 1 (1: off)", o.top_p));
    if (!(o.min_p >= 0.0 && o.min_p <= 1.0))
        return invalid_argument(fmt::format("min_p is {}, expected 0 to 1 (0: off)", o.min_p));
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

Result<Options> options_from(const json& config, const json& arguments, int64_t prompt_length,
                             const std::string& file) {
    Reading reading;
    TableReading of_folder(file), errors;
    if (config.is_object()) { // other keys of it are not options
        StrictTable in(config, of_folder);
        reading.read(in);
    }
    HK_TRY(of_folder.status());
    const Status folder = check(reading.options);
    if (!arguments.is_object() && !arguments.is_null())
        return invalid_argument(fmt::format("generation's arguments are {}, expected an object", arguments.dump()));
    if (arguments.is_object()) {
        StrictTable in(arguments, errors);
        reading.read(in);
        for (const std::string& key : in.unread())
            if (in.ok())
                return unsupported(
                    fmt::format("generation has no argument '{}' (given {})", key, shown_value(arguments.at(key))));
    }
    HK_TRY(errors.status());
    Options& o = reading.options;
    if (o.sample && !reading.top_k_given) o.top_k = 50; // the reference's default
    if (reading.max_length && !reading.max_new_tokens_given) o.max_new_tokens = *reading.max_length - prompt_length;
    if (reading.min_length) o.min_new_tokens = std::max(o.min_new_tokens, *reading.min_length - prompt_length);
    const Status status = check(o);
    if (status.ok()) return o;
    const bool is_of_folder = !file.empty() && status.message() == folder.message(); // no argument took its place
    return is_of_folder ? status.with_context(file) : status;
}

std::vector<std::string> unsupported_settings(const json& config) {
    std::vector<std::string> all;
    if (!config.is_object()) return all;
    Reading reading;
    TableReading errors;
    StrictTable in(config, errors);
    reading.read(in);
    for (const std::string& key : in.unread())
        if (const json& value = config.at(key); !is_neutral(key, value))
            all.push_back(fmt::format("{} = {}", key, shown_value(value)));
    return all;
}

void end_as(Options& options, const text::Tokenizer& tokenizer, bool encoder_decoder) {
    std::erase_if(options.eos, [&](int32_t id) { return id >= tokenizer.vocabulary_size(); });
    if (!options.eos.empty()) return;
    std::optional<int32_t> end = tokenizer.special(text::TokenRole::eos);
    if (!end && encoder_decoder) end = tokenizer.special(text::TokenRole::separator);
    if (end) options.eos.push_back(*end);
}

} // namespace hekla::generate
