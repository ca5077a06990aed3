#include "text/pipeline/normalizer.hpp"

#include "base/utf8.hpp"
#include "text/files/base64.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/unicode/byte_alphabet.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace hekla::text {
namespace {

constexpr const char* kNormalizers =
    "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, Precompiled, Nmt, "
    "BertNormalizer, ByteLevel";

constexpr char32_t kRemovedCharacter = 0x110000; // not a character

Result<NormalizerStep> read_normalizer_step(const Section& section) {
    using Kind = NormalizerStep::Kind;
    NormalizerStep step;
    HK_ASSIGN(const std::string type, section.type());
    constexpr std::pair<std::string_view, NormalForm> kForms[] = {
        {"NFC", NormalForm::nfc}, {"NFD", NormalForm::nfd}, {"NFKC", NormalForm::nfkc}, {"NFKD", NormalForm::nfkd}};
    for (const auto& [name, form] : kForms)
        if (type == name) {
            HK_TRY(section.check_members({}));
            step.form = form;
            return step;
        }
    constexpr std::pair<std::string_view, Kind> kPlain[] = {{"Lowercase", Kind::lower_case},
                                                            {"StripAccents", Kind::strip_accents},
                                                            {"Nmt", Kind::nmt},
                                                            {"ByteLevel", Kind::byte_level}};
    for (const auto& [name, kind] : kPlain)
        if (type == name) {
            HK_TRY(section.check_members({}));
            step.kind = kind;
            return step;
        }
    if (type == "Strip") {
        HK_TRY(section.check_members({"strip_left", "strip_right"}));
        step.kind = Kind::strip;
        HK_ASSIGN(step.left, section.flag("strip_left", false));
        HK_ASSIGN(step.right, section.flag("strip_right", false));
        return step;
    }
    if (type == "Replace") {
        HK_TRY(section.check_members({"pattern", "content"}));
        step.kind = Kind::replace;
        HK_ASSIGN(step.pattern, section.pattern());
        HK_ASSIGN(step.content, section.text("content", ""));
        return step;
    }
    if (type == "Prepend") {
        HK_TRY(section.check_members({"prepend"}));
        step.kind = Kind::prepend;
        HK_ASSIGN(step.content, section.text("prepend", ""));
        return step;
    }
    if (type == "Precompiled") {
        HK_TRY(section.check_members({"precompiled_charsmap"}));
        step.kind = Kind::precompiled;
        HK_ASSIGN(const std::string map, section.text("precompiled_charsmap", ""));
        const std::optional<std::string> bytes = from_base64(map);
        if (!bytes || !Charsmap::is_sound(*bytes))
            return corrupt(section.refused("has a damaged \"precompiled_charsmap\"", "SentencePiece's").message());
        step.charsmap_bytes = *bytes;
        step.charsmap = std::make_shared<const Charsmap>(*bytes);
        return step;
    }
    if (type == "BertNormalizer") {
        HK_TRY(section.check_members({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
        step.kind = Kind::bert;
        HK_ASSIGN(step.clean_text, section.flag("clean_text", true));
        HK_ASSIGN(step.chinese, section.flag("handle_chinese_chars", true));
        HK_ASSIGN(step.lower, section.flag("lowercase", true));
        HK_ASSIGN(step.accents, section.flag("strip_accents", step.lower));
        return step;
    }
    return section.refused("is " + json_quote(type), kNormalizers);
}

// Replaces each character by value_of(character), or removes it.
template<class ValueOf>
void map_characters(AlignedText& text, const ValueOf& value_of) {
    const std::string_view old = text.text();
    std::vector<std::pair<std::size_t, char32_t>> differ; // position, and what it becomes
    for (std::size_t at = 0; at < old.size();) {
        const CodePoint character = first_code_point(old.substr(at));
        const char32_t value = value_of(character.value);
        if (value != character.value) differ.emplace_back(at, value);
        at += character.size;
    }
    if (differ.empty()) return;
    AlignedText out = text.emptied();
    std::size_t kept = 0;
    for (const auto& [at, value] : differ) {
        out.append(text, kept, at);
        kept = at + first_code_point(old.substr(at)).size;
        const TextChange change{value, 0};
        if (value != kRemovedCharacter) out.append_changed(text, at, kept, {&change, 1});
    }
    out.append(text, kept, old.size());
    text = std::move(out);
}

void put_lower_case(AlignedText& text) {
    const std::string_view old = text.text();
    AlignedText out = text.emptied();
    std::vector<char32_t> lower;
    std::vector<TextChange> changes;
    std::size_t kept = 0;
    for (std::size_t at = 0; at < old.size();) {
        const CodePoint character = first_code_point(old.substr(at));
        const bool is_lower = character.value < 0x80 && (character.value < 'A' || character.value > 'Z');
        if (!is_lower) {
            lower.clear();
            append_lower_case(character.value, lower);
            if (lower.size() != 1 || lower[0] != character.value) {
                changes.clear();
                for (std::size_t i = 0; i < lower.size(); ++i) changes.push_back({lower[i], i == 0 ? 0 : 1});
                out.append(text, kept, at);
                out.append_changed(text, at, at + character.size, changes);
                kept = at + character.size;
            }
        }
        at += character.size;
    }
    if (kept == 0) return;
    out.append(text, kept, old.size());
    text = std::move(out);
}

void strip_spaces(AlignedText& text, bool left, bool right) {
    const std::string_view old = text.text();
    std::size_t begin = 0, end = old.size();
    while (left && begin < end) {
        const CodePoint character = first_code_point(old.substr(begin));
        if (!is_white_space(character.value)) break;
        begin += character.size;
    }
    while (right && end > begin) {
        const std::size_t last = last_code_point_start(old.substr(0, end));
        if (!is_white_space(first_code_point(old.substr(last)).value)) break;
        end = last;
    }
    if (begin == 0 && end == old.size()) return;
    AlignedText out = text.emptied();
    out.append(text, begin, end);
    text = std::move(out);
}

Status replace_matches(AlignedText& text, const Pattern& pattern, std::string_view content) {
    if (text.size() == 0) return {};
    std::vector<PatternPart> parts;
    HK_TRY(pattern.find(text.text(), parts));
    if (parts.size() == 1 && !parts[0].is_match) return {};
    AlignedText out = text.emptied();
    for (const PatternPart& part : parts) {
        if (part.is_match)
            out.append_inserted(content, text, part.end);
        else
            out.append(text, part.begin, part.end);
    }
    text = std::move(out);
    return {};
}

void separate_chinese(AlignedText& text) {
    const std::string_view old = text.text();
    AlignedText out = text.emptied();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < old.size();) {
        const CodePoint character = first_code_point(old.substr(at));
        if (is_chinese_character(character.value)) {
            const TextChange changes[] = {{' ', 0}, {character.value, 1}, {' ', 1}};
            out.append(text, kept, at);
            out.append_changed(text, at, at + character.size, changes);
            kept = at + character.size;
        }
        at += character.size;
    }
    if (kept == 0) return;
    out.append(text, kept, old.size());
    text = std::move(out);
}

char32_t nmt_character(char32_t c) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return kRemovedCharacter;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    return space ? U' ' : c;
}

// Appends `given` as it is replaced by `replacement`: the characters that both have replace each other.
void append_replaced(AlignedText& out, const AlignedText& text, std::size_t begin, std::size_t end,
                     std::string_view replacement, std::vector<TextChange>& changes) {
    const auto count = [](std::string_view s) {
        return static_cast<int32_t>(
            std::ranges::count_if(s, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
    };
    const int32_t more = count(replacement) - count(text.text().substr(begin, end - begin));
    changes.clear();
    for (std::size_t at = 0; at < replacement.size();) {
        const CodePoint character = first_code_point(replacement.substr(at));
        changes.push_back({character.value, 0});
        at += character.size;
    }
    for (int32_t i = 0; i < more && i < std::ssize(changes); ++i)
        changes[changes.size() - 1 - static_cast<std::size_t>(i)].change = 1;
    if (more < 0 && !changes.empty()) changes.back().change += more;
    out.append_changed(text, begin, end, changes);
}

// SentencePiece's map, as the tokenizers library applies it: to short grapheme clusters as a whole, else to their
// characters, and always by the shortest key that they begin with.
void apply_charsmap(AlignedText& text, const Charsmap& map) {
    const std::string_view old = text.text();
    AlignedText out = text.emptied();
    std::vector<TextChange> changes;
    std::size_t kept = 0;
    const auto replace = [&](std::size_t begin, std::size_t end) {
        const std::optional<std::string_view> found = map.shortest(old.substr(begin, end - begin));
        if (!found) return false;
        out.append(text, kept, begin);
        append_replaced(out, text, begin, end, *found, changes);
        kept = end;
        return true;
    };
    for (std::size_t at = 0; at < old.size();) {
        std::size_t end = at;
        utf8proc_int32_t state = 0;
        char32_t last = 0;
        while (end < old.size()) { // to the end of the cluster
            const CodePoint character = first_code_point(old.substr(end));
            if (end > at && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                                             static_cast<utf8proc_int32_t>(character.value), &state))
                break;
            last = character.value;
            end += character.size;
        }
        constexpr std::size_t kShort = 6;
        if (end - at >= kShort || !replace(at, end))
            for (std::size_t i = at; i < end;) {
                const std::size_t size = first_code_point(old.substr(i)).size;
                replace(i, i + size);
                i += size;
            }
        at = end;
    }
    if (kept == 0) return;
    out.append(text, kept, old.size());
    text = std::move(out);
}

void clean_bert_text(AlignedText& text) {
    map_characters(text, [](char32_t c) {
        return c == 0 || c == 0xFFFD || is_control_character(c) ? kRemovedCharacter : is_white_space(c) ? U' ' : c;
    });
}

Status apply_step(const NormalizerStep& step, AlignedText& text) {
    using Kind = NormalizerStep::Kind;
    switch (step.kind) {
    case Kind::form: normalize(text, step.form); return {};
    case Kind::lower_case: put_lower_case(text); return {};
    case Kind::strip_accents:
        map_characters(text, [](char32_t c) { return is_combining_mark(c) ? kRemovedCharacter : c; });
        return {};
    case Kind::strip: strip_spaces(text, step.left, step.right); return {};
    case Kind::replace: return replace_matches(text, step.pattern, step.content);
    case Kind::prepend:
        if (text.size() > 0) {
            AlignedText out = text.emptied();
            out.append_prefixed(step.content, text, 0, text.size());
            text = std::move(out);
        }
        return {};
    case Kind::precompiled: apply_charsmap(text, *step.charsmap); return {};
    case Kind::nmt: map_characters(text, nmt_character); return {};
    case Kind::bert:
        if (step.clean_text) clean_bert_text(text);
        if (step.chinese) separate_chinese(text);
        if (step.accents) {
            normalize(text, NormalForm::nfd);
            map_characters(text, [](char32_t c) { return is_mark(c) ? kRemovedCharacter : c; });
        }
        if (step.lower) put_lower_case(text);
        return {};
    case Kind::byte_level: {
        const ByteAlphabet alphabet;
        AlignedText out = text.emptied();
        out.append_spelled(text, 0, text.size(), alphabet.letters());
        text = std::move(out);
        return {};
    }
    }
    return internal_error("a normalizer of no kind");
}

} // namespace

Result<Normalizer> Normalizer::read(const Section& section) {
    Normalizer out;
    HK_ASSIGN(const std::vector<Section> steps, section.steps("normalizers"));
    for (const Section& one : steps) {
        HK_ASSIGN(NormalizerStep step, read_normalizer_step(one));
        out.steps_.push_back(std::move(step));
    }
    return out;
}

Status Normalizer::apply(AlignedText& text) const {
    for (const NormalizerStep& step : steps_) HK_TRY(apply_step(step, text));
    return {};
}

} // namespace hekla::text
