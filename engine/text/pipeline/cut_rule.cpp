#include "text/pipeline/cut_rule.hpp"

#include "base/utf8.hpp"
#include "text/files/spiece_shape.hpp"
#include "text/gpt2_words.hpp"
#include "text/pipeline/known_expressions.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace hekla::text {
namespace {

// What a pipeline has done so far with a place where the text could be cut.
struct CutState {
    std::string space = " "; // what the space is now
    bool before_space = true;
    bool after_newline = true;
    bool is_split_before_space = false; // there is a boundary of pieces, whatever is done later
    bool is_split_after_newline = false;
    bool needs_break = false;
    bool chinese_has_spaces = false;
};

void follow(const NormalizerStep& step, CutState& state) {
    using Kind = NormalizerStep::Kind;
    switch (step.kind) {
    case Kind::form:
    case Kind::lower_case:
    case Kind::strip_accents: return; // neither combine a space with a letter nor a newline
    case Kind::bert:
        if (step.clean_text || step.chinese) state.after_newline = false; // a newline becomes a space, or one is added
        state.chinese_has_spaces = state.chinese_has_spaces || step.chinese;
        return;
    case Kind::nmt: state.after_newline = false; return;
    case Kind::replace:
        // One character by a text, each for itself. A longer text or an expression could reach over the place.
        if (step.pattern.text() == " " && state.space == " ") {
            state.space = step.content;
            if (step.content != " " && step.content != kSpacePiece) state.before_space = false;
        } else if (step.pattern.regex() != nullptr && step.pattern.regex()->expression() == " {2,}" &&
                   (step.content == " " || step.content == kSpacePiece)) {
            // A run of spaces is on one side of the place. What is before it stays.
            if (step.content != " ") state.before_space = false; // one space stays a space, and two become a mark
        } else if (step.pattern.text().size() != 1 || step.pattern.text() == "\n") {
            state.before_space = state.after_newline = false;
        } else if (step.content.empty() || step.content.find_first_of(" \n\t\r\v\f") != std::string::npos) {
            state.before_space = state.after_newline = false;
        }
        return;
    case Kind::precompiled:
        state.needs_break = true;
        state.after_newline = false;
        return;
    case Kind::strip:
    case Kind::prepend: // once for each part
    case Kind::byte_level: state.before_space = state.after_newline = false; return;
    }
}

void follow(const PreTokenizerStep& step, CutState& state) {
    using Kind = PreTokenizerStep::Kind;
    const bool is_space = state.space == " ";
    const auto split = [&](bool newline) {
        state.is_split_before_space = true;
        state.is_split_after_newline = state.is_split_after_newline || newline;
    };
    switch (step.kind) {
    case Kind::byte_level:
        if (step.add_prefix_space) {
            if (!state.is_split_after_newline) state.after_newline = false; // the second part would get a space
            if (!is_space && !state.is_split_before_space) state.before_space = false;
        }
        // A run of white space at the end of a part could end otherwise than before a letter.
        if (step.use_regex && is_space) split(false);
        state.space = "\xC4\xA0";
        return;
    case Kind::metaspace:
        if (step.prepend != PreTokenizerStep::Prepend::never) {
            if (!state.is_split_after_newline || step.prepend == PreTokenizerStep::Prepend::first)
                state.after_newline = false;
            if (!is_space && state.space != step.replacement && !state.is_split_before_space)
                state.before_space = false;
        }
        if (is_space) state.space = step.replacement;
        if (step.splits_words && state.space == step.replacement) split(false);
        return;
    case Kind::fixed_length: state.before_space = state.after_newline = false; return;
    case Kind::split: break;
    }
    if (step.type == "WhitespaceSplit" || step.type == "BertPreTokenizer" || step.type == "Whitespace") {
        if (is_space) split(true);
        return;
    }
    if (step.type == "Digits") return; // runs of digits end at white space
    if (step.type == "Punctuation") {
        const SplitBehavior behavior = step.splits.front().second;
        if (behavior == SplitBehavior::merged_with_previous || behavior == SplitBehavior::merged_with_next)
            state.before_space = state.after_newline = false;
        return;
    }
    const auto& [pattern, behavior] = step.splits.front();
    if (const Regex* regex = pattern.regex()) {
        const bool whole = (behavior == SplitBehavior::isolated && !step.invert) ||
                           (behavior == SplitBehavior::removed && step.invert);
        if (whole && words_end_at_spaces(regex->expression()) && is_space) {
            // Those of three steps split digits and Chinese first, and leave the rest to the last.
            if (regex->expression().find("\\s+(?!\\S)") != std::string::npos)
                split(regex->expression().find("\\s*[\\r\\n]") != std::string::npos);
            return;
        }
        if (whole && !step.invert && regex->expression() == "\\n+") { // Gemma 4's
            state.is_split_after_newline = true;
            return;
        }
        if (!step.invert && behavior == SplitBehavior::removed && regex->expression() == kSpieceSpaces && is_space) {
            split(false);
            return;
        }
        if (!state.is_split_before_space) state.before_space = false;
        if (!state.is_split_after_newline) state.after_newline = false;
        return;
    }
    if (pattern.text() == " " && !step.invert) {
        if (!is_space) return; // there are no spaces any more
        if (behavior == SplitBehavior::removed || behavior == SplitBehavior::isolated ||
            behavior == SplitBehavior::merged_with_next)
            split(false);
        else if (!state.is_split_before_space)
            state.before_space = false;
        return;
    }
    if (!state.is_split_before_space) state.before_space = false;
    if (!state.is_split_after_newline) state.after_newline = false;
}

} // namespace

