// Makes a tokenizer from text. Text is given in pieces (a file at a time); only counts are kept of it.
#pragma once

#include "text/tokenizer.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace hekla::text {

// Thread: one. The same pieces in any order give the same tokenizer, as long as no word is cut between two.
class TokenizerTrainer {
public:
    virtual ~TokenizerTrainer() = default;
    // Errors: not UTF-8 (names file, line and byte). An error leaves the trainer as it was.
    virtual Status add(std::string_view text, const TextOrigin& origin) = 0;
    // Errors: no text was given, or the options contradict themselves. Call once.
    virtual Result<std::unique_ptr<Tokenizer>> finish() = 0;
};

// One token for every code point that occurs, in the order of code points; special tokens behind them. With nanoGPT's
// text and no special tokens, nanoGPT's ids.
std::unique_ptr<TokenizerTrainer> make_character_trainer(std::vector<SpecialToken> special = {});

struct ByteBpeTraining {
    int32_t vocabulary_size =
        4096; // 256 bytes, what is learnt, and the special tokens; fewer if the text has no more pairs
    uint64_t min_frequency = 2; // a pair that occurs less often is not merged
    bool add_prefix_space = false;
    std::vector<SpecialToken> special = {{"<|endoftext|>", {TokenRole::bos, TokenRole::eos}}};
};

// Ids as GPT-2's: the bytes in the order of their letters, the merges in the order learnt, the special tokens. Special
// tokens in the text are left out of the counts.
std::unique_ptr<TokenizerTrainer> make_byte_bpe_trainer(ByteBpeTraining options);

} // namespace hekla::text
