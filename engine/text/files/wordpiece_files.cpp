#include "text/files/wordpiece_files.hpp"

#include "base/file.hpp"
#include "text/files/pipeline_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/frame_shapes.hpp"
#include "text/pipeline/pipeline_tokenizer.hpp"
#include "text/text_position.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

// Returns the default of do_lower_case, for folders whose files do not set it.
bool has_no_capitals(const Vocabulary& vocabulary) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.has(id) || vocabulary.is_added(id)) continue;
        const std::string_view token = vocabulary.token(id);
        if (token.starts_with('[') && token.ends_with(']')) continue; // [CLS]
        if (std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; })) return false;
    }
    return true;
}

Status read_config(const FilePlace& folder, const Vocabulary& vocabulary, BertNormalization& normal) {
    const FilePlace path = folder / "tokenizer_config.json";
    Json config = Json::object();
    if (path.exists()) { HK_ASSIGN(config, read_json_object(path)); }
    const std::string name = path.string();
    HK_ASSIGN(normal.lower_case, json_bool(config, "do_lower_case", has_no_capitals(vocabulary), name));
    HK_ASSIGN(normal.strip_accents, json_bool(config, "strip_accents", normal.lower_case, name));
    HK_ASSIGN(normal.chinese, json_bool(config, "tokenize_chinese_chars", true, name));
    return {};
}

} // namespace

Status set_bert_roles(Vocabulary& vocabulary) {
    constexpr std::pair<const char*, TokenRole> kNames[] = {{"[UNK]", TokenRole::unk},
                                                            {"[SEP]", TokenRole::separator},
                                                            {"[PAD]", TokenRole::pad},
                                                            {"[CLS]", TokenRole::cls},
                                                            {"[MASK]", TokenRole::mask}};
    for (const auto& [token, role] : kNames)
        if (!vocabulary.role(role) && vocabulary.find(token)) HK_TRY(vocabulary.add_special({token, {role}}));
    return {};
}

Status set_bert_frame(Vocabulary& vocabulary) {
    return vocabulary.set_frame(frame_of_tokenizer_class("Bert", vocabulary).value_or(TextFrame()));
}

Result<std::unique_ptr<Tokenizer>> read_wordpiece_vocabulary(const FilePlace& path) {
    HK_ASSIGN(const std::string content, path.read());
    TextOrigin origin;
    origin.name = path.string();
    HK_TRY(check_utf8(content, origin));
    Vocabulary vocabulary;
    std::string_view rest = content;
    for (uint64_t number = 1; !rest.empty(); ++number) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::string token(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (token.ends_with('\r')) token.pop_back();
        const Status status = vocabulary.add(vocabulary.size(), token, token);
        if (!status.ok())
            return status.with_context(fmt::format("{}: line {} (a token a line was expected)", path.string(), number));
    }
    const FilePlace folder = path.parent_path();
    HK_TRY(read_special_files(folder, vocabulary));
    HK_TRY(set_bert_roles(vocabulary));
    HK_TRY(read_text_frame(folder, Json(), vocabulary));
    if (vocabulary.frame() == TextFrame()) HK_TRY(set_bert_frame(vocabulary)); // a vocab.txt alone is BERT's
    WordPieceOptions options;
    HK_TRY(read_config(folder, vocabulary, options.normalization));
    const bool is_normalized =
        std::ranges::any_of(vocabulary.added(), [](const AddedToken& token) { return token.normalized; });
    if (is_normalized) { // as a tokenizer.json specifies
        HK_ASSIGN(const std::unique_ptr<Tokenizer> plain, WordPiece::create(vocabulary, options));
        HK_ASSIGN(const Json json, parse_json_object(plain->to_json(), path.string()));
        HK_ASSIGN(const std::shared_ptr<Pipeline> pipeline, Pipeline::read(json, path.string()));
        return PipelineTokenizer::create(pipeline, std::move(vocabulary), {});
    }
    Result<std::unique_ptr<Tokenizer>> tokenizer = WordPiece::create(std::move(vocabulary), std::move(options));
    return tokenizer.ok() ? std::move(tokenizer) : tokenizer.status().with_context(path.string());
}

std::string bert_normalizer_json(const BertNormalization& normal) {
    if (!normal.clean_text && !normal.chinese && !normal.strip_accents && !normal.lower_case) return "null";
    return fmt::format("{{\"type\": \"BertNormalizer\", \"clean_text\": {}, \"handle_chinese_chars\": {}, "
                       "\"strip_accents\": {}, \"lowercase\": {}}}",
                       yes(normal.clean_text), yes(normal.chinese), yes(normal.strip_accents), yes(normal.lower_case));
}

std::string WordPiece::to_json() const {
    const Vocabulary& tokens = vocabulary();
    if (pipeline() != nullptr) return pipeline()->to_json(tokens, "\"vocab\": " + model_vocabulary_json(tokens));
    return tokenizer_document(
        tokens, bert_normalizer_json(options_.normalization), "{\"type\": \"BertPreTokenizer\"}",
        text_frame_json(tokens),
        fmt::format("{{\"type\": \"WordPiece\", \"prefix\": {}, \"cleanup\": true}}", json_quote(options_.prefix)),
        fmt::format("{{\n    \"type\": \"WordPiece\",\n    \"unk_token\": {},\n    \"continuing_subword_prefix\": {},\n"
                    "    \"max_input_chars_per_word\": {},\n    \"vocab\": {}\n  }}",
                    json_quote(tokens.token(unknown())), json_quote(options_.prefix), options_.longest_word,
                    vocabulary_json(tokens)));
}

namespace {

bool has_bert_frame(const Vocabulary& tokens) {
    const std::optional<TextFrame> bert = frame_of_tokenizer_class("Bert", tokens);
    return bert && tokens.frame() == *bert;
}

} // namespace

Status WordPiece::save(const std::filesystem::path& folder) const {
    const Vocabulary& tokens = vocabulary();
    std::string lines;
    bool gaps = false;
    for (int32_t id = 0; id < tokens.size(); ++id) {
        gaps = gaps || !tokens.has(id);
        if (tokens.has(id)) lines += fmt::format("{}\n", tokens.token(id));
    }
    const BertNormalization& normal = options_.normalization;
    // The line number is the id, so a vocabulary with gaps is only stored in tokenizer.json.
    if (!gaps) HK_TRY(write_file_atomically(folder / "vocab.txt", lines));
    const std::string config =
        fmt::format("  \"do_lower_case\": {},\n  \"strip_accents\": {},\n  \"tokenize_chinese_chars\": {},\n"
                    "  \"tokenizer_class\": \"{}\"",
                    yes(normal.lower_case), yes(normal.strip_accents), yes(normal.chinese),
                    // BERT's class adds [CLS] and [SEP], whatever tokenizer.json has.
                    has_bert_frame(tokens) ? "BertTokenizer" : "PreTrainedTokenizerFast");
    HK_TRY(write_special_files(folder, tokens, pipeline() != nullptr ? tokenizer_class_json(*pipeline()) : config));
    return write_file_atomically(folder / "tokenizer.json", to_json());
}

} // namespace hekla::text
