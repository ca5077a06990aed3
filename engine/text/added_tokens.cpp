#include "text/added_tokens.hpp"

#include "text/unicode/utf8.hpp"

#include <algorithm>

namespace hekla::text {
namespace {

std::vector<AddedToken> with_text(std::span<const SpecialToken> tokens) {
    std::vector<AddedToken> all;
    for (const SpecialToken& token : tokens)
        if (!token.text.empty()) all.push_back(AddedToken{0, token.text});
    return all;
}

} // namespace

AddedTokens::AddedTokens(std::span<const SpecialToken> tokens) : AddedTokens(with_text(tokens)) {}

AddedTokens::AddedTokens(std::span<const AddedToken> tokens) : tokens_(tokens.begin(), tokens.end()) {
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        const auto first = static_cast<unsigned char>(tokens_[i].content.front());
        begins_[first].push_back(i);
        is_begin_[first] = true;
        longest_ = std::max(longest_, tokens_[i].content.size());
    }
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from, bool match_special) const {
    const std::size_t start = tokens_.empty() ? text.size() : from;
    for (std::size_t at = start; at < text.size(); ++at) {
        const auto first = static_cast<unsigned char>(text[at]);
        if (!is_begin_[first]) continue;
        for (const std::size_t i : begins_[first]) {
            const AddedToken& token = tokens_[i];
            if ((token.special && !match_special) || !text.substr(at).starts_with(token.content)) continue;
            Match match{at, at + token.content.size(), token.id};
            while (token.lstrip && match.begin > from) {
                const std::size_t before = last_code_point_start(text.substr(0, match.begin));
                if (before < from || !is_white_space(first_code_point(text.substr(before)).value)) break;
                match.begin = before;
            }
            while (token.rstrip && match.end < text.size()) {
                const CodePoint next = first_code_point(text.substr(match.end));
                if (!is_white_space(next.value)) break;
                match.end += next.size;
            }
            return match;
        }
    }
    return {text.size(), text.size(), -1};
}

bool AddedTokens::can_cut(std::string_view text, std::size_t at) const {
    for (const AddedToken& token : tokens_) {
        const std::string_view content = token.content;
        if (token.rstrip && text.substr(0, at).ends_with(content)) return false;
        for (std::size_t before = 1; before < content.size() && before <= at; ++before) {
            const std::string_view there = text.substr(at - before, content.size());
            if (content.starts_with(there)) return false; // the text may end inside the token
        }
    }
    return true;
}

} // namespace hekla::text
