#include "text/files/bpe_builder.hpp"

#include "text/files/json_file.hpp"

#include <fmt/format.h>
#include <optional>
#include <utility>

namespace hekla::text {

Status BpeBuilder::add_token(const std::string& token, int32_t id, const std::string& name) {
    // A token with a character outside the byte alphabet is taken literally: GPT-2's file has special tokens like that.
    const Status status =
        vocabulary.add(id, token, bytes_of ? bytes_of(token) : alphabet_.bytes(token).value_or(token));
    return status.ok() ? status : status.with_context(name);
}

Status BpeBuilder::add_merge(std::string_view left, std::string_view right, const std::string& place) {
    if (right.size() < prefix.size())
        return corrupt(
            fmt::format("{}: {} is shorter than the prefix {}", place, json_quote(right), json_quote(prefix)));
    const std::string joined = std::string(left) + std::string(right.substr(prefix.size()));
    Merge merge;
    for (const auto& [text, id] : {std::pair(left, &merge.left), std::pair(right, &merge.right),
                                   std::pair(std::string_view(joined), &merge.result)}) {
        const std::optional<int32_t> found = vocabulary.find(text);
        if (!found) return corrupt(fmt::format("{}: the token {} is not in the vocabulary", place, json_quote(text)));
        *id = *found;
    }
    if (!merges.add(merge))
        return corrupt(
            fmt::format("{}: {} and {} are merged a second time", place, json_quote(left), json_quote(right)));
    return {};
}

} // namespace hekla::text
