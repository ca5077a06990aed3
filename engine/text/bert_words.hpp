// Base of tokenizers over BERT's words: a text is split into words, and each word into tokens independently.
#pragma once

#include "text/added_tokens.hpp"
#include "text/merges.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/bert_normalizer.hpp"

namespace hekla::text {

class BertWordTokenizer : public Tokenizer {
protected:
    BertWordTokenizer(Vocabulary vocabulary, const BertNormalization& normalization);

    // Writes the tokens of a word to `symbols`; together they cover the word's bytes. `scratch`: working memory for
    // merges. `special`: whether tokens marked special may come of a word.
    virtual void cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
                     Merges::Scratch& scratch) const = 0;

    const BertNormalization& normalization() const { return normalizer_.options(); }
    int32_t unknown() const { return unknown_; } // -1: the vocabulary has none

    Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                        std::vector<ByteRange>* ranges) const final;
    bool can_cut(std::string_view text, std::size_t at) const final;

private:
    BertNormalizer normalizer_;
    AddedTokens added_;
    int32_t unknown_;
};

} // namespace hekla::text
