#include "text/pipeline/pre_tokenizer.hpp"

#include "base/utf8.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/unicode/byte_alphabet.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

using StepKind = PreTokenizerStep::Kind;

constexpr const char* kPreTokenizers =
    "Sequence, ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace, BertPreTokenizer, "
    "CharDelimiterSplit, FixedLength";

Result<SplitBehavior> read_behavior(const Section& section, const char* otherwise) {
    constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
        {"Removed", SplitBehavior::removed},
        {"Isolated", SplitBehavior::isolated},
        {"MergedWithPrevious", SplitBehavior::merged_with_previous},
        {"MergedWithNext", SplitBehavior::merged_with_next},
        {"Contiguous", SplitBehavior::contiguous}};
    HK_ASSIGN(const std::string given, section.text("behavior", otherwise));
    for (const auto& [name, behavior] : kBehaviors)
        if (given == name) return behavior;
    return section.refused(fmt::format("has \"behavior\": {}", json_quote(given)),
                           "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

Status read_metaspace_step(const Section& section, PreTokenizerStep& step) {
    HK_TRY(section.check_members({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
    step.kind = StepKind::metaspace;
    HK_ASSIGN(const char32_t replacement, section.character("replacement", 0x2581));
    append_code_point(step.replacement, replacement);
    HK_ASSIGN(step.splits_words, section.flag("split", true));
    HK_ASSIGN(const bool prefix, section.flag("add_prefix_space", true));
    HK_ASSIGN(const std::string scheme, section.text("prepend_scheme", prefix ? "always" : "never"));
    using Prepend = PreTokenizerStep::Prepend;
    constexpr std::pair<std::string_view, Prepend> kSchemes[] = {
        {"always", Prepend::always}, {"first", Prepend::first}, {"never", Prepend::never}};
    for (const auto& [name, prepend] : kSchemes)
        if (scheme == name) {
            step.prepend = prepend;
            return {};
        }
    return section.refused(fmt::format("has \"prepend_scheme\": {}", json_quote(scheme)), "always, first, never");
}

bool is_number(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : word_class(c) == WordClass::number; }
// The expression \w+|[^\w\s]+ of "Whitespace": runs of word characters, or of neither these nor white space.
bool is_neither(char32_t c) { return !is_word_character(c) && !is_white_space(c); }

Result<PreTokenizerStep> read_pre_tokenizer_step(const Section& section) {
    PreTokenizerStep step;
    HK_ASSIGN(step.type, section.type());
    const std::string& type = step.type;
    if (type == "ByteLevel") {
        HK_TRY(section.check_members({"add_prefix_space", "trim_offsets", "use_regex"}));
        step.kind = StepKind::byte_level;
        HK_ASSIGN(step.add_prefix_space, section.flag("add_prefix_space", true));
        HK_ASSIGN(step.use_regex, section.flag("use_regex", true));
        HK_TRY(section.flag("trim_offsets", true).status()); // used by the post-processor alone
    } else if (type == "Split") {
        HK_TRY(section.check_members({"pattern", "behavior", "invert"}));
        HK_ASSIGN(Pattern pattern, section.pattern());
        HK_ASSIGN(const SplitBehavior behavior, read_behavior(section, ""));
        HK_ASSIGN(step.invert, section.flag("invert", false));
        step.splits.emplace_back(std::move(pattern), behavior);
    } else if (type == "Digits") {
        HK_TRY(section.check_members({"individual_digits"}));
        HK_ASSIGN(step.individual_digits, section.flag("individual_digits", false));
        step.splits.emplace_back(Pattern::of_characters(is_number),
                                 step.individual_digits ? SplitBehavior::isolated : SplitBehavior::contiguous);
    } else if (type == "Punctuation") {
        HK_TRY(section.check_members({"behavior"}));
        HK_ASSIGN(const SplitBehavior behavior, read_behavior(section, "Isolated"));
        step.splits.emplace_back(Pattern::of_characters(is_bert_punctuation), behavior);
    } else if (type == "Whitespace") {
        HK_TRY(section.check_members({}));
        step.splits.emplace_back(Pattern::of_characters(is_white_space), SplitBehavior::removed);
        step.splits.emplace_back(Pattern::of_characters(is_neither), SplitBehavior::contiguous);
    } else if (type == "WhitespaceSplit") {
        HK_TRY(section.check_members({}));
        step.splits.emplace_back(Pattern::of_characters(is_white_space), SplitBehavior::removed);
    } else if (type == "BertPreTokenizer") {
        HK_TRY(section.check_members({}));
        step.splits.emplace_back(Pattern::of_characters(is_white_space), SplitBehavior::removed);
        step.splits.emplace_back(Pattern::of_characters(is_bert_punctuation), SplitBehavior::isolated);
    } else if (type == "CharDelimiterSplit") {
        HK_TRY(section.check_members({"delimiter"}));
        HK_ASSIGN(const char32_t delimiter, section.character("delimiter", ' '));
        std::string text;
        append_code_point(text, delimiter);
        step.splits.emplace_back(Pattern::of_text(std::move(text)), SplitBehavior::removed);
    } else if (type == "FixedLength") {
        HK_TRY(section.check_members({"length"}));
        step.kind = StepKind::fixed_length;
        HK_ASSIGN(step.length, section.count("length", 5));
        if (step.length == 0) return section.refused("has \"length\": 0", "1 and more");
    } else if (type == "Metaspace") {
        HK_TRY(read_metaspace_step(section, step));
    } else {
        return section.refused("is " + json_quote(type), kPreTokenizers);
    }
    return step;
}

// Appends the pieces that a split leaves of the piece at `base`. `parts` may be changed.
void append_pieces(std::vector<PatternPart>& parts, SplitBehavior behavior, std::size_t base,
                   std::vector<TextPieces::Piece>& out) {
    const auto put = [&](std::size_t begin, std::size_t end) {
        if (end > begin) out.push_back({base + begin, base + end});
    };
    if (behavior == SplitBehavior::removed || behavior == SplitBehavior::isolated) {
        for (const PatternPart& part : parts)
            if (behavior == SplitBehavior::isolated || !part.is_match) put(part.begin, part.end);
        return;
    }
    // The others merge a part with the one before it, or, from the other end, with the one after it.
    const bool backwards = behavior == SplitBehavior::merged_with_next;
    if (backwards) std::ranges::reverse(parts);
    const std::size_t first = out.size();
    std::vector<PatternPart> merged;
    bool before = false; // whether the last part was a match
    for (const PatternPart& part : parts) {
        const bool joins = behavior == SplitBehavior::contiguous ? part.is_match == before : part.is_match && !before;
        if (joins && !merged.empty()) {
            merged.back().begin = std::min(merged.back().begin, part.begin);
            merged.back().end = std::max(merged.back().end, part.end);
        } else {
            merged.push_back(part);
        }
        before = part.is_match;
    }
    for (const PatternPart& part : merged) put(part.begin, part.end);
    if (backwards) std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

Status split_pieces(const PreTokenizerStep& step, TextPieces& pieces) {
    std::vector<PatternPart> parts;
    for (const auto& [pattern, behavior] : step.splits) {
        std::vector<TextPieces::Piece> out;
        out.reserve(pieces.pieces.size());
        for (const TextPieces::Piece& piece : pieces.pieces) {
            HK_TRY(pattern.find(pieces.text.text().substr(piece.begin, piece.end - piece.begin), parts));
            if (step.invert)
                for (PatternPart& part : parts) part.is_match = !part.is_match;
            append_pieces(parts, behavior, piece.begin, out);
        }
        pieces.pieces = std::move(out);
    }
    return {};
}

Status apply_byte_level(const PreTokenizerStep& step, TextPieces& pieces) {
    if (step.add_prefix_space) {
        AlignedText spaced = pieces.text.emptied();
        for (TextPieces::Piece& piece : pieces.pieces) {
            const std::size_t begin = spaced.size();
            if (pieces.text.text()[piece.begin] == ' ')
                spaced.append(pieces.text, piece.begin, piece.end);
            else
                spaced.append_prefixed(" ", pieces.text, piece.begin, piece.end);
            piece = {begin, spaced.size()};
        }
        pieces.text = std::move(spaced);
    }
    if (step.use_regex) {
        const Splitter splitter = Splitter::gpt2();
        std::vector<TextPieces::Piece> words;
        for (const TextPieces::Piece& piece : pieces.pieces)
            HK_TRY(splitter.split(pieces.text.text().substr(piece.begin, piece.end - piece.begin),
                                  [&](std::size_t begin, std::size_t end) {
                                      words.push_back({piece.begin + begin, piece.begin + end});
                                      return Status();
                                  }));
        pieces.pieces = std::move(words);
    }
    const ByteAlphabet alphabet;
    AlignedText spelled = pieces.text.emptied();
    for (TextPieces::Piece& piece : pieces.pieces) {
        const std::size_t begin = spelled.size();
        spelled.append_spelled(pieces.text, piece.begin, piece.end, alphabet.letters());
        piece = {begin, spelled.size()};
    }
    pieces.text = std::move(spelled);
    return {};
}

void apply_metaspace(const PreTokenizerStep& step, TextPieces& pieces) {
    using Prepend = PreTokenizerStep::Prepend;
    const std::string& mark = step.replacement;
    AlignedText marked = pieces.text.emptied();
    std::vector<TextPieces::Piece> out;
    bool is_first = true;
    for (const TextPieces::Piece& piece : pieces.pieces) {
        const std::string_view old = pieces.text.text().substr(piece.begin, piece.end - piece.begin);
        const std::size_t begin = marked.size();
        const bool begins_marked = old.front() == ' ' || old.starts_with(mark);
        const bool at_origin = pieces.text.is_aligned() ? pieces.text.origin(piece.begin, piece.end).begin == 0
                                                        : is_first && piece.begin == 0 && pieces.text.begins_original();
        is_first = false;
        std::size_t at = 0;
        if (!begins_marked && (step.prepend == Prepend::always || (step.prepend == Prepend::first && at_origin))) {
            at = first_code_point(old).size;
            marked.append_prefixed(mark, pieces.text, piece.begin, piece.begin + at);
        }
        while (at < old.size()) {
            const std::size_t space = std::min(old.find(' ', at), old.size());
            marked.append(pieces.text, piece.begin + at, piece.begin + space);
            if (space == old.size()) break;
            marked.append_inserted(mark, pieces.text, piece.begin + space + 1);
            at = space + 1;
        }
        if (!step.splits_words) {
            out.push_back({begin, marked.size()});
            continue;
        }
        const std::string_view all = marked.text();
        for (std::size_t from = begin; from < all.size();) { // a word begins at each mark
            const std::size_t mark_size = all.substr(from).starts_with(mark) ? mark.size() : 0;
            const std::size_t to = std::min(all.find(mark, from + mark_size), all.size());
            out.push_back({from, to});
            from = to;
        }
    }
    pieces.text = std::move(marked);
    pieces.pieces = std::move(out);
}

void apply_fixed_length(const PreTokenizerStep& step, TextPieces& pieces) {
    std::vector<TextPieces::Piece> out;
    const std::string_view text = pieces.text.text();
    for (const TextPieces::Piece& piece : pieces.pieces)
        for (std::size_t begin = piece.begin; begin < piece.end;) {
            std::size_t end = begin;
            for (std::size_t i = 0; i < step.length && end < piece.end; ++i)
                end += first_code_point(text.substr(end)).size;
            out.push_back({begin, end});
            begin = end;
        }
    pieces.pieces = std::move(out);
}

} // namespace

Result<PreTokenizer> PreTokenizer::read(const Section& section) {
    PreTokenizer out;
    HK_ASSIGN(const std::vector<Section> steps, section.steps("pretokenizers"));
    for (const Section& one : steps) {
        HK_ASSIGN(PreTokenizerStep step, read_pre_tokenizer_step(one));
        out.steps_.push_back(std::move(step));
    }
    return out;
}

bool PreTokenizer::has(PreTokenizerStep::Kind kind) const {
    return std::ranges::any_of(steps_, [&](const PreTokenizerStep& step) { return step.kind == kind; });
}

Status PreTokenizer::apply(TextPieces& pieces) const {
    for (const PreTokenizerStep& step : steps_) {
        switch (step.kind) {
        case StepKind::byte_level: HK_TRY(apply_byte_level(step, pieces)); break;
        case StepKind::split: HK_TRY(split_pieces(step, pieces)); break;
        case StepKind::metaspace: apply_metaspace(step, pieces); break;
        case StepKind::fixed_length: apply_fixed_length(step, pieces); break;
        }
    }
    return {};
}

} // namespace hekla::text
