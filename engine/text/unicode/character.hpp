// One token per code point, as in nanoGPT's character-level example. A character outside the vocabulary becomes the
// unknown token, or, without one, an error with the character and its position.
#pragma once

#include "base/file_place.hpp"
#include "text/added_tokens.hpp"
#include "text/files/json_file.hpp"
#include "text/tokenizer.hpp"

#include <array>
#include <unordered_map>

namespace hekla::text {

// Splits after every character. `.` would not match a newline, and the flag for that differs between engines.
inline constexpr std::string_view kAnyCharacter = R"([\s\S])";

class CharacterTokenizer final : public Tokenizer {
public:
    // Every token of `vocabulary` except added ones must be a single code point.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

    std::string_view kind() const override { return "character"; }
    bool begins_word(int32_t id) const override { return !vocabulary().is_special(id); }
    // Returns a tokenizer.json that Hugging Face's library also reads: a word-level model whose words are single
    // characters.
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override;
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary));
    }

protected:
    Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                        std::vector<ByteRange>* ranges) const override;
    bool can_cut(std::string_view text, std::size_t at) const override;

private:
    explicit CharacterTokenizer(Vocabulary vocabulary);
    int32_t id_of(char32_t character) const; // -1 if there is none

    AddedTokens added_;
    std::array<int32_t, 128> ascii_{};
    std::unordered_map<char32_t, int32_t> others_;
    int32_t characters_ = 0;
};

} // namespace hekla::text
