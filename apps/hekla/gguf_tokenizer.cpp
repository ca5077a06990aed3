#include "gguf_tokenizer.hpp"

#include "text/byte_bpe.hpp"
#include "text/chat_template.hpp"
#include "text/files/spiece_shape.hpp"
#include "text/pipeline/known_expressions.hpp"
#include "text/pipeline/pipeline_tokenizer.hpp"
#include "text/sentencepiece.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// llama.cpp's token types.
constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

std::string unused(int64_t id) { return fmt::format("[unused{}]", id); }

struct Tokens {
    std::vector<std::string> spelled;
    std::vector<int32_t> kinds;
    std::vector<std::string> merges;
    std::string expression = "gpt-2"; // for characters no merge crosses a boundary, so any expression works
    std::vector<float> scores;        // of SentencePiece's pieces; empty: merges
    bool space_before = false;        // SentencePiece: a space is added before each text
};

Tokens tokens_of(const text::Vocabulary& vocabulary, bool characters) {
    const text::ByteAlphabet alphabet;
    Tokens tokens;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        const bool added = vocabulary.is_added(id);
        tokens.kinds.push_back(!vocabulary.has(id)         ? kUnused
                               : vocabulary.is_special(id) ? kControl
                               : added                     ? kUserDefined
                                                           : kNormal);
        tokens.spelled.push_back(!vocabulary.has(id)    ? unused(id)
                                 : characters && !added ? alphabet.spell(vocabulary.bytes(id))
                                                        : std::string(vocabulary.token(id)));
    }
    return tokens;
}

// Merges the bytes of each character from left to right.
void merge_characters(const text::Vocabulary& vocabulary, std::vector<std::string>& merges) {
    const text::ByteAlphabet alphabet;
    std::set<std::string> known;
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.has(id) || vocabulary.is_added(id)) continue;
        const std::string_view bytes = vocabulary.bytes(id);
        for (std::size_t i = 1; i < bytes.size(); ++i) {
            const std::string merge = alphabet.spell(bytes.substr(0, i)) + ' ' + alphabet.spell(bytes.substr(i, 1));
            if (known.insert(merge).second) merges.push_back(merge);
        }
    }
}

// SentencePiece's merges over characters, which llama.cpp derives from the scores of the pieces. Its token types are
// SentencePiece's own.
Result<Tokens> pieces_of(const text::SpieceModel& model, const text::Vocabulary& vocabulary, bool space_before,
                         const std::string& where) {
    if (model.kind != text::SpieceModel::Kind::bpe)
        return unsupported(
            fmt::format("{}: its SentencePiece model is not BPE; llama.cpp splits other kinds differently", where));
    Tokens tokens = tokens_of(vocabulary, false);
    tokens.scores.resize(tokens.spelled.size(), 0.0f);
    for (std::size_t id = 0; id < model.pieces.size() && id < tokens.spelled.size(); ++id) {
        tokens.spelled[id] = model.pieces[id].text;
        tokens.kinds[id] = static_cast<int32_t>(model.pieces[id].type);
        tokens.scores[id] = model.pieces[id].score;
    }
    tokens.space_before = space_before;
    return tokens;
}

// What llama.cpp splits a text by, under one of its names.
struct Split {
    std::vector<std::string> expressions; // one after the other
    bool ignores_merges = false;
};

Status add_expressions(const text::PreTokenizerStep& step, const std::string& where, Split& split) {
    if (step.type == "Digits" && step.individual_digits) {
        split.expressions.emplace_back(R"(\p{N})");
        return {};
    }
    const text::Regex* regex = step.splits.empty() ? nullptr : step.splits.front().first.regex();
    const bool whole =
        step.type == "Split" && regex != nullptr &&
        step.splits.front().second == (step.invert ? text::SplitBehavior::removed : text::SplitBehavior::isolated);
    if (!whole)
        return unsupported(
            fmt::format("{}: the pre-tokenizer {} of its tokenizer cannot be expressed in GGUF; llama.cpp "
                        "knows Digits one by one, and Split by expressions",
                        where, step.type));
    split.expressions.push_back(regex->expression());
    return {};
}

