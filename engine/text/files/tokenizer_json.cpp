#include "text/files/tokenizer_json.hpp"

#include "base/utf8.hpp"
#include "text/byte_bpe.hpp"
#include "text/files/pipeline_files.hpp"
#include "text/files/sentencepiece_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/pipeline/pipeline_tokenizer.hpp"
#include "text/suffix_bpe.hpp"
#include "text/unicode/character.hpp"
#include "text/wordpiece.hpp"
#include "text/words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

using ModelType = WordModelOptions::Type;

// Reads the list of a unigram model, tokens and scores.
Status read_scored_vocabulary(const Json& model, const std::string& name, const Decoder& decoder,
                              WordModelOptions& options, Vocabulary& vocabulary, WordModelTables& tables) {
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_array() || vocab.empty())
        return corrupt(fmt::format("{}: \"model.vocab\" is not a list of tokens and scores", name));
    for (const Json& entry : vocab) {
        const auto id = static_cast<int32_t>(tables.scores.size());
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
            return corrupt(fmt::format("{}: entry {} of \"model.vocab\" is not [token, score]", name, id));
        const std::string& token = entry[0].get_ref<const std::string&>();
        const Status status = vocabulary.add(id, token, decoder.bytes_of(token));
        if (!status.ok()) return status.with_context(name);
        tables.scores.push_back(entry[1].get<double>());
    }
    const Json& unknown = member(model, "unk_id");
    if (unknown.is_null()) return {};
    HK_ASSIGN(options.unknown_id, json_token_id(unknown, "unk_id", name));
    if (static_cast<std::size_t>(options.unknown_id) >= tables.scores.size())
        return corrupt(
            fmt::format("{}: \"unk_id\" is {}, the vocabulary has {}", name, options.unknown_id, tables.scores.size()));
    return vocabulary.set_role(TokenRole::unk, options.unknown_id);
}

using RoleName = std::pair<const char*, TokenRole>;
constexpr RoleName kSpieceNames[] = {
    {"<s>", TokenRole::bos},         {"</s>", TokenRole::eos},    {"<pad>", TokenRole::pad}, {"[CLS]", TokenRole::cls},
    {"[SEP]", TokenRole::separator}, {"[MASK]", TokenRole::mask}, {"[PAD]", TokenRole::pad}, {"<cls>", TokenRole::cls},
    {"<sep>", TokenRole::separator}, {"<mask>", TokenRole::mask}};
constexpr RoleName kBertNames[] = {{"[UNK]", TokenRole::unk},
                                   {"[SEP]", TokenRole::separator},
                                   {"[PAD]", TokenRole::pad},
                                   {"[CLS]", TokenRole::cls},
                                   {"[MASK]", TokenRole::mask}};

// Sets roles by the names of special tokens. The file decides which tokens these are.
Status set_named_roles(std::span<const RoleName> names, Vocabulary& vocabulary) {
    for (const auto& [name, role] : names) {
        const std::optional<int32_t> id = vocabulary.find(name);
        if (id && vocabulary.is_special(*id) && vocabulary.role(TokenRole::unk) != id && !vocabulary.role(role))
            HK_TRY(vocabulary.set_role(role, *id));
    }
    return {};
}

// Sets roles and frame from the files of the folder and from names of tokens.
Status read_roles(const Pipeline& pipeline, const Json& json, const FilePlace& path, Vocabulary& vocabulary) {
    const FilePlace folder = path.parent_path();
    const WordModelOptions& model = pipeline.model();
    const bool is_bytes = pipeline.pre_tokenizer().has(PreTokenizerStep::Kind::byte_level);
    if (model.type == ModelType::unigram || (model.type == ModelType::bpe && model.suffix.empty() && !is_bytes)) {
        HK_TRY(set_named_roles(kSpieceNames, vocabulary));
        HK_TRY(read_special_files(folder, vocabulary));
        HK_TRY(set_family_roles(folder, vocabulary));
        HK_TRY(set_named_roles(kBertNames, vocabulary));
        return read_text_frame(folder, member(json, "post_processor"), vocabulary);
    }
    HK_TRY(read_special_files(folder, vocabulary));
    if (model.type == ModelType::wordpiece) HK_TRY(set_named_roles(kBertNames, vocabulary));
    bool has_role = model.type != ModelType::bpe || !model.suffix.empty();
    for (int32_t i = 0; i < kTokenRoles; ++i) has_role |= vocabulary.role(static_cast<TokenRole>(i)).has_value();
    // GPT-2's tokenizer.json defines no roles; these are the roles of its only special token.
    if (const auto id = vocabulary.find("<|endoftext|>"); id && !has_role) {
        HK_TRY(vocabulary.set_role(TokenRole::bos, *id));
        HK_TRY(vocabulary.set_role(TokenRole::eos, *id));
    }
    HK_TRY(read_text_frame(folder, member(json, "post_processor"), vocabulary));
    if (model.type == ModelType::bpe && model.suffix.empty()) return {};
    TextFrame frame = vocabulary.frame(); // of the inputs of encoders
    frame.documents = false;
    return vocabulary.set_frame(std::move(frame));
}

