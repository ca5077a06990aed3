#include "text/files/tokenizer_json.hpp"

#include "text/files/gpt2_files.hpp"
#include "text/files/json_file.hpp"
#include "text/files/sentencepiece_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/suffix_bpe.hpp"
#include "text/unicode/character.hpp"
#include "text/words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

Status read_vocabulary(const Json& model, const std::string& name, BpeBuilder& builder) {
    return read_model_vocabulary(
        model, name, [&](const std::string& token, int32_t id) { return builder.add_token(token, id, name); });
}

Status read_byte_level(const Json& section, const std::string& name, ByteBpeOptions& options) {
    HK_ASSIGN(options.add_prefix_space, json_bool(section, "add_prefix_space", true, name));
    HK_ASSIGN(const bool use_regex, json_bool(section, "use_regex", true, name));
    if (!use_regex) options.splitter.reset();
    return {};
}

// Reads ByteLevel, or a Sequence of ByteLevel, of Split and ByteLevel, or of Digits and ByteLevel.
Status read_pre_tokenizer(const Json& json, const std::string& name, ByteBpeOptions& options) {
    const char* done = "ByteLevel, Split by an expression and then ByteLevel without one, or Digits and then ByteLevel";
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
    if (member(split, "type") == "Digits") {
        if (options.add_prefix_space) return not_done(name, "pre_tokenizer", section.dump(), done);
        HK_ASSIGN(const bool single, json_bool(split, "individual_digits", false, name));
        options.digits = single ? DigitWords::single : DigitWords::runs;
        return {};
    }
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

Result<std::unique_ptr<Tokenizer>> read_byte_bpe(const Json& json, const FilePlace& path) {
    const std::string name = path.string();
    const Json& model = member(json, "model");
    ByteBpeOptions options;
    if (const Json& normalizer = member(json, "normalizer"); !normalizer.is_null()) {
        options.nfc = normalizer.is_object() && member(normalizer, "type") == "NFC";
        if (!options.nfc) return not_done(name, "normalizer", normalizer.dump(), "none, or NFC, for byte-level BPE");
    }
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
    HK_TRY(read_model_merges(model, name, builder));
    HK_TRY(read_added_tokens(json, name, builder.vocabulary));
    HK_TRY(read_unknown(model, name, true, builder.vocabulary));
    HK_TRY(read_special_files(path.parent_path(), builder.vocabulary));
    bool has_role = false;
    for (int32_t i = 0; i < kTokenRoles; ++i)
        has_role |= builder.vocabulary.role(static_cast<TokenRole>(i)).has_value();
    // GPT-2's tokenizer.json defines no roles; these are the roles of its only special token.
    if (const auto id = builder.vocabulary.find("<|endoftext|>"); id && !has_role) {
        HK_TRY(builder.vocabulary.set_role(TokenRole::bos, *id));
        HK_TRY(builder.vocabulary.set_role(TokenRole::eos, *id));
    }
    HK_TRY(read_text_frame(path.parent_path(), member(json, "post_processor"), builder.vocabulary));
    return ByteBpe::create(std::move(builder.vocabulary), builder.merges, std::move(options));
}

Result<std::unique_ptr<Tokenizer>> read_kind(const std::string& type, const Json& json, const FilePlace& path) {
    const std::string name = path.string();
    if (type == "WordPiece") return read_wordpiece_json(json, path);
    if (type == "Unigram") return read_unigram_json(json, path);
    if (type == "BPE" && is_suffix_bpe_json(json)) return read_suffix_bpe_json(json, path);
    if (type == "BPE" && is_sentencepiece_bpe(json)) return read_sentencepiece_bpe_json(json, path);
    if (type == "BPE") { return read_byte_bpe(json, path); }
    if (type == "WordLevel" && is_words_json(json)) return read_words_json(json, path);
    if (type == "WordLevel") return read_character_json(json, path);
    return not_done(name, "model's type", json_quote(type), "BPE, WordPiece, Unigram and WordLevel");
}

} // namespace

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(const FilePlace& path) {
    const std::string name = path.string();
    HK_ASSIGN(const Json json, read_json_object(path));
    const Json& model = member(json, "model");
    if (!model.is_object()) return corrupt(fmt::format("{}: has no \"model\" object", name));
    // Older files omit the type; merges imply BPE.
    std::string type = member(model, "merges").is_array() ? "BPE" : "";
    if (!member(model, "type").is_null()) { HK_ASSIGN(type, type_of(model, "model", name)); }
    Result<std::unique_ptr<Tokenizer>> tokenizer = read_kind(type, json, path);
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
    if (options.digits != DigitWords::none)
        pre_tokenizer = fmt::format("{{\"type\": \"Sequence\", \"pretokenizers\": [\n    {{\"type\": \"Digits\", "
                                    "\"individual_digits\": {}}},\n    {}\n  ]}}",
                                    yes(options.digits == DigitWords::single), pre_tokenizer);
    const auto has_space = [&](const Merge& merge) {
        return vocabulary.token(merge.result).find(' ') != std::string_view::npos;
    };
    // "a b" is supported by every version of the library, ["a", "b"] only by newer ones; the latter is needed for
    // tokens that contain spaces.
    const std::span<const Merge> merges = bpe.merges().list();
    const bool pairs = std::any_of(merges.begin(), merges.end(), has_space);
    std::string list;
    for (const Merge& merge : merges) {
        const std::string_view left = vocabulary.token(merge.left);
        const std::string_view right = vocabulary.token(merge.right);
        list += list.empty() ? "\n      " : ",\n      ";
        list += pairs ? fmt::format("[{}, {}]", json_quote(left), json_quote(right))
                      : json_quote(fmt::format("{} {}", left, right));
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
    return tokenizer_document(
        vocabulary, options.nfc ? "{\"type\": \"NFC\"}" : "null", pre_tokenizer,
        !options.post_processor.empty() ? options.post_processor
        : vocabulary.frame() == TextFrame()
            ? R"({"add_prefix_space":true,"trim_offsets":false,"type":"ByteLevel","use_regex":true})"
            : text_frame_json(vocabulary),
        byte_level, model);
}

} // namespace hekla::text
