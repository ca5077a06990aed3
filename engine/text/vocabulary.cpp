#include "text/vocabulary.hpp"

#include "text/files/json_file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <type_traits>

namespace hekla::text {
namespace {

// An id far beyond the number of tokens would create a table of gaps: a few bytes in a file could allocate gigabytes.
constexpr int64_t kMostGaps = 1 << 16;

template<class T>
void put(std::string& bytes, const T& value) {
    static_assert(std::is_integral_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_sized(std::string& bytes, std::string_view text) {
    put(bytes, static_cast<uint64_t>(text.size()));
    bytes.append(text);
}

constexpr std::size_t kFewestSlots = 64;

} // namespace

const char* role_key(TokenRole role) {
    switch (role) {
    case TokenRole::bos: return "bos_token";
    case TokenRole::eos: return "eos_token";
    case TokenRole::pad: return "pad_token";
    case TokenRole::unk: return "unk_token";
    case TokenRole::mask: return "mask_token";
    case TokenRole::separator: return "sep_token";
    case TokenRole::cls: return "cls_token";
    }
    return "unknown_token";
}

Vocabulary::Vocabulary(const Vocabulary& other, std::pmr::memory_resource* memory)
    : texts_(other.texts_, memory), tokens_(other.tokens_, memory), slots_(other.slots_, memory), count_(other.count_),
      added_(other.added_), roles_(other.roles_), frame_(other.frame_) {}

Status Vocabulary::put_text(std::string_view text, Text& out) {
    if (text.size() > std::numeric_limits<uint32_t>::max() - texts_.size())
        return corrupt("the tokens are longer than 4 GiB together");
    out = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())};
    texts_.insert(texts_.end(), text.begin(), text.end());
    return {};
}

std::size_t Vocabulary::slot_of(std::string_view token) const {
    std::size_t at = std::hash<std::string_view>{}(token) & (slots_.size() - 1);
    while (slots_[at] >= 0 && this->token(slots_[at]) != token) at = (at + 1) & (slots_.size() - 1);
    return at;
}

Status Vocabulary::add(int32_t id, std::string_view token, std::string_view bytes) {
    return add_entry(id, token, bytes, true);
}

Status Vocabulary::add_entry(int32_t id, std::string_view token, std::string_view bytes, bool in_model) {
    if (id < 0) return corrupt(fmt::format("token {} has the negative id {}", json_quote(token), id));
    if (token.empty()) return corrupt(fmt::format("the token of id {} is empty", id));
    if (id > static_cast<int64_t>(count_) + kMostGaps)
        return corrupt(fmt::format("token {} has id {}, more than {} beyond the number of tokens", json_quote(token),
                                   id, kMostGaps));
    if (has(id))
        return corrupt(
            fmt::format("id {} is given to both {} and {}", id, json_quote(this->token(id)), json_quote(token)));
    if (const std::optional<int32_t> known = find(token))
        return corrupt(fmt::format("token {} has two ids, {} and {}", json_quote(token), *known, id));
    Entry entry;
    entry.present = true;
    entry.in_model = in_model;
    HK_TRY(put_text(token, entry.token));
    entry.bytes = entry.token;
    if (bytes != token) HK_TRY(put_text(bytes, entry.bytes));
    if (id >= size()) tokens_.resize(static_cast<std::size_t>(id) + 1);
    tokens_[static_cast<std::size_t>(id)] = entry;
    if (2 * ++count_ > slots_.size()) { // rehash all of them, including this one
        slots_.assign(std::max(2 * slots_.size(), kFewestSlots), -1);
        for (int32_t one = 0; one < size(); ++one)
            if (has(one)) slots_[slot_of(this->token(one))] = one;
    } else {
        slots_[slot_of(token)] = id;
    }
    return {};
}

Status Vocabulary::add(AddedToken token) {
    if (has(token.id) && this->token(token.id) == token.content) {
        if (is_added(token.id))
            return corrupt(fmt::format("the added token {} is listed twice", json_quote(token.content)));
    } else {
        HK_TRY(add_entry(token.id, token.content, token.content, false));
    }
    Entry& entry = tokens_[static_cast<std::size_t>(token.id)];
    entry.bytes = entry.token; // the bytes of added tokens are their text, whatever alphabet the others use
    entry.added = true;
    entry.special = token.special;
    const auto at = std::lower_bound(added_.begin(), added_.end(), token.id,
                                     [](const AddedToken& known, int32_t id) { return known.id < id; });
    added_.insert(at, std::move(token));
    return {};
}

Status Vocabulary::add_special(const SpecialToken& token) {
    AddedToken added;
    added.id = find(token.text).value_or(size());
    added.content = token.text;
    if (is_added(added.id)) {
        tokens_[static_cast<std::size_t>(added.id)].special = true;
        for (AddedToken& known : added_)
            if (known.id == added.id) known.special = true;
    } else {
        HK_TRY(add(added));
    }
    for (const TokenRole role : token.roles) HK_TRY(set_role(role, added.id));
    return {};
}

Status Vocabulary::set_role(TokenRole role, int32_t id) {
    if (!has(id)) return corrupt(fmt::format("{} is id {}, which no token has", role_key(role), id));
    roles_[static_cast<std::size_t>(role)] = id;
    return {};
}

Status Vocabulary::set_bytes(int32_t id, std::string_view bytes) {
    if (!has(id)) return corrupt(fmt::format("no token has id {}", id));
    if (bytes == this->bytes(id)) return {};
    return put_text(bytes, tokens_[static_cast<std::size_t>(id)].bytes);
}

Status Vocabulary::set_frame(TextFrame frame) {
    for (const std::vector<int32_t>* ids :
         {&frame.before, &frame.after, &frame.pair_before, &frame.pair_between, &frame.pair_after})
        for (const int32_t id : *ids)
            if (!has(id)) return corrupt(fmt::format("a text begins or ends with id {}, which no token has", id));
    frame_ = std::move(frame);
    return {};
}

bool Vocabulary::has(int32_t id) const {
    return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].present;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
    if (slots_.empty()) return {};
    const int32_t id = slots_[slot_of(token)];
    return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<int32_t> Vocabulary::find_in_model(std::string_view token) const {
    const std::optional<int32_t> id = find(token);
    return id && is_in_model(*id) ? id : std::nullopt;
}

void Vocabulary::append_identity(std::string& bytes) const {
    put(bytes, size());
    for (const Entry& entry : tokens_) {
        put(bytes, static_cast<uint8_t>(entry.present));
        put_sized(bytes, text(entry.token));
    }
    put(bytes, static_cast<uint64_t>(added_.size()));
    for (const AddedToken& token : added_) {
        put(bytes, token.id);
        put(bytes,
            static_cast<uint8_t>(token.special << 0 | token.lstrip << 1 | token.rstrip << 2 | token.single_word << 3));
    }
    for (const std::optional<int32_t>& role : roles_) put(bytes, role.value_or(-1));
    const DocumentFrame frame = document_frame();
    if (frame == DocumentFrame()) return; // keeps identities of earlier versions, which had no frame, valid
    for (const std::vector<int32_t>* ids : {&frame.before, &frame.after}) {
        put(bytes, static_cast<uint64_t>(ids->size()));
        for (const int32_t id : *ids) put(bytes, id);
    }
}

} // namespace hekla::text
