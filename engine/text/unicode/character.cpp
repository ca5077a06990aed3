#include "text/unicode/character.hpp"

#include "base/file.hpp"
#include "base/utf8.hpp"
#include "text/files/json_file.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/pipeline/pipeline.hpp"
#include "text/text_position.hpp"
#include "text/tokenizer_trainer.hpp"

#include <fmt/format.h>

namespace hekla::text {
namespace {

class CharacterTrainer final : public TokenizerTrainer {
public:
    explicit CharacterTrainer(std::vector<SpecialToken> special)
        : special_(std::move(special)), matcher_(special_), seen_(0x110000, false) {}

    Status add(std::string_view text, const TextOrigin& origin) override {
        HK_TRY(check_utf8(text, origin));
        const auto see = [&](std::size_t at, std::size_t end) {
            while (at < end) {
                const CodePoint character = first_code_point(text.substr(at));
                seen_[character.value] = true;
                at += character.size;
            }
            return Status();
        };
        return matcher_.walk(text, true, see, [](const TokenMatcher::Match&) {});
    }

    Result<std::unique_ptr<Tokenizer>> finish() override {
        Vocabulary vocabulary;
        for (std::size_t value = 0; value < seen_.size(); ++value) {
            if (!seen_[value]) continue;
            std::string character;
            append_code_point(character, static_cast<char32_t>(value));
            HK_TRY(vocabulary.add(vocabulary.size(), character, character));
        }
        if (vocabulary.size() == 0) return invalid_argument("a tokenizer cannot be trained: the text is empty");
        for (const SpecialToken& token : special_) HK_TRY(vocabulary.add_special(token));
        return CharacterTokenizer::create(std::move(vocabulary));
    }

private:
    std::vector<SpecialToken> special_;
    AddedTokens matcher_;
    std::vector<bool> seen_;
};

} // namespace

std::unique_ptr<TokenizerTrainer> make_character_trainer(std::vector<SpecialToken> special) {
    return std::make_unique<CharacterTrainer>(std::move(special));
}

CharacterTokenizer::CharacterTokenizer(Vocabulary vocabulary)
    : Tokenizer(std::move(vocabulary)), added_(this->vocabulary().added()) {
    ascii_.fill(-1);
    std::string identity = "character/1\n";
    this->vocabulary().append_identity(identity);
    set_hash(identity);
    for (int32_t id = 0; id < vocabulary_size(); ++id) {
        if (!this->vocabulary().has(id) || this->vocabulary().is_added(id)) continue; // see make_tokenizer()
        const char32_t character = first_code_point(this->vocabulary().token(id)).value;
        if (character < 128) {
            ascii_[character] = id;
        } else {
            others_.emplace(character, id);
        }
        ++characters_;
    }
}

Result<std::unique_ptr<Tokenizer>> CharacterTokenizer::create(Vocabulary vocabulary) {
    if (vocabulary.size() == 0) return corrupt("the vocabulary is empty");
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.has(id) || vocabulary.is_added(id)) continue;
        const std::string_view token = vocabulary.token(id);
        if (first_code_point(token).size != token.size())
            return unsupported(
                fmt::format("the token {} (id {}) is not a single character; word-level vocabularies are "
                            "not supported",
                            json_quote(token), id));
    }
    return std::unique_ptr<Tokenizer>(new CharacterTokenizer(std::move(vocabulary)));
}

int32_t CharacterTokenizer::id_of(char32_t character) const {
    if (character < 128) return ascii_[character];
    const auto at = others_.find(character);
    return at == others_.end() ? -1 : at->second;
}

Status CharacterTokenizer::encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                        std::vector<ByteRange>* ranges) const {
    const int32_t unknown = special(TokenRole::unk).value_or(-1);
    ids.reserve(ids.size() + text.size());
    return added_.encode(text, options.match_special, ids, ranges, [&](std::size_t at, std::size_t end) {
        while (at < end) {
            const CodePoint character = first_code_point(text.substr(at));
            int32_t id = id_of(character.value);
            if (id < 0) id = unknown;
            if (id < 0)
                return invalid_argument(fmt::format("{}: the character {} (U+{:04X}) is not among the tokenizer's {} "
                                                    "characters; take it out of the text, or "
                                                    "train the tokenizer on text that has it",
                                                    describe_position(options.origin, text, at),
                                                    json_quote(text.substr(at, character.size)),
                                                    static_cast<uint32_t>(character.value), characters_));
            ids.push_back(id);
            if (ranges != nullptr) ranges->push_back({at, at + character.size});
            at += character.size;
        }
        return Status();
    });
}

bool CharacterTokenizer::can_cut(std::string_view text, std::size_t at) const {
    if ((static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) return false;
    return added_.can_cut(text, at);
}

std::string CharacterTokenizer::to_json() const {
    const Vocabulary& tokens = vocabulary();
    if (pipeline() != nullptr) return pipeline()->to_json(tokens, "\"vocab\": " + model_vocabulary_json(tokens));
    const std::optional<int32_t> unknown = special(TokenRole::unk);
    return tokenizer_document(
        tokens, "null",
        fmt::format("{{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", "
                    "\"invert\": false}}",
                    json_quote(kAnyCharacter)),
        text_frame_json(tokens), "{\"type\": \"Fuse\"}",
        fmt::format("{{\n    \"type\": \"WordLevel\",\n    \"vocab\": {},\n    \"unk_token\": {}\n  }}",
                    vocabulary_json(tokens), json_quote(unknown ? tokens.token(*unknown) : "<unk>")));
}

Status CharacterTokenizer::save(const std::filesystem::path& folder) const {
    HK_TRY(write_file_atomically(folder / "tokenizer.json", to_json()));
    return write_special_files(folder, vocabulary(), "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"");
}

} // namespace hekla::text
