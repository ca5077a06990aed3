// A tokenizer: text to ids and back. Immutable once made; every member may be called from any thread at once.
#pragma once

#include "base/hash.hpp"
#include "base/status.hpp"
#include "text/text_position.hpp"
#include "text/unicode/utf8.hpp"
#include "text/vocabulary.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace hekla::text {

// Bytes [begin, end) of the text that was encoded.
struct ByteRange {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool operator==(const ByteRange&) const = default;
};

struct EncodeOptions {
    // Whether "<|endoftext|>" in the text becomes that special token. Say false for text that is not to be trusted.
    bool match_special = true;
    TextOrigin origin = {}; // for messages
};

class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    virtual std::string_view kind() const = 0; // "character", "byte_bpe", "wordpiece", "sentencepiece", "words"

    // Appends the ids of `text` to `ids`, and to `ranges`, if given, the bytes each id covers. Adds no special tokens
    // around the text, not even those of frame(). Errors name file, line and byte: text that is not UTF-8, a character
    // without a token. On error `ids` and `ranges` are as before.
    Status encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                  std::vector<ByteRange>* ranges = nullptr) const;
    Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const;

    // Never fails, because what a model says need not be text: invalid UTF-8 and ids without a token give U+FFFD.
    // WordPiece's result is tidied as the reference's: no space is before a full stop.
    std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;
    // What an id the vocabulary has adds to a text, which it is the first of or not: bytes, perhaps part of a
    // character.
    virtual std::string text_of(int32_t id, bool first) const;
    // Whether no text begins with a space: what gives none counts as nothing, and the next is the first.
    virtual bool drops_leading_spaces() const { return false; }
    // Whether an id the vocabulary has begins a word. Special tokens do not.
    virtual bool begins_word(int32_t id) const = 0;
    // The id that stands for the n-th span left out of a text, as T5's "<extra_id_0>".
    std::optional<int32_t> sentinel(int32_t n) const;

    // A place to cut a long text so that encoding the parts gives the same ids as encoding the whole: p in
    // (0, text.size()], the nearest to `wanted` below it, or else above; text.size() if there is none. `text` is valid
    // UTF-8.
    std::size_t safe_cut(std::string_view text, std::size_t wanted) const;

    const Vocabulary& vocabulary() const { return vocabulary_; }
    int32_t vocabulary_size() const { return vocabulary_.size(); }
    std::optional<int32_t> special(TokenRole role) const { return vocabulary_.role(role); }
    std::optional<int32_t> find(std::string_view token) const { return vocabulary_.find(token); }
    // What a language model's text begins and ends with: the start of a prompt, the ends of a document.
    const TextFrame& frame() const { return vocabulary_.frame(); }
    Result<std::string> token(int32_t id) const; // as files spell it ("Ġthe"); error: no such id

    // The same tokenizer around another vocabulary, in whose memory its other tables lie too: one made from this one's
    // by adding to it.
    virtual Result<std::unique_ptr<Tokenizer>> with(Vocabulary vocabulary) const = 0;

    // Hugging Face's tokenizer.json; empty where that cannot say what this does.
    virtual std::string to_json() const = 0;
    // Writes tokenizer.json and the files that go with it into a folder that exists; each is complete or absent.
    virtual Status save(const std::filesystem::path& folder) const = 0;
    // Equal for tokenizers that give the same ids for every text.
    const Hash128& hash() const { return hash_; }

protected:
    Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

    // The work of encode(); `text` is valid UTF-8. May leave partial output behind on error.
    virtual Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                std::vector<ByteRange>* ranges) const = 0;
    // Whether no token of `text`, whatever it is, reaches over position `at`, and none depends on the other side.
    virtual bool can_cut(std::string_view text, std::size_t at) const = 0;
    // What decode() does at its end.
    virtual std::string tidied(std::string text) const { return text; }
    void set_hash(std::string_view identity) { hash_ = hash128(identity); }

private:
    Vocabulary vocabulary_;
    Hash128 hash_;
};

// Decoding id by id, as generation gives them: text comes out as soon as it is complete UTF-8. Joined, the pieces and
// finish() equal decode() of all ids, before it is tidied. The tokenizer must outlive this.
class StreamDecoder {
public:
    explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false)
        : tokenizer_(&tokenizer), skip_special_(skip_special) {}
    std::string push(int32_t id);
    std::string finish() { return stream_.finish(); }

private:
    const Tokenizer* tokenizer_;
    bool skip_special_;
    bool first_ = true;
    Utf8Stream stream_;
};

// The same tokenizer with its tables in this memory, which must outlive it.
Result<std::unique_ptr<Tokenizer>> lying_in(std::pmr::memory_resource* memory, std::unique_ptr<Tokenizer> tokenizer);

// The tokenizer with special tokens behind its ids; those it has keep theirs and get the roles. The embedding must grow
// by as many rows as vocabulary_size() does.
Result<std::unique_ptr<Tokenizer>> add_special_tokens(const Tokenizer& tokenizer, std::span<const SpecialToken> tokens);

// The tokenizer of a folder, by the files in it: tokenizer.json, or vocab.json and merges.txt, or encoder.json and
// vocab.bpe, or a SentencePiece model (spiece.model, tokenizer.model, spm.model, sentencepiece.bpe.model), or
// vocab.txt; roles from tokenizer_config.json and special_tokens_map.json. A path to a tokenizer.json, a .model or a
// .txt works too. Errors: nothing there (lists what was looked for), a malformed file (names it), a kind that is not
// supported.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);

} // namespace hekla::text
