// The two-way table of tokens and ids that every tokenizer has, with what is special about some of them.
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

// What a token is for. The names in files are bos_token, eos_token, pad_token, unk_token, mask_token, sep_token,
// cls_token.
enum class TokenRole : int32_t { bos = 0, eos = 1, pad = 2, unk = 3, mask = 4, separator = 5, cls = 6 };
inline constexpr int32_t kTokenRoles = 7;
const char* role_key(TokenRole role); // "bos_token", ...

// A token wanted in a new vocabulary.
struct SpecialToken {
    std::string text;
    std::vector<TokenRole> roles;
};

// A token that is looked for in the text before anything else, and never split (Hugging Face's `added_tokens`).
struct AddedToken {
    int32_t id = 0;
    std::string content;
    bool special = true;     // a control token, which decoding can leave out and encoding can be told not to look for
    bool lstrip = false;     // takes the white space before it along
    bool rstrip = false;     // takes the white space after it along
    bool normalized = false; // kept for the file; the tokenizers here have no normalizer
};

// The special tokens around a text of a language model: Llama's texts begin with "<s>". Most tokenizers have none.
// Those around the inputs of encoders ([CLS], [SEP]) are not among them: objectives put these.
struct TextFrame {
    std::vector<int32_t> before, after; // ids
    bool operator==(const TextFrame&) const = default;
};

class Vocabulary {
public:
    Vocabulary() = default;
    // A copy whose tables lie in this memory, which must outlive it.
    Vocabulary(const Vocabulary& other, std::pmr::memory_resource* memory);
    std::pmr::memory_resource* memory() const { return tokens_.get_allocator().resource; }

    // Puts a token at an id. `bytes` is what it decodes to. Errors: an id or a token that is taken, or empty; texts
    // that are longer than 4 GiB together.
    Status add(int32_t id, std::string_view token, std::string_view bytes);
    // A token that may already be there under the same id and content; then it only becomes an added one.
    Status add(AddedToken token);
    // Adds a special token behind all ids unless the vocabulary has it, and gives it its roles.
    Status add_special(const SpecialToken& token);
    Status set_role(TokenRole role, int32_t id);
    // Error: an id that no token has.
    Status set_frame(TextFrame frame);

    int32_t size() const { return static_cast<int32_t>(tokens_.size()); } // largest id + 1; there may be gaps
    bool has(int32_t id) const;
    std::optional<int32_t> find(std::string_view token) const;
    // has(id). Until something is added, or this goes: moved along with it they stay where they are.
    std::string_view token(int32_t id) const { return text(tokens_[static_cast<std::size_t>(id)].token); }
    std::string_view bytes(int32_t id) const { return text(tokens_[static_cast<std::size_t>(id)].bytes); }
    bool is_special(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].special; }
    bool is_added(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].added; }
    std::optional<int32_t> role(TokenRole role) const { return roles_[static_cast<std::size_t>(role)]; }
    std::span<const AddedToken> added() const { return added_; } // by id
    const TextFrame& frame() const { return frame_; }

    // Everything that decides what the vocabulary does, as bytes to be hashed.
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
    };
    std::string_view text(Text at) const { return {texts_.data() + at.begin, at.size}; }
    Status put_text(std::string_view text, Text& out);
    std::size_t slot_of(std::string_view token) const; // its own, or the free one where it belongs

    ResourceVector<char> texts_; // of all tokens, one behind the other
    ResourceVector<Entry> tokens_;
    ResourceVector<int32_t>
        slots_;             // ids by their tokens' hash, -1: free; a power of two, at least twice as many as ids
    std::size_t count_ = 0; // ids that have a token
    std::vector<AddedToken> added_;
    std::array<std::optional<int32_t>, kTokenRoles> roles_{};
    TextFrame frame_;
};

} // namespace hekla::text