// Finds llama.cpp's name. `ignores_merges` is a property of the name as well.
Result<std::string> name_of(const Split& split, const std::string& where) {
    std::string listed;
    for (const std::string& one : split.expressions) listed += (listed.empty() ? "" : ", ") + one;
    for (const text::KnownExpressions& known : text::known_expressions())
        if (std::ranges::equal(known.expressions, split.expressions) && known.ignores_merges == split.ignores_merges)
            return std::string(known.name);
    return unsupported(fmt::format("{}: the tokenizer splits texts by expressions that llama.cpp has no name for{}: {}",
                                   where, split.ignores_merges ? " together with \"ignore_merges\"" : "",
                                   listed.empty() ? "none" : listed));
}

Status refuse_prefix_space(const std::string& where) {
    return unsupported(
        fmt::format("{}: the tokenizer adds a space before a text (\"add_prefix_space\"), which llama.cpp "
                    "does not do for byte-level BPE",
                    where));
}

// Byte-level BPE of a tokenizer.json.
Result<std::string> byte_level_name(const text::Pipeline& pipeline, const std::string& where, const Log& log) {
    using Kind = text::NormalizerStep::Kind;
    for (const text::NormalizerStep& step : pipeline.normalizer().steps()) {
        if (step.kind != Kind::form || step.form != text::NormalForm::nfc)
            return unsupported(
                fmt::format("{}: llama.cpp has no normalizer for byte-level BPE, and the tokenizer has one: {}", where,
                            pipeline.section("normalizer").dump()));
        log.warning(
            fmt::format("{}: the tokenizer composes texts first (NFC), and llama.cpp does not: it has other ids "
                        "for texts with combining marks",
                        where));
    }
    Split split;
    split.ignores_merges = pipeline.model().ignore_merges;
    const std::vector<text::PreTokenizerStep>& steps = pipeline.pre_tokenizer().steps();
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) HK_TRY(add_expressions(steps[i], where, split));
    if (steps.empty() || steps.back().kind != text::PreTokenizerStep::Kind::byte_level)
        return unsupported(fmt::format("{}: the pre-tokenizer {} cannot be expressed in GGUF", where,
                                       pipeline.section("pre_tokenizer").dump()));
    if (steps.back().add_prefix_space) return refuse_prefix_space(where);
    if (steps.back().use_regex) split.expressions.emplace_back(text::kGpt2Pattern);
    HK_ASSIGN(std::string name, name_of(split, where));
    if (name == "gpt-4o" || name == "tekken")
        log.warning(
            fmt::format("{}: the tokenizer keeps combining marks (\\p{{M}}) with their letters, and llama.cpp's "
                        "\"{}\" does not: it has other ids for texts with them, such as vocalized Arabic",
                        where, name));
    return name;
}

// BPE over characters of a tokenizer.json, which llama.cpp calls "llama".
Result<Tokens> character_pieces(const text::PipelineTokenizer& tokenizer, const std::string& where, const Log& log) {
    const text::Pipeline& pipeline = *tokenizer.pipeline();
    const auto refuse = [&](const char* section) {
        return unsupported(fmt::format("{}: llama.cpp cannot express the {} of the tokenizer: {}", where, section,
                                       pipeline.section(section).dump()));
    };
    if (const auto shape = text::spiece_shape(pipeline, tokenizer.vocabulary(), tokenizer.tables())) {
        if (!shape->preparation.is_none() || !shape->squeezed.empty()) return refuse("normalizer");
        if (!shape->model.charsmap.empty() || shape->model.remove_extra_whitespaces)
            log.warning(fmt::format(
                "{}: SentencePiece normalizes texts and removes repeated spaces, and llama.cpp does not", where));
        return pieces_of(shape->model, tokenizer.vocabulary(),
                         shape->model.add_dummy_prefix && shape->spaces != text::SpaceRule::never, where);
    }
    bool marks = false, prefix = false;
    for (const text::NormalizerStep& step : pipeline.normalizer().steps()) {
        using Kind = text::NormalizerStep::Kind;
        if (step.kind == Kind::prepend && step.content == text::kSpacePiece)
            prefix = true;
        else if (step.kind == Kind::replace && step.pattern.text() == " " && step.content == text::kSpacePiece)
            marks = true;
        else
            return refuse("normalizer");
    }
    for (const text::PreTokenizerStep& step : pipeline.pre_tokenizer().steps()) {
        using Kind = text::PreTokenizerStep::Kind;
        if (step.kind == Kind::metaspace && step.replacement == text::kSpacePiece && !step.splits_words) {
            marks = true;
            prefix = prefix || step.prepend != text::PreTokenizerStep::Prepend::never;
        } else if (!marks || step.type != "Split" || step.splits.front().first.text() != " ") { // no space is left
            return refuse("pre_tokenizer");
        }
    }
    const auto model = text::spiece_model_of(pipeline, tokenizer.vocabulary(), tokenizer.tables());
    if (!marks || !model)
        return unsupported(fmt::format("{}: the merges of its tokenizer do not follow from scores of its tokens, as "
                                       "llama.cpp takes them",
                                       where));
    return pieces_of(*model, tokenizer.vocabulary(), prefix, where);
}

