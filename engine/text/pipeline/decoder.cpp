#include "text/pipeline/decoder.hpp"

#include "base/utf8.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/unicode/byte_alphabet.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace hekla::text {
namespace {

using DecoderKind = DecoderStep::Kind;

constexpr const char* kDecoders =
    "Sequence, ByteLevel, Metaspace, WordPiece, BPEDecoder, Replace, ByteFallback, Fuse, Strip, CTC";

Result<DecoderStep> read_decoder_step(const Section& section) {
    DecoderStep step;
    HK_ASSIGN(const std::string type, section.type());
    if (type == "ByteLevel") {
        HK_TRY(section.check_members({"add_prefix_space", "trim_offsets", "use_regex"}));
        step.kind = DecoderKind::byte_level;
    } else if (type == "Metaspace") {
        HK_TRY(section.check_members({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
        step.kind = DecoderKind::metaspace;
        HK_ASSIGN(const char32_t mark, section.character("replacement", 0x2581));
        append_code_point(step.mark, mark);
        HK_ASSIGN(const bool prefix, section.flag("add_prefix_space", true));
        HK_ASSIGN(const std::string scheme, section.text("prepend_scheme", prefix ? "always" : "never"));
        if (scheme != "always" && scheme != "first" && scheme != "never")
            return section.refused(fmt::format("has \"prepend_scheme\": {}", json_quote(scheme)),
                                   "always, first, never");
        step.drops_first = scheme != "never";
    } else if (type == "WordPiece") {
        HK_TRY(section.check_members({"prefix", "cleanup"}));
        step.kind = DecoderKind::wordpiece;
        HK_ASSIGN(step.mark, section.text("prefix", "##"));
        HK_ASSIGN(step.cleanup, section.flag("cleanup", true));
    } else if (type == "BPEDecoder") {
        HK_TRY(section.check_members({"suffix"}));
        step.kind = DecoderKind::bpe;
        HK_ASSIGN(step.mark, section.text("suffix", "</w>"));
        if (step.mark.empty()) return section.refused("has an empty \"suffix\"", "any other text");
    } else if (type == "Replace") {
        HK_TRY(section.check_members({"pattern", "content"}));
        step.kind = DecoderKind::replace;
        HK_ASSIGN(step.pattern, section.pattern());
        HK_ASSIGN(step.content, section.text("content", ""));
    } else if (type == "ByteFallback" || type == "Fuse") {
        HK_TRY(section.check_members({}));
        step.kind = type == "Fuse" ? DecoderKind::fuse : DecoderKind::byte_fallback;
    } else if (type == "Strip") {
        HK_TRY(section.check_members({"content", "start", "stop"}));
        step.kind = DecoderKind::strip;
        HK_ASSIGN(const char32_t content, section.character("content", ' '));
        append_code_point(step.mark, content);
        HK_ASSIGN(step.start, section.count("start", 0));
        HK_ASSIGN(step.stop, section.count("stop", 0));
    } else if (type == "CTC") {
        HK_TRY(section.check_members({"pad_token", "word_delimiter_token", "cleanup"}));
        step.kind = DecoderKind::ctc;
        HK_ASSIGN(step.mark, section.text("pad_token", "<pad>"));
        HK_ASSIGN(step.content, section.text("word_delimiter_token", "|"));
        HK_ASSIGN(step.cleanup, section.flag("cleanup", true));
        if (step.mark.empty() || step.content.empty())
            return section.refused("has an empty \"pad_token\" or \"word_delimiter_token\"", "any other texts");
    } else {
        return section.refused("is " + json_quote(type), kDecoders);
    }
    return step;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
        out.append(text, done, at - done);
        out += to;
        done = at + from.size();
    }
    if (done > 0) text = out.append(text, done);
}

// Removes spaces before punctuation and inside contractions of one token.
void clean_up(std::string& token) {
    constexpr std::pair<std::string_view, std::string_view> kSpaced[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kSpaced) replace_all(token, from, to);
}

// Returns the byte of a token like "<0x0A>".
std::optional<char> byte_of_token(std::string_view token) {
    unsigned value = 0;
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    const auto [end, problem] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
    if (problem != std::errc() || end != token.data() + 5) return std::nullopt;
    return static_cast<char>(static_cast<unsigned char>(value));
}

std::string replaced(const DecoderStep& step, std::string_view token) {
    std::string out;
    std::vector<PatternPart> parts;
    // An expression that fails for a token leaves it as it is: decoding never fails.
    if (token.empty() || !step.pattern.find(token, parts).ok()) return std::string(token);
    for (const PatternPart& part : parts)
        out += part.is_match ? std::string_view(step.content) : token.substr(part.begin, part.end - part.begin);
    return out;
}

} // namespace

Result<Decoder> Decoder::read(const Section& section) {
    Decoder out;
    if (section.is_null()) {
        out.steps_.emplace_back();
        out.steps_.back().kind = DecoderKind::spaces;
        return out;
    }
    HK_ASSIGN(const std::vector<Section> steps, section.steps("decoders"));
    for (const Section& one : steps) {
        HK_ASSIGN(DecoderStep step, read_decoder_step(one));
        out.steps_.push_back(std::move(step));
    }
    return out;
}

bool Decoder::has(DecoderStep::Kind kind) const {
    return std::ranges::any_of(steps_, [&](const DecoderStep& step) { return step.kind == kind; });
}

bool Decoder::drops_leading_spaces() const {
    return std::ranges::any_of(steps_, [](const DecoderStep& step) {
        return step.drops_first || (step.kind == DecoderKind::strip && step.start > 0);
    });
}

std::string Decoder::bytes_of(std::string_view token) const {
    std::string text(token);
    for (const DecoderStep& step : steps_) switch (step.kind) {
        case DecoderKind::byte_level: {
            const std::optional<std::string> bytes = alphabet_->bytes(text);
            return bytes ? *bytes : text; // nothing can follow but what changes whole texts
        }
        case DecoderKind::metaspace: replace_all(text, step.mark, " "); break;
        case DecoderKind::wordpiece:
            text = !step.mark.empty() && text.starts_with(step.mark) ? text.substr(step.mark.size()) : " " + text;
            if (step.cleanup) clean_up(text);
            break;
        case DecoderKind::bpe: replace_all(text, step.mark, " "); break;
        case DecoderKind::replace: text = replaced(step, text); break;
        case DecoderKind::byte_fallback:
            if (const std::optional<char> byte = byte_of_token(text)) return std::string(1, *byte);
            break;
        case DecoderKind::ctc:
            replace_all(text, step.mark, "");
            if (step.cleanup) {
                clean_up(text);
                replace_all(text, step.content, " ");
            }
            break;
        case DecoderKind::spaces: text = " " + text; break;
        case DecoderKind::fuse:
        case DecoderKind::strip: break;
        }
    return text;
}

// One step of a text. Tokens arrive whole or, if the steps before join them, in parts of one token.
class DecoderStream::Stage {
public:
    Stage(const DecoderStep& step, const ByteAlphabet& alphabet, bool is_joined)
        : step_(step), alphabet_(alphabet), is_joined_(is_joined) {}

    // Returns whether this and what follows sees the text as one token.
    bool joins() const {
        return is_joined_ || step_.kind == DecoderKind::fuse || step_.kind == DecoderKind::byte_level;
    }

    template<class Next>
    void push(std::string_view token, const Next& next) {
        if (is_joined_ && step_.kind != DecoderKind::fuse) return push_joined(token, next);
        const bool is_first = std::exchange(first_, false);
        switch (step_.kind) {
        case DecoderKind::byte_level: {
            const std::optional<std::string> bytes = alphabet_.bytes(token);
            return next(stream_.push(bytes ? std::string_view(*bytes) : token));
        }
        case DecoderKind::metaspace: {
            std::string text(token);
            replace_all(text, step_.mark, is_first && step_.drops_first ? "" : " ");
            return next(text);
        }
        case DecoderKind::wordpiece: {
            std::string text(token);
            if (!is_first) text = text.starts_with(step_.mark) ? text.substr(step_.mark.size()) : " " + text;
            if (step_.cleanup) clean_up(text);
            return next(text);
        }
        case DecoderKind::bpe: // the last token's suffix does not become a space
            if (!is_first) {
                replace_all(held_, step_.mark, " ");
                next(held_);
            }
            held_ = token;
            return;
        case DecoderKind::replace: return next(replaced(step_, token));
        case DecoderKind::byte_fallback:
            if (const std::optional<char> byte = byte_of_token(token)) {
                held_ += *byte;
                return;
            }
            flush_bytes(next);
            return next(token);
        case DecoderKind::fuse: return next(token);
        case DecoderKind::strip: return next(stripped(token));
        case DecoderKind::ctc:
            if (!is_first && held_ == token) return;
            held_ = token;
            put_ctc(token, next);
            return;
        case DecoderKind::spaces: return next(is_first ? std::string(token) : fmt::format(" {}", token));
        }
    }

    template<class Next>
    void finish(const Next& next) {
        if (is_joined_ && step_.kind != DecoderKind::fuse) return finish_joined(next);
        switch (step_.kind) {
        case DecoderKind::byte_level: next(stream_.finish()); return;
        case DecoderKind::bpe:
            if (first_) return;
            replace_all(held_, step_.mark, "");
            next(held_);
            return;
        case DecoderKind::byte_fallback: flush_bytes(next); return;
        default: return;
        }
    }

private:
    template<class Next>
    void flush_bytes(const Next& next) {
        if (held_.empty()) return;
        if (find_invalid_utf8(held_) == held_.size()) {
            next(held_);
        } else {
            for (std::size_t i = 0; i < held_.size(); ++i) next(kReplacement);
        }
        held_.clear();
    }

    template<class Next>
    void put_ctc(std::string_view token, const Next& next) {
        std::string text(token);
        replace_all(text, step_.mark, "");
        if (step_.cleanup) {
            clean_up(text);
            replace_all(text, step_.content, " ");
        }
        if (!text.empty()) next(text);
    }

    std::string stripped(std::string_view token) const {
        for (std::size_t i = 0; i < step_.start && token.starts_with(step_.mark); ++i)
            token.remove_prefix(step_.mark.size());
        for (std::size_t i = 0; i < step_.stop && token.ends_with(step_.mark); ++i)
            token.remove_suffix(step_.mark.size());
        return std::string(token);
    }

    // A part of the one token that the text is. What cannot be decided before its end is held back.
    template<class Next>
    void push_joined(std::string_view part, const Next& next) {
        if (step_.kind == DecoderKind::strip) {
            held_ += part;
            std::string_view rest = held_;
            while (at_start_ < step_.start && rest.starts_with(step_.mark)) {
                rest.remove_prefix(step_.mark.size());
                ++at_start_;
            }
            if (!rest.empty() && !step_.mark.starts_with(rest)) at_start_ = step_.start;
            std::size_t kept = rest.size(); // marks at the end may be those to strip
            for (std::size_t i = 0; i < step_.stop && rest.substr(0, kept).ends_with(step_.mark); ++i)
                kept -= step_.mark.size();
            if (at_start_ < step_.start) kept = 0;
            const std::string ready(rest.substr(0, kept));
            held_ = std::string(rest.substr(kept));
            if (!ready.empty()) next(ready);
        } else if (step_.kind == DecoderKind::replace && is_one_character(step_.pattern.text())) {
            next(replaced(step_, part));
        } else if (step_.kind == DecoderKind::metaspace) {
            std::string text(part);
            replace_all(text, step_.mark, step_.drops_first ? "" : " ");
            next(text);
        } else if (step_.kind == DecoderKind::spaces) {
            next(part); // there is one token
        } else {
            held_ += part;
        }
    }

    template<class Next>
    void finish_joined(const Next& next) {
        switch (step_.kind) {
        case DecoderKind::strip: {
            std::string_view rest = held_;
            for (std::size_t i = 0; i < step_.stop && rest.ends_with(step_.mark); ++i)
                rest.remove_suffix(step_.mark.size());
            next(rest);
            return;
        }
        case DecoderKind::byte_level: {
            const std::optional<std::string> bytes = alphabet_.bytes(held_);
            next(stream_.push(bytes ? *bytes : held_) + stream_.finish());
            return;
        }
        case DecoderKind::replace:
            if (!held_.empty()) next(replaced(step_, held_));
            return;
        case DecoderKind::wordpiece:
            if (step_.cleanup) clean_up(held_);
            next(held_);
            return;
        case DecoderKind::bpe:
            replace_all(held_, step_.mark, "");
            next(held_);
            return;
        case DecoderKind::ctc: put_ctc(held_, next); return;
        case DecoderKind::byte_fallback: {
            const std::optional<char> byte = byte_of_token(held_);
            const std::string text = byte ? std::string(1, *byte) : held_;
            next(find_invalid_utf8(text) == text.size() ? std::string_view(text) : kReplacement);
            return;
        }
        default: return;
        }
    }

    static bool is_one_character(std::string_view text) {
        return !text.empty() && first_code_point(text).size == text.size();
    }

    const DecoderStep& step_;
    const ByteAlphabet& alphabet_;
    bool is_joined_;
    bool first_ = true;
    std::size_t at_start_ = 0; // strip: how many were removed; its `start` once something else came
    std::string held_;
    Utf8Stream stream_;
};

DecoderStream::DecoderStream(std::shared_ptr<const Decoder> decoder) : decoder_(std::move(decoder)) {
    bool is_joined = false;
    for (const DecoderStep& step : decoder_->steps()) {
        stages_.push_back(std::make_unique<Stage>(step, decoder_->alphabet(), is_joined));
        is_joined = stages_.back()->joins();
    }
}

DecoderStream::DecoderStream(const DecoderStream& other) : decoder_(other.decoder_) {
    for (const std::unique_ptr<Stage>& stage : other.stages_) stages_.push_back(std::make_unique<Stage>(*stage));
}
DecoderStream::DecoderStream(DecoderStream&&) noexcept = default;
DecoderStream& DecoderStream::operator=(DecoderStream&&) noexcept = default;
DecoderStream::~DecoderStream() = default;

// Passes a part to a stage, and what that returns to those after it.
void DecoderStream::through(std::size_t stage, std::string_view part, std::string& out) {
    if (stage == stages_.size()) {
        out += part;
    } else {
        stages_[stage]->push(part, [&](std::string_view next) { through(stage + 1, next, out); });
    }
}

std::string DecoderStream::push(std::string_view token) {
    std::string out;
    through(0, token, out);
    return out;
}

std::string DecoderStream::finish() {
    std::string out;
    for (std::size_t i = 0; i < stages_.size(); ++i)
        stages_[i]->finish([&](std::string_view next) { through(i + 1, next, out); });
    return out;
}

} // namespace hekla::text
