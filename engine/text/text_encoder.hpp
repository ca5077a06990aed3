// What a text becomes: the only place that decides, for each use, whether special tokens in a text are parsed and which
// tokens are around it. Tables, corpora, prompts, features, conversations and exported files ask it.
#pragma once

#include "text/tokenizer.hpp"

#include <string>
#include <vector>

namespace hekla::text {

// The rules by which a model was trained, which config.json records. The default is what Hugging Face's transformers do
// with the same folder.
struct TextRules {
    // Whether rows have the tokenizer's frame. false: a model that was trained before frames were recorded; its
    // objective laid rows out by the kind of model, and its prompts begin without special tokens.
    bool framed = true;
    // Whether "</s>" in a text of a table is that token. false: characters, for untrusted text.
    bool parses_special = true;
    bool operator==(const TextRules&) const = default;
};
inline constexpr TextRules kRulesBeforeRecord{false, false};

enum class TextUse : int32_t {
    row,          // a text of a row of a table; the objective adds what is around it
    sentence,     // a sentence of a document, whose objective adds what is around it
    document,     // plain text: special tokens are parsed, DocumentFrame is around a file
    prompt,       // begins as DocumentFrame does, unless that was typed
    continuation, // what follows a prompt, or a decoder's text
    features,     // between the tokens of TextFrame
    conversation, // what a chat template wrote, which has its own special tokens
    untrusted,    // never parsed, and nothing around it
};

// Encodes texts by these rules. Ownership: the tokenizer outlives it. Thread: any.
class TextEncoder {
public:
    explicit TextEncoder(const Tokenizer& tokenizer, TextRules rules = {}) : tokenizer_(&tokenizer), rules_(rules) {}

    // Appends the ids of a text, and the bytes that each covers: none for the tokens around it. Errors: those of
    // Tokenizer::encode().
    Status encode(TextUse use, std::string_view text, std::vector<int32_t>& ids,
                  std::vector<ByteRange>* ranges = nullptr, const TextOrigin& origin = {}) const;
    Result<std::vector<int32_t>> encode(TextUse use, std::string_view text, const TextOrigin& origin = {}) const;

    // Appends the ids of a word of a sentence that is given in words. Later words of a byte-level BPE begin with a
    // space, as in a text. A word without tokens (white space) becomes the unknown token.
    Status encode_word(std::string_view word, bool first, std::vector<int32_t>& ids) const;

    // Returns what is around a document; `before` begins a prompt. Empty where rules have no frame.
    DocumentFrame document_frame() const { return tokenizer_->vocabulary().document_frame(); }
    // Puts the tokens around the ids of a text whose features are wanted.
    std::vector<int32_t> framed(std::vector<int32_t> ids) const;

    const Tokenizer& tokenizer() const { return *tokenizer_; }
    const TextRules& rules() const { return rules_; }

private:
    bool parses(TextUse use) const;

    const Tokenizer* tokenizer_;
    TextRules rules_;
};

// Puts the tokens that begin a prompt before it, unless it begins with them.
void begin_prompt(std::span<const int32_t> begin, std::vector<int32_t>& ids);

} // namespace hekla::text
