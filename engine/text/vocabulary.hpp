// The two-way table of tokens and ids that every tokenizer has, with what is special about some of them.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

class Vocabulary {
public:
    // Puts a token at an id. `bytes` is what it decodes to. Errors: an id or a token that is taken.
    Status add(int32_t id, std::string token, std::string bytes);
    // A token that may already be there under the same id and content; then it only becomes an added one.
    Status add(AddedToken token);
    // Adds a special token behind all ids unless the vocabulary has it, and gives it its roles.
    Status add_special(const SpecialToken& token);
    Status set_role(TokenRole role, int32_t id);

    int32_t size() const { return static_cast<int32_t>(tokens_.size()); } // largest id + 1; there may be gaps
    bool has(int32_t id) const;
    std::optional<int32_t> find(std::string_view token) const;
    const std::string& token(int32_t id) const { return tokens_[static_cast<std::size_t>(id)].token; } // has(id)
    const std::string& bytes(int32_t id) const { return tokens_[static_cast<std::size_t>(id)].bytes; } // has(id)
    bool is_special(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].special; }
    bool is_added(int32_t id) const { return has(id) && tokens_[static_cast<std::size_t>(id)].added; }
    std::optional<int32_t> role(TokenRole role) const { return roles_[static_cast<std::size_t>(role)]; }
    std::span<const AddedToken> added() const { return added_; } // by id

    // Everything that decides what the vocabulary does, as bytes to be hashed.
    void append_identity(std::string& bytes) const;

private:
    struct Entry {
        std::string token;
        std::string bytes;
        bool present = false;
        bool special = false;
        bool added = false;
    };
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };
    std::vector<Entry> tokens_;
    std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
    std::vector<AddedToken> added_;
    std::array<std::optional<int32_t>, kTokenRoles> roles_{};
};

} // namespace hekla::text
