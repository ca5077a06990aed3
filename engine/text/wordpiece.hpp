// WordPiece as in BERT (Devlin et al. 2019): words, each split greedily into the longest pieces of the vocabulary.
#pragma once

#include "text/bert_words.hpp"

namespace hekla::text {

struct WordPieceOptions {
    BertNormalization normalization;
    std::string prefix = "##";   // of pieces inside a word
    uint32_t longest_word = 100; // in characters; a longer word becomes the unknown token
};

class WordPiece final : public BertWordTokenizer {
public:
    // Needs the role unk. With a normalization no added token may be marked normalized.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, WordPieceOptions options);

    std::string_view kind() const override { return "wordpiece"; }
    std::string own_text_of(int32_t id, bool first) const override;
    bool begins_word(int32_t id) const override;
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // vocab.txt and tokenizer.json
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary), options_);
    }
    const WordPieceOptions& options() const { return options_; }

protected:
    void cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
             Merges::Scratch& scratch) const override;
    std::string tidied(std::string text) const override;

private:
    // A set of pieces: an open hash table over the vocabulary's strings.
    class Pieces {
    public:
        explicit Pieces(std::pmr::memory_resource* memory) : slots_(64, memory) {}
        void add(std::string_view piece, int32_t id);
        int32_t find(std::string_view piece) const; // -1 if there is none
        std::size_t longest() const { return longest_; }

    private:
        struct Slot {
            std::string_view piece = {};
            uint64_t hash = 0;
            int32_t id = -1;
        };
        void place(const Slot& slot);
        ResourceVector<Slot> slots_;
        std::size_t used_ = 0;
        std::size_t longest_ = 0;
    };

    WordPiece(Vocabulary vocabulary, WordPieceOptions options);

    WordPieceOptions options_;
    Pieces first_;
    Pieces later_;
};

} // namespace hekla::text
