// One token per word, as in recurrent models before subwords: words between white space, with punctuation marks
// optionally as separate words. A word outside the vocabulary becomes the unknown token.
#pragma once

#include "base/file_place.hpp"
#include "text/bert_words.hpp"
#include "text/files/json_file.hpp"

namespace hekla::text {

class WordTokenizer final : public BertWordTokenizer {
public:
    // Needs the role unk.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, const BertNormalization& normalization);

    std::string_view kind() const override { return "words"; }
    std::string own_text_of(int32_t id, bool first) const override { // with a space before all but the first
        return (first ? "" : " ") + std::string(vocabulary().token(id));
    }
    bool begins_word(int32_t id) const override { return !vocabulary().is_special(id); }
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // tokenizer.json
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary), normalization());
    }

protected:
    void cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
             Merges::Scratch& scratch) const override;

private:
    WordTokenizer(Vocabulary vocabulary, const BertNormalization& normalization);
};

} // namespace hekla::text