Result<Tokens> read_tokens(const text::Tokenizer& tokenizer, const std::string& where, const Log& log) {
    const text::Vocabulary& vocabulary = tokenizer.vocabulary();
    if (const auto* pieces = dynamic_cast<const text::SentencePiece*>(&tokenizer)) {
        if (!pieces->model().charsmap.empty() || pieces->model().remove_extra_whitespaces)
            log.warning(fmt::format(
                "{}: SentencePiece normalizes texts and removes repeated spaces, and llama.cpp does not", where));
        return pieces_of(pieces->model(), vocabulary, pieces->model().add_dummy_prefix, where);
    }
    Tokens tokens = tokens_of(vocabulary, tokenizer.kind() == "character");
    if (tokenizer.kind() == "character") {
        merge_characters(vocabulary, tokens.merges);
        return tokens;
    }
    const auto* bpe = dynamic_cast<const text::ByteBpe*>(&tokenizer);
    const auto* general = dynamic_cast<const text::PipelineTokenizer*>(&tokenizer);
    if (general != nullptr && tokenizer.kind() == "sentencepiece") return character_pieces(*general, where, log);
    if (bpe == nullptr && (general == nullptr || tokenizer.kind() != "byte_bpe"))
        return unsupported(
            fmt::format("{}: a tokenizer of the kind {} cannot be written as GGUF", where, tokenizer.kind()));
    if (tokenizer.pipeline() != nullptr) {
        HK_ASSIGN(tokens.expression, byte_level_name(*tokenizer.pipeline(), where, log));
    } else if (bpe->options().add_prefix_space) {
        return refuse_prefix_space(where);
    }
    const text::Merges& merges = bpe != nullptr ? bpe->merges() : general->tables().merges;
    for (const text::Merge& merge : merges.list())
        tokens.merges.push_back(fmt::format("{} {}", vocabulary.token(merge.left), vocabulary.token(merge.right)));
    return tokens;
}

// Returns the token that a tokenizer puts before or after a text. Error: several.
Result<std::optional<uint32_t>> token_around(const std::vector<int32_t>& tokens, const char* side,
                                             const text::Vocabulary& vocabulary, const std::string& where) {
    if (tokens.empty()) return std::optional<uint32_t>();
    if (tokens.size() == 1) return std::optional(static_cast<uint32_t>(tokens[0]));
    std::string listed;
    for (const int32_t id : tokens) listed += fmt::format(" {}", vocabulary.token(id));
    return unsupported(fmt::format("{}: the tokenizer {} a text with several tokens:{}; llama.cpp adds one at most",
                                   where, side, listed));
}

} // namespace