CutRule::CutRule(std::string_view expression) {
    if (!words_end_at_spaces(expression) || expression.find("\\s+(?!\\S)") == std::string_view::npos) return;
    before_space_ = true;
    after_newline_ = expression.find("\\s*[\\r\\n]") != std::string_view::npos;
}

CutRule::CutRule(const Pipeline& pipeline, const WordModel& model, const Vocabulary& vocabulary) {
    CutState state;
    for (const NormalizerStep& step : pipeline.normalizer().steps()) follow(step, state);
    for (const PreTokenizerStep& step : pipeline.pre_tokenizer().steps()) follow(step, state);
    before_space_ = state.before_space && (state.is_split_before_space || model.cuts_before(state.space));
    after_newline_ = state.after_newline && state.is_split_after_newline;
    needs_break_ = state.needs_break;
    chinese_has_spaces_ = state.chinese_has_spaces;
    // Added tokens of the normalized text are not looked for in the original one.
    for (const AddedToken& token : vocabulary.added()) {
        if (!token.normalized) continue;
        const std::string form = pipeline.normalized(token.content);
        const std::size_t inner = form.find_first_of(" \n\t\r", 1), mark = form.find(kSpacePiece, 1);
        if (token.rstrip || token.single_word || inner != std::string::npos || mark != std::string::npos ||
            form.starts_with('\n'))
            before_space_ = after_newline_ = false;
    }
}

bool CutRule::can_cut(std::string_view text, std::size_t at) const {
    const char next = text[at], last = text[at - 1];
    const auto is_letter = [](ClassedCharacter character) {
        return character.kind == WordClass::letter || character.kind == WordClass::number;
    };
    if (next == ' ' && before_space_) {
        const std::size_t before = last_code_point_start(text.substr(0, at));
        if (!is_letter(classed(text, before))) return false;
        if (chinese_has_spaces_ && is_chinese_character(first_code_point(text.substr(before)).value)) return false;
        return !needs_break_ ||
               utf8proc_grapheme_break(static_cast<utf8proc_int32_t>(first_code_point(text.substr(before)).value), ' ');
    }
    if (last == '\n' && after_newline_) return is_letter(classed(text, at));
    return false;
}

} // namespace hekla::text
