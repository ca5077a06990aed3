// The model of a tokenizer.json: turns a word into tokens.
#pragma once

#include "text/merges.hpp"
#include "text/pipeline/section.hpp"
#include "text/vocabulary.hpp"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// A token of a word, and the bytes of the word that it covers.
struct WordToken {
    int32_t id = 0;
    uint32_t begin = 0;
    uint32_t end = 0;
};

// The options of a model in the file, without its tokens.
struct WordModelOptions {
    enum class Type : uint8_t { bpe, unigram, wordpiece, word_level };
    Type type = Type::bpe;
    std::string unknown;            // token; empty: none
    std::string prefix;             // of tokens that do not begin a word
    std::string suffix;             // of tokens that end a word
    bool byte_fallback = false;     // a character without a token becomes its bytes, <0x00> to <0xFF>
    bool fuse_unknown = false;      // neighboring characters without a token are one unknown token
    bool ignore_merges = false;     // a word that is a token is that token, whatever its merges are
    std::size_t longest_word = 100; // wordpiece: in characters
    int32_t unknown_id = -1;        // unigram; -1: none
    Json given;                     // the file's object without vocab and merges, to write it again

    // Reads "model". Errors: a type or option that is not supported.
    static Result<WordModelOptions> read(const Section& section);
};

// What the file lists: merges of a BPE, or scores of a unigram model by id.
struct WordModelTables {
    Merges merges;
    std::vector<double> scores;
};

// Immutable. Thread: any.
class WordModel {
public:
    // `tables` must outlive the model.
    static Result<std::unique_ptr<WordModel>> create(const WordModelOptions& options, const WordModelTables& tables,
                                                     const Vocabulary& vocabulary);
    virtual ~WordModel() = default;
    WordModel(const WordModel&) = delete;
    WordModel& operator=(const WordModel&) = delete;

    // Working memory of encode(), reused so that most words need no allocation.
    struct Scratch {
        std::vector<Symbol> symbols;
        Merges::Scratch merges;
        struct Best { // the best way to a position
            double score;
            uint32_t begin;
            int32_t id;
        };
        std::vector<Best> best;
        std::string text;
    };
    // Appends the tokens of a word, which is not empty and has less than 2 GiB. `vocabulary`: that of create().
    // `special`: whether tokens marked special may come of a text. Error: not_found for text without a token, if the
    // model has no unknown token.
    virtual Status encode(const Vocabulary& vocabulary, std::string_view word, bool special, Scratch& scratch,
                          std::vector<WordToken>& out) const = 0;
    // Returns the end of the part of `word` at `begin` that is encoded as if the rest did not exist.
    virtual std::size_t part_end(std::string_view word, std::size_t begin) const {
        (void)begin;
        return word.size();
    }
    // Returns whether a word can be cut in front of any `mark` that follows another character.
    virtual bool cuts_before(std::string_view mark) const {
        (void)mark;
        return false;
    }

protected:
    WordModel() = default;
};

// Returns the token of a byte, "<0x0A>".
std::string byte_token(uint8_t byte);

} // namespace hekla::text
