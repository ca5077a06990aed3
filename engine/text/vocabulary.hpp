// The table of tokens and ids of every tokenizer, with roles and properties of special tokens.
#pragma once

#include "base/resource_allocator.hpp"
#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

// The role of a special token. The names in files are bos_token, eos_token, pad_token, unk_token, mask_token,
// sep_token, cls_token.
enum class TokenRole : int32_t { bos = 0, eos = 1, pad = 2, unk = 3, mask = 4, separator = 5, cls = 6 };
inline constexpr int32_t kTokenRoles = 7;
const char* role_key(TokenRole role); // "bos_token", ...

// A special token for a new vocabulary.
struct SpecialToken {
    std::string text;
    std::vector<TokenRole> roles;
};

// A token that is matched in the text before everything else and never split (Hugging Face's `added_tokens`).
struct AddedToken {
    int32_t id = 0;
    std::string content;
    bool special = true;      // a control token, which decoding can skip and encoding can ignore
    bool lstrip = false;      // includes the white space before it
    bool rstrip = false;      // includes the white space after it
    bool normalized = false;  // is matched in the normalized text, in its own normal form
    bool single_word = false; // does not match inside a word
};

// The special tokens that a tokenizer puts around texts: what its post-processor does.
struct TextFrame {
    std::vector<int32_t> before, after;                         // around one text; ids
    std::vector<int32_t> pair_before, pair_between, pair_after; // around two
    // Token types of the pieces: of `before`, the text, `after`; for a pair of `pair_before`, the first text,
    // `pair_between`, the second text, `pair_after`. Empty: all 0.
    std::vector<int32_t> types, pair_types;
    // Whether documents and prompts of language models have it too, as Llama's texts begin with "<s>". Not those of
    // encoders ([CLS], [SEP]), nor an end token alone.
    bool documents = false;
    bool operator==(const TextFrame&) const = default;
};

// The special tokens around a document of a language model; `before` also begins a prompt.
struct DocumentFrame {
    std::vector<int32_t> before, after; // ids
    bool operator==(const DocumentFrame&) const = default;
};

class Vocabulary {
public:
    Vocabulary() = default;
    // Copies `other` with its tables in this memory, which must outlive the copy.
    Vocabulary(const Vocabulary& other, std::pmr::memory_resource* memory);
    std::pmr::memory_resource* memory() const { return tokens_.get_allocator().resource; }

    // Adds a token with an id. `bytes`: the text that it decodes to. Errors: an id or a token that exists, an empty
    // token; more than 4 GiB of text in total.
    Status add(int32_t id, std::string_view token, std::string_view bytes);
    // Adds an added token. An existing token with the same id and content becomes an added token.
    Status add(AddedToken token);
    // Adds a special token after all ids unless the vocabulary has it, and sets its roles.
    Status add_special(const SpecialToken& token);
    Status set_role(TokenRole role, int32_t id);
    // Sets the text that a token decodes to.
    Status set_bytes(int32_t id, std::string_view bytes);
    // Error: an id without a token.
    Status set_frame(TextFrame frame);

    int32_t size() const { return static_cast<int32_t>(tokens_.size()); } // largest id + 1; there may be gaps
    bool has(int32_t id) const;
    std::optional<int32_t> find(std::string_view token) const;
    // Require has(id). Valid until a token is added or the vocabulary is destroyed; a move keeps them valid.
    std::string_view token(int32_t id) const { return text(tokens_[static_cast<std::size_t>(id)].token); }
    std::string_view bytes(int32_t id) const { return text(tokens_[static_cast<std::size_t>(id)].bytes); }
    bool is_special(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].special; }
    bool is_added(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].added; }
    // Returns whether the model has the token, so that it can come from other text: some added tokens do.
    bool is_in_model(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].in_model; }
    std::optional<int32_t> find_in_model(std::string_view token) const;
    std::optional<int32_t> role(TokenRole role) const { return roles_[static_cast<std::size_t>(role)]; }
    std::span<const AddedToken> added() const { return added_; } // by id
    const TextFrame& frame() const { return frame_; }
    DocumentFrame document_frame() const {
        return frame_.documents ? DocumentFrame{frame_.before, frame_.after} : DocumentFrame();
    }

    // Appends everything that affects the vocabulary's behavior, for a hash.
    void append_identity(std::string& bytes) const;

private:
    struct Text { // in texts_
        uint32_t begin = 0, size = 0;
    };
    struct Entry {
        Text token, bytes;
        bool present = false;
        bool special = false;
        bool added = false;
        bool in_model = false;
    };
    std::string_view text(Text at) const { return {texts_.data() + at.begin, at.size}; }
    Status put_text(std::string_view text, Text& out);
    Status add_entry(int32_t id, std::string_view token, std::string_view bytes, bool in_model);
    std::size_t slot_of(std::string_view token) const; // its slot, or the free slot for it

    ResourceVector<char> texts_; // of all tokens, one after the other
    ResourceVector<Entry> tokens_;
    ResourceVector<int32_t>
        slots_;             // ids by their tokens' hash, -1: free; a power of two, at least twice as many as ids
    std::size_t count_ = 0; // ids that have a token
    std::vector<AddedToken> added_;
    std::array<std::optional<int32_t>, kTokenRoles> roles_{};
    TextFrame frame_;
};

} // namespace hekla::text
