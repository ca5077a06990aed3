#include "gguf_tokenizer.hpp"

#include "text/byte_bpe.hpp"
#include "text/chat_template.hpp"
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

// llama.cpp's names for the regular expressions that split a text into words.
constexpr std::pair<std::string_view, std::string_view> kExpressions[] = {
    {text::kGpt2Pattern, "gpt-2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen2"},
};

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
Result<Tokens> pieces_of(const text::SentencePiece& tokenizer, const std::string& where) {
    const text::SpieceModel& model = tokenizer.model();
    if (model.kind != text::SpieceModel::Kind::bpe)
        return unsupported(
            fmt::format("{}: its SentencePiece model is not BPE; llama.cpp splits other kinds differently", where));
    Tokens tokens = tokens_of(tokenizer.vocabulary(), false);
    tokens.scores.resize(tokens.spelled.size(), 0.0f);
    for (std::size_t id = 0; id < model.pieces.size() && id < tokens.spelled.size(); ++id) {
        tokens.spelled[id] = model.pieces[id].text;
        tokens.kinds[id] = static_cast<int32_t>(model.pieces[id].type);
        tokens.scores[id] = model.pieces[id].score;
    }
    tokens.space_before = model.add_dummy_prefix;
    return tokens;
}

Result<Tokens> read_tokens(const text::Tokenizer& tokenizer, const std::string& where) {
    if (const auto* pieces = dynamic_cast<const text::SentencePiece*>(&tokenizer)) return pieces_of(*pieces, where);
    const text::Vocabulary& vocabulary = tokenizer.vocabulary();
    Tokens tokens = tokens_of(vocabulary, tokenizer.kind() == "character");
    if (tokenizer.kind() == "character") {
        merge_characters(vocabulary, tokens.merges);
        return tokens;
    }
    const auto* bpe = dynamic_cast<const text::ByteBpe*>(&tokenizer);
    if (bpe == nullptr)
        return unsupported(
            fmt::format("{}: a tokenizer of the kind {} cannot be written as GGUF", where, tokenizer.kind()));
    const std::string pattern = bpe->options().splitter ? bpe->options().splitter->pattern() : "";
    const auto* known = std::ranges::find_if(kExpressions, [&](const auto& e) { return e.first == pattern; });
    if (known == std::end(kExpressions))
        return unsupported(
            fmt::format("{}: the tokenizer cuts texts by an expression that llama.cpp has no name for: {}", where,
                        pattern.empty() ? "none" : pattern));
    tokens.expression = known->second;
    for (const text::Merge& merge : bpe->merges().list())
        tokens.merges.push_back(fmt::format("{} {}", vocabulary.token(merge.left), vocabulary.token(merge.right)));
    return tokens;
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
    HK_ASSIGN(Tokens tokens, read_tokens(tokenizer, where));
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
    const auto eos = id_of("eos_token_id", text::TokenRole::eos);
    if (const auto bos = id_of("bos_token_id", text::TokenRole::bos))
        keys.emplace_back("tokenizer.ggml.bos_token_id", *bos);
    if (eos) keys.emplace_back("tokenizer.ggml.eos_token_id", *eos);
    if (const auto pad = id_of("pad_token_id", text::TokenRole::pad))
        keys.emplace_back("tokenizer.ggml.padding_token_id", *pad);
    if (const auto unknown = tokenizer.special(text::TokenRole::unk))
        keys.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*unknown));
    const text::TextFrame& frame = tokenizer.frame();
    keys.emplace_back("tokenizer.ggml.add_bos_token", !frame.before.empty());
    if (!frame.after.empty()) keys.emplace_back("tokenizer.ggml.add_eos_token", true);
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