// Returns BERT's normalization if the normalizer is that, or none.
std::optional<BertNormalization> bert_normalization(const Normalizer& normalizer) {
    if (normalizer.is_none()) return BertNormalization{false, false, false, false, true};
    const NormalizerStep& step = normalizer.steps().front();
    if (normalizer.steps().size() > 1 || step.kind != NormalizerStep::Kind::bert) return std::nullopt;
    return BertNormalization{step.clean_text, step.chinese, step.accents, step.lower, true};
}

bool splits_characters(const PreTokenizer& splits) {
    if (splits.steps().size() != 1) return false;
    const PreTokenizerStep& step = splits.steps().front();
    return step.type == "Split" && !step.invert && step.splits[0].second == SplitBehavior::isolated &&
           step.splits[0].first.regex() != nullptr && step.splits[0].first.regex()->expression() == kAnyCharacter;
}

bool has_only_characters(const Vocabulary& vocabulary) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.has(id)) continue;
        const bool one = first_code_point(vocabulary.token(id)).size == vocabulary.token(id).size();
        // A character that is an added token and the model's is left to the general execution.
        if (vocabulary.is_added(id) ? one && vocabulary.is_in_model(id) : !one) return false;
    }
    return true;
}

} // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(std::shared_ptr<const Pipeline> pipeline, Vocabulary vocabulary,
                                                  const WordModelTables& tables) {
    const WordModelOptions& model = pipeline->model();
    const bool any_normalized =
        std::ranges::any_of(vocabulary.added(), [](const AddedToken& token) { return token.normalized; });
    // The others look for all added tokens in the text as it is.
    const bool as_given = pipeline->normalizer().is_none() || !any_normalized;
    const bool has_unknown = vocabulary.role(TokenRole::unk).has_value();
    const std::vector<PreTokenizerStep>& steps = pipeline->pre_tokenizer().steps();
    const std::string split = steps.size() == 1 ? steps[0].type : std::string();
    const std::optional<BertNormalization> bert = bert_normalization(pipeline->normalizer());
    Result<std::unique_ptr<Tokenizer>> made = std::unique_ptr<Tokenizer>();
    if (const std::optional<ByteBpeOptions> options = byte_bpe_options(*pipeline); options && as_given) {
        made = ByteBpe::create(std::move(vocabulary), tables.merges, *options);
    } else if (model.type == ModelType::wordpiece && bert && split == "BertPreTokenizer" && as_given && has_unknown) {
        WordPieceOptions options{*bert, model.prefix,
                                 static_cast<uint32_t>(std::min<std::size_t>(model.longest_word, UINT32_MAX))};
        made = WordPiece::create(std::move(vocabulary), std::move(options));
    } else if (model.type == ModelType::bpe && model.suffix == kWordEnd && model.prefix.empty() &&
               !model.byte_fallback && !model.fuse_unknown && !model.ignore_merges && bert &&
               split == "BertPreTokenizer" && as_given && has_unknown) {
        made = SuffixBpe::create(std::move(vocabulary), tables.merges, *bert);
    } else if (model.type == ModelType::word_level && bert &&
               (split == "BertPreTokenizer" || split == "WhitespaceSplit") && as_given && has_unknown) {
        BertNormalization normal = *bert;
        normal.punctuation = split == "BertPreTokenizer";
        made = WordTokenizer::create(std::move(vocabulary), normal);
    } else if (model.type == ModelType::word_level && pipeline->normalizer().is_none() &&
               splits_characters(pipeline->pre_tokenizer()) && has_only_characters(vocabulary)) {
        made = CharacterTokenizer::create(std::move(vocabulary));
    } else {
        return PipelineTokenizer::create(std::move(pipeline), std::move(vocabulary), tables);
    }
    if (made.ok()) made.value()->set_pipeline(std::move(pipeline));
    return made;
}

Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(const FilePlace& path) {
    const std::string name = path.string();
    HK_ASSIGN(const Json json, read_json_object(path));
    const Json& model = member(json, "model");
    if (!model.is_object()) return corrupt(fmt::format("{}: has no \"model\" object", name));
    HK_ASSIGN(std::shared_ptr<Pipeline> pipeline, Pipeline::read(json, name));
    HK_TRY(pipeline->read_class(path.parent_path()));
    const Decoder& decoder = *pipeline->decoder();
    WordModelOptions& options = pipeline->options();
    WordModelTables tables;
    BpeBuilder builder;
    builder.prefix = options.prefix;
    builder.bytes_of = [&](const std::string& token) { return decoder.bytes_of(token); };
    if (options.type == ModelType::unigram) {
        HK_TRY(read_scored_vocabulary(model, name, decoder, options, builder.vocabulary, tables));
    } else {
        HK_TRY(read_model_vocabulary(
            model, name, [&](const std::string& token, int32_t id) { return builder.add_token(token, id, name); }));
        if (options.type == ModelType::bpe) HK_TRY(read_model_merges(model, name, builder));
        tables.merges = std::move(builder.merges);
    }
    Vocabulary& vocabulary = builder.vocabulary;
    HK_TRY(read_added_tokens(json, name, vocabulary));
    const bool is_required = options.type == ModelType::bpe || options.type == ModelType::wordpiece;
    HK_TRY(read_unknown(model, name, is_required, vocabulary));
    HK_TRY(read_roles(*pipeline, json, path, vocabulary));
    // Added tokens are decoded like all others.
    const std::vector<AddedToken> added(vocabulary.added().begin(), vocabulary.added().end());
    for (const AddedToken& token : added)
        HK_TRY(vocabulary.set_bytes(token.id, decoder.bytes_of(pipeline->form_of(token.id, vocabulary))));
    Result<std::unique_ptr<Tokenizer>> tokenizer = make_tokenizer(std::move(pipeline), std::move(vocabulary), tables);
    if (!tokenizer.ok() && tokenizer.message().find(path.parent_path().string()) == std::string::npos)
        return tokenizer.status().with_context(name);
    return tokenizer;
}

