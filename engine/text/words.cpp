#include "text/words.hpp"

#include "base/file.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/pipeline/pipeline.hpp"
#include "text/tokenizer_trainer.hpp"
#include "text/word_counts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace hekla::text {
namespace {

class WordTrainer final : public TokenizerTrainer {
public:
    explicit WordTrainer(WordTraining options)
        : options_(std::move(options)), counted_(options_.normalization, options_.special) {}

    Status add(std::string_view text, const TextOrigin& origin) override { return counted_.add(text, origin); }

    Result<std::unique_ptr<Tokenizer>> finish() override {
        const auto& counts = counted_.counts();
        if (counts.empty()) return invalid_argument("a tokenizer cannot be trained: the text is empty");
        const auto special = static_cast<int64_t>(options_.special.size());
        if (options_.vocabulary_size <= special)
            return invalid_argument(fmt::format("vocab_size is {}; more than the {} special tokens were expected",
                                                options_.vocabulary_size, special));
        std::vector<std::pair<std::string, uint64_t>> words(counts.begin(), counts.end());
        std::erase_if(words, [&](const auto& word) { return word.second < options_.min_frequency; });
        std::ranges::sort(words, [](const auto& a, const auto& b) {
            return a.second != b.second ? a.second > b.second : a.first < b.first;
        });
        Vocabulary vocabulary;
        for (const SpecialToken& token : options_.special) HK_TRY(vocabulary.add_special(token));
        for (const auto& [word, count] : words) {
            if (vocabulary.size() == options_.vocabulary_size) break;
            if (!vocabulary.find(word)) HK_TRY(vocabulary.add(vocabulary.size(), word, word));
        }
        return WordTokenizer::create(std::move(vocabulary), counted_.normalization());
    }

private:
    WordTraining options_;
    WordCounts counted_;
};

} // namespace

std::unique_ptr<TokenizerTrainer> make_word_trainer(WordTraining options) {
    return std::make_unique<WordTrainer>(std::move(options));
}

WordTokenizer::WordTokenizer(Vocabulary vocabulary, const BertNormalization& normalization)
    : BertWordTokenizer(std::move(vocabulary), normalization) {
    std::string identity =
        fmt::format("words/1 {} {} {} {} {}\n", normalization.clean_text, normalization.chinese,
                    normalization.strip_accents, normalization.lower_case, normalization.punctuation);
    this->vocabulary().append_identity(identity);
    set_hash(identity);
}

Result<std::unique_ptr<Tokenizer>> WordTokenizer::create(Vocabulary vocabulary,
                                                         const BertNormalization& normalization) {
    if (!vocabulary.role(TokenRole::unk))
        return corrupt("the vocabulary has no unknown token, which a word tokenizer needs");
    return std::unique_ptr<Tokenizer>(new WordTokenizer(std::move(vocabulary), normalization));
}

void WordTokenizer::cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
                        Merges::Scratch&) const {
    const std::optional<int32_t> id = vocabulary().find_in_model(word.bytes.text());
    symbols.push_back(
        {id && (special || !vocabulary().is_special(*id)) ? *id : unknown(), static_cast<uint32_t>(word.bytes.size())});
}

std::string WordTokenizer::to_json() const {
    if (pipeline() != nullptr)
        return pipeline()->to_json(vocabulary(), "\"vocab\": " + model_vocabulary_json(vocabulary()));
    const BertNormalization& normal = normalization();
    return tokenizer_document(
        vocabulary(), bert_normalizer_json(normal),
        normal.punctuation ? "{\"type\": \"BertPreTokenizer\"}" : "{\"type\": \"WhitespaceSplit\"}",
        text_frame_json(vocabulary()), "null",
        fmt::format("{{\n    \"type\": \"WordLevel\",\n    \"vocab\": {},\n    \"unk_token\": {}\n  }}",
                    vocabulary_json(vocabulary()), json_quote(vocabulary().token(unknown()))));
}

Status WordTokenizer::save(const std::filesystem::path& folder) const {
    HK_TRY(write_file_atomically(folder / "tokenizer.json", to_json()));
    return write_special_files(folder, vocabulary(), "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"");
}

} // namespace hekla::text
