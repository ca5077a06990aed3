#include "harness/continuation.hpp"
#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include "infer/texts/prompt_fields.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::harness {
namespace {

using Ids = std::vector<int32_t>;

// Returns the length of a text without white space at its end.
std::size_t trimmed_size(std::string_view text) {
    while (!text.empty()) {
        const std::size_t last = last_code_point_start(text);
        if (!text::is_white_space(first_code_point(text.substr(last)).value)) break;
        text = text.substr(0, last);
    }
    return text.size();
}

bool begins_with(const Ids& ids, const Ids& first) {
    return ids.size() >= first.size() && std::equal(first.begin(), first.end(), ids.begin());
}

Status nothing_to_score(std::size_t pair, const std::string& continuation) {
    return invalid_argument(fmt::format("continuation {} ({}) has no tokens of its own; give a text with at least one",
                                        pair + 1, nlohmann::json(continuation).dump()));
}

} // namespace

Result<ContinuationEncoder> ContinuationEncoder::create(const plugin::Registry& registry, const infer::Model& model) {
    ContinuationEncoder encoder(registry, model);
    HK_ASSIGN(encoder.style_, infer::prompt_style(registry, model));
    HK_ASSIGN(encoder.encodes_, infer::encoder_decoder(model));
    return encoder;
}

Result<Ids> ContinuationEncoder::beginning() const {
    if (!style_.begin.empty()) return style_.begin;
    const text::Tokenizer& tokenizer = *model_->tokenizer;
    for (const text::TokenRole role : {text::TokenRole::bos, text::TokenRole::eos})
        if (const std::optional<int32_t> id = tokenizer.special(role)) return Ids{*id};
    if (const std::optional<int32_t> line = tokenizer.find("\n")) return Ids{*line};
    return invalid_argument("the context is empty, and the tokenizer has neither a token that begins or ends a text "
                            "(bos_token, eos_token) nor a line end: give a context of at least one character");
}

Result<EncodedPairs> ContinuationEncoder::pairs(std::span<const TextPair> pairs) const {
    const text::TextEncoder encoder = infer::text_encoder(*model_);
    EncodedPairs encoded;
    std::vector<std::string> sources;
    const std::string prefix = infer::trained_prefix(model_->config, "prompt");
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const std::size_t kept = trimmed_size(pairs[i].context);
        std::string context = pairs[i].context.substr(0, kept);
        const std::string continuation = pairs[i].context.substr(kept) + pairs[i].continuation;
        infer::LikelihoodRow& row = encoded.rows.emplace_back();
        if (encodes_) {
            HK_ASSIGN(row.ids, encoder.encode(text::TextUse::continuation, continuation));
            if (row.ids.empty()) return nothing_to_score(i, pairs[i].continuation);
            row.from = 0;
            sources.push_back(std::move(context));
            continue;
        }
        context = infer::with_prefix(prefix, context);
        HK_ASSIGN(const Ids alone, encoder.encode(text::TextUse::continuation, context));
        HK_ASSIGN(const Ids whole, encoder.encode(text::TextUse::continuation, context + continuation));
        if (whole.size() <= alone.size()) return nothing_to_score(i, pairs[i].continuation);
        if (!begins_with(whole, alone)) ++encoded.joined;
        if (alone.empty()) {
            HK_ASSIGN(row.ids, beginning());
        } else if (!begins_with(whole, style_.begin)) { // unless it was typed
            row.ids = style_.begin;
        }
        row.from = row.ids.size() + alone.size();
        row.ids.insert(row.ids.end(), whole.begin(), whole.end());
    }
    if (!encodes_ || sources.empty()) return encoded;
    HK_ASSIGN(std::vector<Ids> rows, infer::source_ids(*registry_, *model_, sources));
    for (std::size_t i = 0; i < rows.size(); ++i) encoded.rows[i].source = std::move(rows[i]);
    return encoded;
}

Result<std::vector<infer::LikelihoodRow>> ContinuationEncoder::rolling(const std::string& text, int64_t longest) const {
    if (encodes_)
        return unsupported("the likelihood of a whole text needs a language model without an encoder; an "
                           "encoder-decoder scores continuations of a context");
    HK_ASSIGN(const Ids tokens, infer::text_encoder(*model_).encode(text::TextUse::continuation, text));
    if (tokens.empty()) return invalid_argument("the text has no tokens; give at least one character");
    HK_ASSIGN(const Ids before, beginning());
    std::vector<infer::LikelihoodRow> rows;
    const auto most = static_cast<std::size_t>(longest);
    for (std::size_t done = 0; done < tokens.size();) {
        infer::LikelihoodRow& row = rows.emplace_back();
        // The first window begins with the tokens that begin a text, and has room for the others.
        const std::size_t room = done == 0 ? most + 1 - std::min(before.size(), most) : most;
        const std::size_t scored = std::min(tokens.size() - done, room), end = done + scored;
        if (done == 0) {
            row.ids = before;
            row.ids.insert(row.ids.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
        } else {
            const std::size_t begin = end > most + 1 ? end - most - 1 : 0;
            row.ids.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                           tokens.begin() + static_cast<std::ptrdiff_t>(end));
        }
        row.from = row.ids.size() - scored;
        done = end;
    }
    return rows;
}

} // namespace hekla::harness
