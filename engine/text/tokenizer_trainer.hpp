// Trains a tokenizer on text, which is added in pieces (one file at a time) and of which only counts are kept.
#pragma once

#include "base/stop_poll.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/bert_normalizer.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace hekla::text {

// A trainer. Thread: one. The same pieces in any order give the same tokenizer, unless a word is split between two
// pieces.
class TokenizerTrainer {
public:
    virtual ~TokenizerTrainer() = default;
    // Errors: not UTF-8 (with file, line and byte). After an error the trainer is unchanged.
    virtual Status add(std::string_view text, const TextOrigin& origin) = 0;
    // Errors: no text was added, or the options are contradictory. Call once.
    virtual Result<std::unique_ptr<Tokenizer>> finish() = 0;
    // `stop` is asked while text is added and merges are learned; true ends it with Code::cancelled. SentencePiece's
    // trainer asks while it reads the text and after its optimization, which nothing can interrupt.
    void set_stop(StopPoll stop) { stop_ = std::move(stop); }

protected:
    Status check_stop() const { return stop_.check_now("training the tokenizer"); }
    const StopPoll& stop() const { return stop_; }

private:
    StopPoll stop_;
};

// Returns a trainer with one token for every code point that occurs, in the order of code points, then the special
// tokens. nanoGPT's text without special tokens gives nanoGPT's ids.
std::unique_ptr<TokenizerTrainer> make_character_trainer(std::vector<SpecialToken> special = {});

struct ByteBpeTraining {
    int32_t vocabulary_size =
        4096; // 256 bytes, the learned merges, and the special tokens; fewer if the text has no more pairs
    uint64_t min_frequency = 2; // less frequent pairs are not merged
    bool add_prefix_space = false;
    std::vector<SpecialToken> special = {{"<|endoftext|>", {TokenRole::bos, TokenRole::eos}}};
};

// Returns a trainer with GPT-2's order of ids: the bytes in the order of their letters, the merges as learned, the
// special tokens. Special tokens in the text are not counted.
std::unique_ptr<TokenizerTrainer> make_byte_bpe_trainer(ByteBpeTraining options);

struct WordPieceTraining {
    int32_t vocabulary_size = 30522; // special tokens, characters, and learned pieces
    bool lower_case = true;
    bool strip_accents = true;
    uint64_t min_frequency = 2;
    uint32_t limit_alphabet = 1000; // the most frequent characters; words with less frequent ones are not counted
    std::vector<SpecialToken> special = {{"[PAD]", {TokenRole::pad}},
                                         {"[UNK]", {TokenRole::unk}},
                                         {"[CLS]", {TokenRole::cls}},
                                         {"[SEP]", {TokenRole::separator}},
                                         {"[MASK]", {TokenRole::mask}}};
};

// Returns a trainer with BERT's order of ids: the special tokens, the characters, the pieces as learned.
std::unique_ptr<TokenizerTrainer> make_wordpiece_trainer(WordPieceTraining options);

struct SentencePieceTraining {
    bool bpe = false;               // byte-pair merges instead of a unigram model
    int32_t vocabulary_size = 8000; // of the model; fewer if the text has no more pieces
    double character_coverage = 0.9995;
    bool byte_fallback = false; // characters without a piece become bytes instead of the unknown piece
    std::vector<std::string> control_symbols = {};
    std::vector<SpecialToken> special = {}; // added after the model's pieces
};

// Returns a trainer; the library keeps the text's lines until finish(). Ids: <pad>, </s>, <unk>, <s>, the control
// symbols, then pieces.
std::unique_ptr<TokenizerTrainer> make_sentencepiece_trainer(SentencePieceTraining options);

struct WordTraining {
    int32_t vocabulary_size = 20000; // special tokens and the most frequent words
    uint64_t min_frequency = 1;
    BertNormalization normalization = {true, false, false, true, true}; // lower case, accents kept
    std::vector<SpecialToken> special = {{"<pad>", {TokenRole::pad}},
                                         {"<unk>", {TokenRole::unk}},
                                         {"<s>", {TokenRole::bos}},
                                         {"</s>", {TokenRole::eos}}};
};

// Returns a trainer. Ids: the special tokens, then words by descending frequency, equally frequent ones in the order of
// their bytes.
std::unique_ptr<TokenizerTrainer> make_word_trainer(WordTraining options);

} // namespace hekla::text