Status add_tokenizer_keys(const fs::path& folder, const ordered_json& config, int64_t ids, model::GgufKeys& keys,
                          const Log& log) {
    const std::string where = folder.string();
    const Result<std::unique_ptr<text::Tokenizer>> opened = text::load_tokenizer(folder);
    if (!opened.ok() && opened.code() != Code::not_found) return opened.status();
    if (!opened.ok()) {
        log.warning(fmt::format("{}; the file is written without one: llama.cpp opens it, but cannot read a text",
                                opened.message()));
        keys.emplace_back("tokenizer.ggml.model", "none");
        return {};
    }
    const text::Tokenizer& tokenizer = *opened.value();
    HK_ASSIGN(Tokens tokens, read_tokens(tokenizer, where, log));
    if (std::ssize(tokens.spelled) > ids)
        return invalid_argument(
            fmt::format("{}: the tokenizer has {} tokens, the model {} ids", where, tokens.spelled.size(), ids));
    for (int64_t id = std::ssize(tokens.spelled); id < ids; ++id) {
        tokens.spelled.push_back(unused(id));
        tokens.kinds.push_back(kUnused);
        if (!tokens.scores.empty()) tokens.scores.push_back(0.0f);
    }
    if (tokens.scores.empty()) {
        keys.emplace_back("tokenizer.ggml.model", "gpt2");
        keys.emplace_back("tokenizer.ggml.pre", tokens.expression);
        keys.emplace_back("tokenizer.ggml.merges", std::move(tokens.merges));
    } else {
        keys.emplace_back("tokenizer.ggml.model", "llama");
        keys.emplace_back("tokenizer.ggml.pre", "default");
        keys.emplace_back("tokenizer.ggml.scores", std::move(tokens.scores));
        keys.emplace_back("tokenizer.ggml.add_space_prefix", tokens.space_before);
    }
    keys.emplace_back("tokenizer.ggml.tokens", std::move(tokens.spelled));
    keys.emplace_back("tokenizer.ggml.token_type", std::move(tokens.kinds));
    const auto id_of = [&](const char* key, text::TokenRole role) -> std::optional<uint32_t> {
        ordered_json given = config.value(key, ordered_json());
        if (given.is_array() && !given.empty()) given = ordered_json(given[0]);
        if (given.is_number_unsigned() && given.get<int64_t>() < tokenizer.vocabulary_size())
            return given.get<uint32_t>();
        const std::optional<int32_t> own = tokenizer.special(role);
        return own ? std::optional(static_cast<uint32_t>(*own)) : std::nullopt;
    };
    const text::TextFrame& frame = tokenizer.frame();
    HK_ASSIGN(const std::optional<uint32_t> first, token_around(frame.before, "begins", tokenizer.vocabulary(), where));
    HK_ASSIGN(const std::optional<uint32_t> last, token_around(frame.after, "ends", tokenizer.vocabulary(), where));
    const auto eos = id_of("eos_token_id", text::TokenRole::eos);
    // llama.cpp adds the tokens of these two keys; one that ends a turn only ends generation.
    if (const auto bos = first ? first : id_of("bos_token_id", text::TokenRole::bos))
        keys.emplace_back("tokenizer.ggml.bos_token_id", *bos);
    if (const auto end = last ? last : eos) keys.emplace_back("tokenizer.ggml.eos_token_id", *end);
    if (last && eos && last != eos) keys.emplace_back("tokenizer.ggml.eot_token_id", *eos);
    if (const auto pad = id_of("pad_token_id", text::TokenRole::pad))
        keys.emplace_back("tokenizer.ggml.padding_token_id", *pad);
    if (const auto unknown = tokenizer.special(text::TokenRole::unk))
        keys.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*unknown));
    keys.emplace_back("tokenizer.ggml.add_bos_token", first.has_value());
    if (last) keys.emplace_back("tokenizer.ggml.add_eos_token", true);
    HK_ASSIGN(std::optional<text::ChatTemplateSource> chat, text::find_chat_template(FilePlace(folder)));
    if (chat) keys.emplace_back("tokenizer.chat_template", std::move(chat->text));
    if (!eos)
        log.warning(
            fmt::format("{}: the tokenizer has no token that ends a text, and llama.cpp takes token 11 for one: "
                        "run it with --ignore-eos",
                        where));
    return {};
}

} // namespace hekla::app
