#include "text/files/special_files.hpp"

#include "base/file.hpp"
#include "text/files/json_file.hpp"
#include "text/frame_shapes.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

// Reads a file, or returns an empty object if it does not exist.
Result<Json> read_optional(const FilePlace& path) {
    if (!path.exists()) return Json(Json::object());
    return read_json_object(path);
}

// Returns the token in a value of these files: a string, or an object with the string as "content".
Result<std::string> token_text(const Json& value, const char* key, const std::string& name) {
    const Json* content = &value;
    if (value.is_object()) {
        const auto at = value.find("content");
        if (at == value.end()) return corrupt(fmt::format("{}: \"{}\" has no \"content\"", name, key));
        content = &*at;
    }
    if (!content->is_string() || content->get_ref<const std::string&>().empty())
        return corrupt(fmt::format("{}: \"{}\" is not a token: a string, or an object with a string as \"content\", "
                                   "was expected",
                                   name, key));
    return content->get<std::string>();
}

Status read_roles(const Json& object, const std::string& name, Vocabulary& vocabulary) {
    for (int32_t i = 0; i < kTokenRoles; ++i) {
        const auto role = static_cast<TokenRole>(i);
        const auto at = object.find(role_key(role));
        if (at == object.end() || at->is_null() || vocabulary.role(role)) continue;
        HK_ASSIGN(std::string text, token_text(*at, role_key(role), name));
        const Status status = vocabulary.add_special({std::move(text), {role}});
        if (!status.ok()) return status.with_context(name);
    }
    const auto more = object.find("additional_special_tokens");
    if (more == object.end() || more->is_null()) return {};
    if (!more->is_array()) return corrupt(fmt::format("{}: \"additional_special_tokens\" is not a list", name));
    for (const Json& value : *more) {
        HK_ASSIGN(std::string text, token_text(value, "additional_special_tokens", name));
        const Status status = vocabulary.add_special({std::move(text), {}});
        if (!status.ok()) return status.with_context(name);
    }
    return {};
}

Status add_listed(std::vector<AddedToken> listed, const std::string& name, Vocabulary& vocabulary) {
    std::sort(listed.begin(), listed.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    for (AddedToken& token : listed) {
        if (vocabulary.is_added(token.id) && vocabulary.token(token.id) == token.content) continue;
        const Status status = vocabulary.add(std::move(token));
        if (!status.ok()) return status.with_context(name);
    }
    return {};
}

} // namespace

Status read_special_files(const FilePlace& folder, Vocabulary& vocabulary) {
    const std::string config_name = (folder / "tokenizer_config.json").string();
    HK_ASSIGN(const Json config, read_optional(folder / "tokenizer_config.json"));
    const std::string added_name = (folder / "added_tokens.json").string();
    HK_ASSIGN(const Json added, read_optional(folder / "added_tokens.json"));

    std::vector<AddedToken> listed;
    if (const auto decoder = config.find("added_tokens_decoder"); decoder != config.end() && !decoder->is_null()) {
        if (!decoder->is_object())
            return corrupt(fmt::format("{}: \"added_tokens_decoder\" is not an object", config_name));
        for (const auto& [key, value] : decoder->items()) {
            int64_t id = -1;
            if (!key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos)
                id = std::stoll(key);
            if (id < 0 || !value.is_object())
                return corrupt(fmt::format("{}: \"added_tokens_decoder\": the entry {} is not a token under its id",
                                           config_name, json_quote(key)));
            AddedToken token;
            token.id = static_cast<int32_t>(id);
            HK_ASSIGN(token.content, token_text(value, "added_tokens_decoder", config_name));
            HK_ASSIGN(token.special, json_bool(value, "special", false, config_name));
            HK_ASSIGN(token.lstrip, json_bool(value, "lstrip", false, config_name));
            HK_ASSIGN(token.rstrip, json_bool(value, "rstrip", false, config_name));
            HK_ASSIGN(token.normalized, json_bool(value, "normalized", false, config_name));
            HK_ASSIGN(token.single_word, json_bool(value, "single_word", false, config_name));
            listed.push_back(std::move(token));
        }
    }
    HK_TRY(add_listed(std::move(listed), config_name, vocabulary));
    listed.clear();
    for (const auto& [content, value] : added.items()) {
        HK_ASSIGN(const int32_t id, json_token_id(value, json_quote(content), added_name));
        listed.push_back(AddedToken{id, content, false});
    }
    HK_TRY(add_listed(std::move(listed), added_name, vocabulary));

    HK_TRY(read_roles(config, config_name, vocabulary));
    const std::string map_name = (folder / "special_tokens_map.json").string();
    HK_ASSIGN(const Json map, read_optional(folder / "special_tokens_map.json"));
    return read_roles(map, map_name, vocabulary);
}

