#include "text/tokenizer_json.hpp"

#include "text/gpt2_files.hpp"
#include "text/json_file.hpp"
#include "text/special_files.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

// Splits after every character. `.` would not match a newline, and the flag for that differs between engines.
constexpr std::string_view kAnyCharacter = R"([\s\S])";

const Json& member(const Json& object, const char* key) {
    static const Json null;
    const auto at = object.find(key);
    return at == object.end() ? null : *at;
}

Result<std::string> type_of(const Json& section, const char* what, const std::string& name) {
    if (!section.is_object() || !member(section, "type").is_string())
        return corrupt(fmt::format("{}: \"{}\" is not an object with a \"type\"", name, what));
    return member(section, "type").get<std::string>();
}

Status not_done(const std::string& name, const char* what, const std::string& value, const char* done) {
    return unsupported(fmt::format("{}: the {} is {}; supported: {}", name, what, value, done));
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
        HK_ASSIGN(const bool single_word, json_bool(item, "single_word", false, name));
        if (single_word)
            return unsupported(fmt::format("{}: the added token {} is \"single_word\", which is not supported", name,
                                           json_quote(token.content)));
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

Status read_vocabulary(const Json& model, const std::string& name, BpeBuilder& builder) {
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object() || vocab.empty())
        return corrupt(fmt::format("{}: \"model.vocab\" is not an object with tokens", name));
    std::vector<std::pair<int32_t, const std::string*>> tokens;
    for (auto at = vocab.begin(); at != vocab.end(); ++at) {
        HK_ASSIGN(const int32_t id, json_token_id(at.value(), json_quote(at.key()), name));
        tokens.emplace_back(id, &at.key());
    }
    std::sort(tokens.begin(), tokens.end());
    for (const auto& [id, token] : tokens) HK_TRY(builder.add_token(*token, id, name));
    return {};
}

Status read_merges(const Json& model, const std::string& name, BpeBuilder& builder) {
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

Status read_byte_level(const Json& section, const std::string& name, ByteBpeOptions& options) {
    HK_ASSIGN(options.add_prefix_space, json_bool(section, "add_prefix_space", true, name));
    HK_ASSIGN(const bool use_regex, json_bool(section, "use_regex", true, name));
    if (!use_regex) options.splitter.reset();
    return {};
}

// ByteLevel, or a Sequence of ByteLevel or of Split and ByteLevel.
Status read_pre_tokenizer(const Json& json, const std::string& name, ByteBpeOptions& options) {
    const char* done = "ByteLevel, or Split by an expression and then ByteLevel without one";
    const Json& section = member(json, "pre_tokenizer");
    HK_ASSIGN(const std::string type, type_of(section, "pre_tokenizer", name));
    if (type == "ByteLevel") return read_byte_level(section, name, options);
    if (type != "Sequence") return not_done(name, "pre_tokenizer", json_quote(type), done);
    const Json& steps = member(section, "pretokenizers");
    if (!steps.is_array() || steps.empty() || steps.size() > 2)
        return not_done(name, "pre_tokenizer", "a sequence of another length", done);
    for (const Json& step : steps) HK_TRY(type_of(step, "pretokenizers", name).status());
    if (member(steps.back(), "type") != "ByteLevel") return not_done(name, "pre_tokenizer", section.dump(), done);
    HK_TRY(read_byte_level(steps.back(), name, options));
    if (steps.size() == 1) return {};
    const Json& split = steps.front();
    const Json& pattern = member(split, "pattern");
    const Json& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
    HK_ASSIGN(const std::string behavior, json_string(split, "behavior", "", name));
    HK_ASSIGN(const bool invert, json_bool(split, "invert", false, name));
    if (member(split, "type") != "Split" || !regex.is_string() || behavior != "Isolated" || invert ||
        options.splitter || options.add_prefix_space)
        return not_done(name, "pre_tokenizer", section.dump(), done);
    Result<Splitter> splitter = Splitter::compile(regex.get<std::string>());
    if (!splitter.ok()) return splitter.status().with_context(name);
    options.splitter = splitter.take();
    return {};
}

Status refuse_options(const Json& model, const std::string& name) {
    const Json& dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != 0) return not_done(name, "model's dropout", dropout.dump(), "none");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        HK_ASSIGN(const std::string affix, json_string(model, key, "", name));
        if (!affix.empty()) return not_done(name, key, json_quote(affix), "none");
    }
    HK_ASSIGN(const bool fallback, json_bool(model, "byte_fallback", false, name));
    if (fallback) return not_done(name, "model's byte_fallback", "true", "false");
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

