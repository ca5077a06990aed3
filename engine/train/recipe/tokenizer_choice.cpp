#include "train/recipe/tokenizer_choice.hpp"

#include "text/frame_shapes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace hekla::train {
namespace {

using text::SpecialToken;
using enum text::TokenRole;

constexpr int kSentinels = 100; // as in T5

bool needs(std::span<const std::string_view> roles, const char* role) {
    return std::ranges::find(roles, role) != roles.end();
}

void add_sentinels(std::span<const std::string_view> roles, std::vector<SpecialToken>& tokens) {
    if (!needs(roles, "sentinel")) return;
    for (int i = 0; i < kSentinels; ++i) tokens.push_back({fmt::format("<extra_id_{}>", i), {}});
}

// Uses RoBERTa's names.
std::vector<SpecialToken> of_bytes(std::span<const std::string_view> roles) {
    std::vector<SpecialToken> tokens;
    if (roles.empty()) return tokens;
    tokens = {{"<s>", {bos, cls}}, {"<pad>", {pad}}, {"</s>", {eos, separator}}, {"<unk>", {unk}}};
    if (needs(roles, "mask")) tokens.push_back({"<mask>", {mask}});
    add_sentinels(roles, tokens);
    return tokens;
}

// Uses XLNet's names in addition to SentencePiece's own.
std::vector<SpecialToken> beside_pieces(std::span<const std::string_view> roles) {
    std::vector<SpecialToken> tokens;
    if (needs(roles, "classifier")) tokens.push_back({"<cls>", {cls}});
    if (needs(roles, "separator")) tokens.push_back({"<sep>", {separator}});
    if (needs(roles, "mask")) tokens.push_back({"<mask>", {mask}});
    add_sentinels(roles, tokens);
    return tokens;
}

} // namespace

std::unique_ptr<text::TokenizerTrainer> tokenizer_trainer(const TokenizerSection& section,
                                                          std::span<const std::string_view> roles) {
    const auto size = static_cast<int32_t>(section.vocab_size);
    if (section.kind == "wordpiece") {
        text::WordPieceTraining options;
        options.vocabulary_size = size;
        options.lower_case = options.strip_accents = section.lower_case;
        add_sentinels(roles, options.special);
        return text::make_wordpiece_trainer(options);
    }
    if (section.kind == "unigram") {
        text::SentencePieceTraining options;
        options.vocabulary_size = size;
        options.special = beside_pieces(roles);
        return text::make_sentencepiece_trainer(options);
    }
    if (section.kind == "words") {
        text::WordTraining options;
        options.vocabulary_size = size;
        options.normalization.lower_case = section.lower_case;
        for (SpecialToken& token : beside_pieces(roles)) options.special.push_back(std::move(token));
        return text::make_word_trainer(options);
    }
    const std::vector<SpecialToken> special = of_bytes(roles);
    if (section.kind == "char") return text::make_character_trainer(special);
    text::ByteBpeTraining options;
    options.vocabulary_size = size;
    if (!special.empty()) options.special = special;
    return text::make_byte_bpe_trainer(options);
}

Result<std::unique_ptr<text::Tokenizer>> with_frame_of(const std::string& architecture,
                                                       std::unique_ptr<text::Tokenizer> tokenizer) {
    text::Vocabulary vocabulary = tokenizer->vocabulary();
    text::TextFrame frame = text::frame_of_architecture(architecture, vocabulary);
    if (frame == tokenizer->frame()) return tokenizer;
    HK_TRY(vocabulary.set_frame(std::move(frame)));
    return tokenizer->with(std::move(vocabulary));
}

std::string tokenizer_folder(const Recipe& recipe) {
    if (recipe.tokenizer.kind != "from") return {};
    for (const std::string* folder : {&recipe.tokenizer.from, &recipe.model.from})
        if (!folder->empty()) return *folder;
    return recipe.teacher.from;
}

Result<std::unique_ptr<text::Tokenizer>> with_added_tokens(std::unique_ptr<text::Tokenizer> tokenizer,
                                                           const TokenizerSection& section) {
    if (section.add.empty() && section.add_roles.empty()) return tokenizer;
    static const auto& kRoles = *new std::map<std::string, text::TokenRole, std::less<>>{
        {"bos", bos},       {"eos", eos}, {"pad", pad}, {"unk", unk}, {"mask", mask}, {"separator", separator},
        {"classifier", cls}};
    std::vector<SpecialToken> tokens;
    for (const std::string& token : section.add) tokens.push_back({token, {}});
    for (const auto& [role, token] : section.add_roles) {
        const auto found = kRoles.find(role);
        if (found == kRoles.end()) {
            std::vector<std::string> names;
            for (const auto& [name, value] : kRoles) names.push_back(name);
            return invalid_argument(
                fmt::format("tokenizer.add_roles: there is no role '{}': there are {}", role, fmt::join(names, ", ")));
        }
        tokens.push_back({token, {found->second}});
    }
    return text::add_special_tokens(*tokenizer, tokens);
}

} // namespace hekla::train