std::string ByteBpe::to_json() const {
    const Vocabulary& vocabulary = this->vocabulary();
    if (pipeline() != nullptr)
        return pipeline()->to_json(vocabulary, fmt::format("\"vocab\": {},\n    {}", model_vocabulary_json(vocabulary),
                                                           merges_member(vocabulary, merges_.list())));
    // Without a file these are the options of training, or of GPT-2's two files.
    const std::optional<int32_t> unknown = special(TokenRole::unk);
    const std::string model = fmt::format(
        "{{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n    "
        "\"continuing_subword_prefix\": \"\",\n"
        "    \"end_of_word_suffix\": \"\",\n    \"fuse_unk\": {},\n    \"byte_fallback\": false,\n    "
        "\"ignore_merges\": {},\n"
        "    \"vocab\": {},\n    {}\n  }}",
        unknown ? json_quote(vocabulary.token(*unknown)) : "null", yes(options_.fuse_unknown),
        yes(options_.ignore_merges), vocabulary_json(vocabulary), merges_member(vocabulary, merges_.list()));
    const std::string byte_level =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}";
    return tokenizer_document(
        vocabulary, "null",
        fmt::format(
            "{{\"type\": \"ByteLevel\", \"add_prefix_space\": {}, \"trim_offsets\": true, \"use_regex\": true}}",
            yes(options_.add_prefix_space)),
        vocabulary.frame() == TextFrame()
            ? R"({"add_prefix_space":true,"trim_offsets":false,"type":"ByteLevel","use_regex":true})"
            : text_frame_json(vocabulary),
        byte_level, model);
}

} // namespace hekla::text