Result<std::unique_ptr<Tokenizer>> read_byte_bpe(const Json& json, const std::filesystem::path& path) {
    const std::string name = path.string();
    const Json& model = member(json, "model");
    ByteBpeOptions options;
    HK_TRY(read_pre_tokenizer(json, name, options));
    HK_TRY(refuse_options(model, name));
    const Json& decoder = member(json, "decoder");
    if (!decoder.is_null()) {
        HK_ASSIGN(const std::string type, type_of(decoder, "decoder", name));
        if (type != "ByteLevel") return not_done(name, "decoder", json_quote(type), "ByteLevel");
    }
    HK_ASSIGN(options.ignore_merges, json_bool(model, "ignore_merges", false, name));
    HK_ASSIGN(options.fuse_unknown, json_bool(model, "fuse_unk", false, name));
    if (const Json& post = member(json, "post_processor"); !post.is_null()) options.post_processor = post.dump();

    BpeBuilder builder;
    HK_TRY(read_vocabulary(model, name, builder));
    HK_TRY(read_merges(model, name, builder));
    HK_TRY(read_added_tokens(json, name, builder.vocabulary));
    HK_TRY(read_unknown(model, name, true, builder.vocabulary));
    HK_TRY(read_special_files(path.parent_path(), builder.vocabulary));
    bool has_role = false;
    for (int32_t i = 0; i < kTokenRoles; ++i)
        has_role |= builder.vocabulary.role(static_cast<TokenRole>(i)).has_value();
    // GPT-2's tokenizer.json says no roles; everyone knows what this token is for.
    if (const auto id = builder.vocabulary.find("<|endoftext|>"); id && !has_role) {
        HK_TRY(builder.vocabulary.set_role(TokenRole::bos, *id));
        HK_TRY(builder.vocabulary.set_role(TokenRole::eos, *id));
    }
    return ByteBpe::create(std::move(builder.vocabulary), std::move(builder.merges), std::move(options));
}

Result<std::unique_ptr<Tokenizer>> read_characters(const Json& json, const std::filesystem::path& path) {
    const std::string name = path.string();
    const Json& model = member(json, "model");
    const Json& section = member(json, "pre_tokenizer");
    const char* done = "a Split into single characters, for a WordLevel model";
    HK_ASSIGN(const std::string type, type_of(section, "pre_tokenizer", name));
    const Json& pattern = member(section, "pattern");
    if (type != "Split" || !pattern.is_object() || member(pattern, "Regex") != kAnyCharacter ||
        member(section, "behavior") != "Isolated" || member(section, "invert") == true)
        return not_done(name, "pre_tokenizer", section.dump(), done);
    const Json& decoder = member(json, "decoder");
    if (!decoder.is_object() || member(decoder, "type") != "Fuse")
        return not_done(name, "decoder", decoder.dump(), "Fuse, for a WordLevel model");
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object() || vocab.empty())
        return corrupt(fmt::format("{}: \"model.vocab\" is not an object with tokens", name));
    std::vector<std::pair<int32_t, const std::string*>> tokens;
    for (auto at = vocab.begin(); at != vocab.end(); ++at) {
        HK_ASSIGN(const int32_t id, json_token_id(at.value(), json_quote(at.key()), name));
        tokens.emplace_back(id, &at.key());
    }
    std::sort(tokens.begin(), tokens.end());
    Vocabulary vocabulary;
    for (const auto& [id, token] : tokens) {
        const Status status = vocabulary.add(id, *token, *token);
        if (!status.ok()) return status.with_context(name);
    }
    HK_TRY(read_added_tokens(json, name, vocabulary));
    HK_TRY(read_unknown(model, name, false, vocabulary));
    HK_TRY(read_special_files(path.parent_path(), vocabulary));
    return CharacterTokenizer::create(std::move(vocabulary));
}

const char* yes(bool value) { return value ? "true" : "false"; }

std::string added_tokens_json(const Vocabulary& vocabulary) {
    std::string out;
    for (const AddedToken& token : vocabulary.added())
        out += fmt::format(
            "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": {}, \"rstrip\": {}, "
            "\"normalized\": {}, \"special\": {}}}",
            out.empty() ? "" : ",", token.id, json_quote(token.content), yes(token.lstrip), yes(token.rstrip),
            yes(token.normalized), yes(token.special));
    return out.empty() ? "[]" : "[" + out + "\n  ]";
}

std::string vocabulary_json(const Vocabulary& vocabulary) {
    std::string out;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
        if (vocabulary.has(id))
            out += fmt::format("{}\n      {}: {}", out.empty() ? "" : ",", json_quote(vocabulary.token(id)), id);
    return "{" + out + "\n    }";
}