Result<std::string> tokenizer_family(const FilePlace& folder) {
    const std::string config_name = (folder / "tokenizer_config.json").string();
    HK_ASSIGN(const Json config, read_optional(folder / "tokenizer_config.json"));
    HK_ASSIGN(std::string name, json_string(config, "tokenizer_class", "", config_name));
    name = name.substr(0, name.find("Tokenizer"));
    if (name.empty()) {
        const std::string model_name = (folder / "config.json").string();
        HK_ASSIGN(const Json model, read_optional(folder / "config.json"));
        HK_ASSIGN(const std::string type, json_string(model, "model_type", "", model_name));
        constexpr std::pair<const char*, const char*> kFamilies[] = {{"t5", "T5"},
                                                                     {"mt5", "T5"},
                                                                     {"umt5", "T5"},
                                                                     {"albert", "Albert"},
                                                                     {"xlnet", "XLNet"},
                                                                     {"flaubert", "Flaubert"},
                                                                     {"xlm", "XLM"},
                                                                     {"llama", "Llama"},
                                                                     {"qwen2", "Qwen2"},
                                                                     {"qwen3", "Qwen2"},
                                                                     {"openai-gpt", "OpenAIGPT"},
                                                                     {"deberta-v2", "DebertaV2"}};
        for (const auto& [key, value] : kFamilies)
            if (type == key) name = value;
    }
    return name == "MT5" ? "T5" : name == "PreTrained" ? "" : name;
}

Result<bool> read_add_prefix_space(const FilePlace& folder) {
    const std::string name = (folder / "tokenizer_config.json").string();
    HK_ASSIGN(const Json config, read_optional(folder / "tokenizer_config.json"));
    return json_bool(config, "add_prefix_space", false, name);
}

Status write_special_files(const std::filesystem::path& folder, const Vocabulary& vocabulary,
                           const std::string& members) {
    std::string roles;
    std::string more;
    std::vector<bool> has_role(static_cast<std::size_t>(vocabulary.size()), false);
    for (int32_t i = 0; i < kTokenRoles; ++i) {
        const auto role = static_cast<TokenRole>(i);
        const std::optional<int32_t> id = vocabulary.role(role);
        if (!id) continue;
        has_role[static_cast<std::size_t>(*id)] = true;
        roles += fmt::format("{}  \"{}\": {}", roles.empty() ? "" : ",\n", role_key(role),
                             json_quote(vocabulary.token(*id)));
    }
    for (const AddedToken& token : vocabulary.added()) {
        if (!token.special || has_role[static_cast<std::size_t>(token.id)]) continue;
        more += fmt::format("{}{}", more.empty() ? "" : ", ", json_quote(token.content));
    }
    if (!more.empty())
        roles += fmt::format("{}  \"additional_special_tokens\": [{}]", roles.empty() ? "" : ",\n", more);
    HK_TRY(write_file_atomically(folder / "special_tokens_map.json", fmt::format("{{\n{}\n}}\n", roles)));
    if (const DocumentFrame frame = vocabulary.document_frame(); frame != DocumentFrame())
        roles += fmt::format("{}  \"add_bos_token\": {},\n  \"add_eos_token\": {}", roles.empty() ? "" : ",\n",
                             frame.before.empty() ? "false" : "true", frame.after.empty() ? "false" : "true");
    // XLNet's default; the class that is written has another.
    if (pads_left(vocabulary)) roles += fmt::format("{}  \"padding_side\": \"left\"", roles.empty() ? "" : ",\n");
    return write_file_atomically(folder / "tokenizer_config.json",
                                 fmt::format("{{\n{}{}{}\n}}\n", members, roles.empty() ? "" : ",\n", roles));
}

} // namespace hekla::text
