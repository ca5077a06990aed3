// A tokenizer: text to ids and back. Immutable. Thread: any, all members.
#pragma once

#include "base/hash.hpp"
#include "base/status.hpp"
#include "base/utf8.hpp"
#include "text/byte_range.hpp"
#include "text/text_position.hpp"
#include "text/vocabulary.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace hekla::text {

struct EncodeOptions {
    // Whether "<|endoftext|>" in the text becomes that special token. Use false for untrusted text.
    bool match_special = true;
    TextOrigin origin = {}; // for messages
};

class Decoder;
class DecoderStream;
class Pipeline;

class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    virtual std::string_view kind() const = 0; // "character", "byte_bpe", "wordpiece", "sentencepiece", "words"

    // Appends the ids of `text` to `ids`, and to `ranges`, if given, the bytes that each id covers. Adds no special
    // tokens around the text, not even those of frame(): text_encoder.hpp does. Errors contain file, line and byte:
    // text that is not UTF-8, a character without a token. On error `ids` and `ranges` are unchanged.
    Status encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                  std::vector<ByteRange>* ranges = nullptr) const;
    Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const;

    // Never fails, because a model's output can be invalid text: invalid UTF-8 and ids without a token give U+FFFD.
    // WordPiece's result is tidied as in the reference: no space before a period.
    std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;
    // Returns the bytes that an id of the vocabulary adds to a text, as its first token or not: possibly part of a
    // character.
    std::string text_of(int32_t id, bool first) const;
    // Returns whether texts never begin with a space: a token without bytes at the beginning does not count as the
    // first.
    bool drops_leading_spaces() const;
    // Returns whether an id of the vocabulary begins a word. Special tokens do not.
    virtual bool begins_word(int32_t id) const = 0;
    // Returns the id of the n-th sentinel (T5's "<extra_id_0>"), which replaces a span of a text.
    std::optional<int32_t> sentinel(int32_t n) const;

    // Returns where to split a long text so that encoding the parts gives the same ids as encoding the whole: in (0,
    // text.size()], the nearest position below `wanted`, or else above; text.size() if there is none. `text` is valid
    // UTF-8.
    std::size_t safe_cut(std::string_view text, std::size_t wanted) const;

    const Vocabulary& vocabulary() const { return vocabulary_; }
    int32_t vocabulary_size() const { return vocabulary_.size(); }
    std::optional<int32_t> special(TokenRole role) const { return vocabulary_.role(role); }
    std::optional<int32_t> find(std::string_view token) const { return vocabulary_.find(token); }
    // Returns the tokens around one or two texts; text_encoder.hpp decides where they are used.
    const TextFrame& frame() const { return vocabulary_.frame(); }
    Result<std::string> token(int32_t id) const; // as in files ("Ġthe"); error: no such id

    // Returns the same tokenizer with another vocabulary, which was created from this one's by adding to it. Its other
    // tables are also in the vocabulary's memory.
    Result<std::unique_ptr<Tokenizer>> with(Vocabulary vocabulary) const;
    // Returns the description in the tokenizer.json that it was read from; null if it came from elsewhere.
    const Pipeline* pipeline() const { return pipeline_.get(); }
    const std::shared_ptr<const Pipeline>& shared_pipeline() const { return pipeline_; }
    // Sets the description that a tokenizer executes, and decodes by. Call right after its creation.
    void set_pipeline(std::shared_ptr<const Pipeline> pipeline);

    // Returns Hugging Face's tokenizer.json; empty if that format cannot describe this tokenizer.
    virtual std::string to_json() const = 0;
    // Writes tokenizer.json and related files into an existing folder; each is complete or absent.
    virtual Status save(const std::filesystem::path& folder) const = 0;
    // Returns a hash that is equal for tokenizers that give the same ids for every text.
    const Hash128& hash() const { return hash_; }

protected:
    Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

    // Implements encode(); `text` is valid UTF-8. May leave partial output on error.
    virtual Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                std::vector<ByteRange>* ranges) const = 0;
    // Returns whether no token of `text` spans position `at`, or depends on the text on the other side of it.
    virtual bool can_cut(std::string_view text, std::size_t at) const = 0;
    // Implements with(); the pipeline is set by that.
    virtual Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const = 0;
    // Implement decoding for tokenizers that come from other files than tokenizer.json.
    virtual std::string own_text_of(int32_t id, bool first) const;
    virtual bool own_drops_leading_spaces() const { return false; }
    // Returns the final text of decode(), which calls this at its end.
    virtual std::string tidied(std::string text) const { return text; }
    void set_hash(std::string_view identity) { hash_ = hash128(identity); }

private:
    Vocabulary vocabulary_;
    Hash128 hash_;
    std::shared_ptr<const Pipeline> pipeline_;
};

// A decoder for ids that arrive one by one, as in generation: returns text as soon as it is complete UTF-8. The pieces
// and finish() together equal decode() of all ids, before tidying. The tokenizer must outlive this.
class StreamDecoder {
public:
    explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
    StreamDecoder(const StreamDecoder& other);
    StreamDecoder(StreamDecoder&&) noexcept;
    StreamDecoder& operator=(StreamDecoder&&) noexcept;
    ~StreamDecoder();
    std::string push(int32_t id);
    std::string finish();

private:
    const Tokenizer* tokenizer_;
    bool skip_special_;
    bool first_ = true;
    Utf8Stream stream_;
    std::unique_ptr<DecoderStream> steps_; // of a tokenizer.json; null: bytes of each token
};

// Returns the same tokenizer with its tables in this memory, which must outlive it.
Result<std::unique_ptr<Tokenizer>> lying_in(std::pmr::memory_resource* memory, std::unique_ptr<Tokenizer> tokenizer);

// Returns the tokenizer with special tokens added after its ids; existing ones keep their ids and get the roles. The
// embedding must grow by as many rows as vocabulary_size() does.
Result<std::unique_ptr<Tokenizer>> add_special_tokens(const Tokenizer& tokenizer, std::span<const SpecialToken> tokens);

// Loads the tokenizer of a folder, by its files: tokenizer.json, or vocab.json and merges.txt, or encoder.json and
// vocab.bpe, or a SentencePiece model (spiece.model, tokenizer.model, spm.model, sentencepiece.bpe.model), or
// vocab.txt; roles from tokenizer_config.json and special_tokens_map.json. Also accepts a path to a tokenizer.json, a
// .model or a .txt. Errors: no tokenizer (with the names searched for), a malformed file, an unsupported kind.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);

} // namespace hekla::text