std::string document(const Vocabulary& vocabulary, const std::string& pre_tokenizer, const std::string& post_processor,
                     const std::string& decoder, const std::string& model) {
    return fmt::format("{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                       "  \"added_tokens\": {},\n  \"normalizer\": null,\n  \"pre_tokenizer\": {},\n"
                       "  \"post_processor\": {},\n  \"decoder\": {},\n  \"model\": {}\n}}\n",
                       added_tokens_json(vocabulary), pre_tokenizer, post_processor, decoder, model);
}

} // namespace

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(const std::filesystem::path& path) {
    const std::string name = path.string();
    HK_ASSIGN(const Json json, read_json_object(path));
    const Json& model = member(json, "model");
    if (!model.is_object()) return corrupt(fmt::format("{}: has no \"model\" object", name));
    if (const Json& normalizer = member(json, "normalizer"); !normalizer.is_null())
        return not_done(name, "normalizer", normalizer.dump(), "none");
    // Older files leave the type out; merges say what it is.
    std::string type = member(model, "merges").is_array() ? "BPE" : "";
    if (!member(model, "type").is_null()) { HK_ASSIGN(type, type_of(model, "model", name)); }
    Result<std::unique_ptr<Tokenizer>> tokenizer =
        type == "BPE" ? read_byte_bpe(json, path)
        : type == "WordLevel"
            ? read_characters(json, path)
            : not_done(name, "model's type", json_quote(type), "BPE, and WordLevel of single characters");
    if (!tokenizer.ok() && tokenizer.message().find(path.parent_path().string()) == std::string::npos)
        return tokenizer.status().with_context(name);
    return tokenizer;
}

std::string byte_bpe_json(const ByteBpe& bpe) {
    const Vocabulary& vocabulary = bpe.vocabulary();
    const ByteBpeOptions& options = bpe.options();
    const bool own_pattern = options.splitter && !options.splitter->is_gpt2();
    std::string pre_tokenizer =
        fmt::format("{{\"type\": \"ByteLevel\", \"add_prefix_space\": {}, \"trim_offsets\": true, \"use_regex\": {}}}",
                    yes(options.add_prefix_space), yes(options.splitter && !own_pattern));
    if (own_pattern)
        pre_tokenizer =
            fmt::format("{{\"type\": \"Sequence\", \"pretokenizers\": [\n    {{\"type\": \"Split\", \"pattern\": "
                        "{{\"Regex\": {}}}, \"behavior\": \"Isolated\", \"invert\": false}},\n    {}\n  ]}}",
                        json_quote(options.splitter->pattern()), pre_tokenizer);
    const auto has_space = [&](const Merge& merge) {
        return vocabulary.token(merge.result).find(' ') != std::string::npos;
    };
    // "a b" is read by every version of the library, ["a", "b"] by newer ones only; it is for tokens with spaces in
    // them.
    const std::span<const Merge> merges = bpe.merges().list();
    const bool pairs = std::any_of(merges.begin(), merges.end(), has_space);
    std::string list;
    for (const Merge& merge : merges) {
        const std::string& left = vocabulary.token(merge.left);
        const std::string& right = vocabulary.token(merge.right);
        list += list.empty() ? "\n      " : ",\n      ";
        list += pairs ? fmt::format("[{}, {}]", json_quote(left), json_quote(right)) : json_quote(left + ' ' + right);
    }
    const std::optional<int32_t> unknown = bpe.special(TokenRole::unk);
    const std::string model =
        fmt::format("{{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n    "
                    "\"continuing_subword_prefix\": \"\",\n"
                    "    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": {},\n    \"byte_fallback\": false,\n    "
                    "\"ignore_merges\": {},\n"
                    "    \"vocab\": {},\n    \"merges\": [{}\n    ]\n  }}",
                    unknown ? json_quote(vocabulary.token(*unknown)) : "null", yes(options.fuse_unknown),
                    yes(options.ignore_merges), vocabulary_json(vocabulary), list);
    const std::string byte_level =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}";
    return document(vocabulary, pre_tokenizer,
                    options.post_processor.empty()
                        ? R"({"add_prefix_space":true,"trim_offsets":false,"type":"ByteLevel","use_regex":true})"
                        : options.post_processor,
                    byte_level, model);
}

std::string character_json(const CharacterTokenizer& characters) {
    const Vocabulary& vocabulary = characters.vocabulary();
    const std::optional<int32_t> unknown = characters.special(TokenRole::unk);
    return document(vocabulary,
                    fmt::format("{{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", "
                                "\"invert\": false}}",
                                json_quote(kAnyCharacter)),
                    "null", "{\"type\": \"Fuse\"}",
                    fmt::format("{{\n    \"type\": \"WordLevel\",\n    \"vocab\": {},\n    \"unk_token\": {}\n  }}",
                                vocabulary_json(vocabulary),
                                json_quote(unknown ? vocabulary.token(*unknown) : "<unk>")));
}

} // namespace hekla::text
