// Byte-pair encoding over characters with an end-of-word mark, as in GPT (Radford et al. 2018; Sennrich et al. 2016),
// on BERT's words in lower case.
#pragma once

#include "base/file_place.hpp"
#include "text/bert_words.hpp"
#include "text/files/json_file.hpp"

namespace hekla::text {

inline constexpr std::string_view kWordEnd = "</w>";

class SuffixBpe final : public BertWordTokenizer {
public:
    // Needs the role unk, for characters without a token.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, const Merges& merges,
                                                     const BertNormalization& normalization);

    std::string_view kind() const override { return "suffix_bpe"; }
    // The mark is at the end of a word, so every token that is not special can begin one.
    bool begins_word(int32_t id) const override { return !vocabulary().is_special(id); }
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // vocab.json, merges.txt and tokenizer.json
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override;

protected:
    void cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
             Merges::Scratch& scratch) const override;
    std::string tidied(std::string text) const override; // without the space after the last word

private:
    SuffixBpe(Vocabulary vocabulary, const Merges& merges, const BertNormalization& normalization);

    Merges merges_;
};

// Reads vocab.json and merges.txt whose merges have the mark.
Result<std::unique_ptr<Tokenizer>> read_suffix_bpe_files(const FilePlace& vocabulary, const FilePlace& merges);
} // namespace hekla::text
