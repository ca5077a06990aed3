#include "text/files/tokenizer_json_parts.hpp"

#include "text/files/special_files.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

const Json& member(const Json& object, const char* key) {
    static const Json& kNull = *new Json; // never destroyed: threads may use it while the process exits
    const auto at = object.find(key);
    return at == object.end() ? kNull : *at;
}

Result<std::string> type_of(const Json& section, const char* what, const std::string& name) {
    if (!section.is_object() || !member(section, "type").is_string())
        return corrupt(fmt::format("{}: \"{}\" is not an object with a \"type\"", name, what));
    return member(section, "type").get<std::string>();
}

Status not_done(const std::string& name, const char* what, const std::string& value, const char* done) {
    constexpr std::size_t kLongest = 300; // a file can contain a section of any length
    std::size_t size = std::min(value.size(), kLongest);
    while (size < value.size() && (static_cast<unsigned char>(value[size]) & 0xC0u) == 0x80u) --size; // whole UTF-8
    const char* rest = size < value.size() ? "..." : "";
    return unsupported(fmt::format("{}: the {} is {}{}; supported: {}", name, what, value.substr(0, size), rest, done));
}

Status read_model_vocabulary(const Json& model, const std::string& name,
                             const std::function<Status(const std::string& token, int32_t id)>& add) {
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object() || vocab.empty())
        return corrupt(fmt::format("{}: \"model.vocab\" is not an object with tokens", name));
    std::vector<std::pair<int32_t, const std::string*>> tokens;
    for (auto at = vocab.begin(); at != vocab.end(); ++at) {
        HK_ASSIGN(const int32_t id, json_token_id(at.value(), json_quote(at.key()), name));
        tokens.emplace_back(id, &at.key());
    }
    std::sort(tokens.begin(), tokens.end());
    for (const auto& [id, token] : tokens) HK_TRY(add(*token, id));
    return {};
}

Status read_added_tokens(const Json& json, const std::string& name, Vocabulary& vocabulary) {
    const Json& list = member(json, "added_tokens");
    if (list.is_null()) return {};
    if (!list.is_array()) return corrupt(fmt::format("{}: \"added_tokens\" is not a list", name));
    std::vector<AddedToken> tokens;
    for (const Json& item : list) {
        if (!item.is_object()) return corrupt(fmt::format("{}: an entry of \"added_tokens\" is not an object", name));
        AddedToken token;
        HK_ASSIGN(token.content, json_string(item, "content", "", name));
        HK_ASSIGN(token.id, json_token_id(member(item, "id"), json_quote(token.content), name));
        if (token.content.empty()) return corrupt(fmt::format("{}: the added token of id {} is empty", name, token.id));
        HK_ASSIGN(token.special, json_bool(item, "special", false, name));
        HK_ASSIGN(token.lstrip, json_bool(item, "lstrip", false, name));
        HK_ASSIGN(token.rstrip, json_bool(item, "rstrip", false, name));
        HK_ASSIGN(token.normalized, json_bool(item, "normalized", false, name));
        HK_ASSIGN(token.single_word, json_bool(item, "single_word", false, name));
        tokens.push_back(std::move(token));
    }
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    for (AddedToken& token : tokens) {
        const Status status = vocabulary.add(std::move(token));
        if (!status.ok()) return status.with_context(name);
    }
    return {};
}

Status read_unknown(const Json& model, const std::string& name, bool required, Vocabulary& vocabulary) {
    HK_ASSIGN(const std::string token, json_string(model, "unk_token", "", name));
    if (token.empty()) return {};
    const std::optional<int32_t> id = vocabulary.find(token);
    if (id) return vocabulary.set_role(TokenRole::unk, *id);
    return required ? corrupt(fmt::format("{}: the unknown token {} is not in the vocabulary", name, json_quote(token)))
                    : Status();
}

Status read_model_merges(const Json& model, const std::string& name, BpeBuilder& builder) {
    const Json& list = member(model, "merges");
    if (!list.is_array()) return corrupt(fmt::format("{}: \"model.merges\" is not a list", name));
    std::size_t number = 0;
    for (const Json& item : list) {
        const std::string place = fmt::format("{}: merge {}", name, number++);
        if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
            HK_TRY(
                builder.add_merge(item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>(), place));
            continue;
        }
        const std::string text = item.is_string() ? item.get<std::string>() : std::string();
        const std::size_t space = text.find(' ');
        if (space == 0 || space == std::string::npos || space + 1 == text.size() ||
            text.find(' ', space + 1) != std::string::npos)
            return corrupt(fmt::format("{}: two tokens were expected, \"a b\" or [\"a\", \"b\"]", place));
        HK_TRY(builder.add_merge(text.substr(0, space), text.substr(space + 1), place));
    }
    return {};
}

const char* yes(bool value) { return value ? "true" : "false"; }

namespace {

std::string added_tokens_json(const Vocabulary& vocabulary) {
    std::string out;
    for (const AddedToken& token : vocabulary.added())
        out +=
            fmt::format("{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": {}, \"lstrip\": {}, \"rstrip\": {}, "
                        "\"normalized\": {}, \"special\": {}}}",
                        out.empty() ? "" : ",", token.id, json_quote(token.content), yes(token.single_word),
                        yes(token.lstrip), yes(token.rstrip), yes(token.normalized), yes(token.special));
    return out.empty() ? "[]" : "[" + out + "\n  ]";
}

template<class Wanted>
std::string tokens_json(const Vocabulary& vocabulary, const Wanted& wanted) {
    std::string out;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
        if (wanted(id))
            out += fmt::format("{}\n      {}: {}", out.empty() ? "" : ",", json_quote(vocabulary.token(id)), id);
    return "{" + out + "\n    }";
}

} // namespace

std::string vocabulary_json(const Vocabulary& vocabulary) {
    return tokens_json(vocabulary, [&](int32_t id) { return vocabulary.has(id); });
}

std::string model_vocabulary_json(const Vocabulary& vocabulary) {
    return tokens_json(vocabulary, [&](int32_t id) { return vocabulary.is_in_model(id); });
}

std::string tokenizer_document(const Vocabulary& vocabulary, const std::string& normalizer,
                               const std::string& pre_tokenizer, const std::string& post_processor,
                               const std::string& decoder, const std::string& model) {
    return fmt::format("{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                       "  \"added_tokens\": {},\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n"
                       "  \"post_processor\": {},\n  \"decoder\": {},\n  \"model\": {}\n}}\n",
                       added_tokens_json(vocabulary), normalizer, pre_tokenizer, post_processor, decoder, model);
}

} // namespace hekla::text
