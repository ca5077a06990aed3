#include "text/added_tokens.hpp"

#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>

namespace hekla::text {
namespace {

std::vector<AddedToken> with_text(std::span<const SpecialToken> tokens) {
    std::vector<AddedToken> all;
    for (const SpecialToken& token : tokens)
        if (!token.text.empty()) all.push_back(AddedToken{0, token.text});
    return all;
}

char32_t last_character(std::string_view text) {
    return first_code_point(text.substr(last_code_point_start(text))).value;
}

} // namespace

TokenMatcher::TokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        const std::string& content = tokens_[i].content;
        if (!indices_.emplace(content, i).second) continue;
        const auto first = static_cast<unsigned char>(content.front());
        std::vector<std::size_t>& lengths = lengths_[first];
        const auto at = std::lower_bound(lengths.begin(), lengths.end(), content.size(), std::greater<>());
        if (at == lengths.end() || *at != content.size()) lengths.insert(at, content.size());
        is_begin_[first] = true;
    }
    if (std::ranges::count(is_begin_, true) == 1)
        only_begin_ = static_cast<char>(std::ranges::find(is_begin_, true) - is_begin_.begin());
}

std::size_t TokenMatcher::next_begin(std::string_view text, std::size_t from) const {
    if (only_begin_) return std::min(text.find(*only_begin_, from), text.size());
    while (from < text.size() && !is_begin_[static_cast<unsigned char>(text[from])]) ++from;
    return from;
}

bool TokenMatcher::find(std::string_view text, std::size_t& from, std::size_t done, bool match_special,
                        Match& match) const {
    if (tokens_.empty()) return false;
    while ((from = next_begin(text, from)) < text.size()) {
        const AddedToken* token = nullptr;
        for (const std::size_t size : lengths_[static_cast<unsigned char>(text[from])]) {
            if (from + size > text.size()) continue;
            const auto found = indices_.find(text.substr(from, size));
            if (found == indices_.end()) continue;
            token = &tokens_[found->second];
            break;
        }
        if (token == nullptr) {
            ++from;
            continue;
        }
        match = {from, from + token->content.size(), token->id};
        from = match.end;
        if (token->special && !match_special) continue;
        if (token->single_word &&
            ((match.begin > 0 && is_word_character(last_character(text.substr(0, match.begin)))) ||
             (match.end < text.size() && is_word_character(first_code_point(text.substr(match.end)).value))))
            continue;
        if (token->lstrip) {
            while (match.begin > 0) {
                const std::size_t before = last_code_point_start(text.substr(0, match.begin));
                if (before < done || !is_white_space(first_code_point(text.substr(before)).value)) break;
                match.begin = before;
            }
            match.begin = std::max(match.begin, done);
            match.end = std::max(match.end, match.begin);
        }
        while (token->rstrip && match.end < text.size()) {
            const CodePoint next = first_code_point(text.substr(match.end));
            if (!is_white_space(next.value)) break;
            match.end += next.size;
        }
        return true;
    }
    return false;
}

bool TokenMatcher::can_cut(std::string_view text, std::size_t at) const {
    for (const AddedToken& token : tokens_) {
        const std::string_view content = token.content;
        if (token.rstrip && text.substr(0, at).ends_with(content)) return false;
        if (token.single_word && (text.substr(0, at).ends_with(content) || text.substr(at).starts_with(content)))
            return false;
        for (std::size_t before = 1; before < content.size() && before <= at; ++before) {
            const std::string_view there = text.substr(at - before, content.size());
            if (content.starts_with(there)) return false; // the text may end inside the token
        }
    }
    return true;
}

AddedTokens::AddedTokens(std::span<const SpecialToken> tokens) : raw_(with_text(tokens)) {}

AddedTokens::AddedTokens(std::span<const AddedToken> tokens, const Normalize& normalize) {
    std::vector<AddedToken> raw, normalized;
    for (const AddedToken& token : tokens) {
        std::vector<AddedToken>& list = token.normalized ? normalized : raw;
        list.push_back(token);
        if (token.normalized && normalize) list.back().content = normalize(token.content);
        if (list.back().content.empty()) list.pop_back();
    }
    raw_ = TokenMatcher(std::move(raw));
    normalized_ = TokenMatcher(std::move(normalized));
}

} // namespace hekla::text
