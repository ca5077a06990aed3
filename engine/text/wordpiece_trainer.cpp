// Learns a WordPiece vocabulary like the tokenizers library: merges pairs of pieces by frequency, with "##" before
// pieces that do not begin a word.
#include "base/utf8.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/merge_learning.hpp"
#include "text/tokenizer_trainer.hpp"
#include "text/word_counts.hpp"
#include "text/wordpiece.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <unordered_map>

namespace hekla::text {
namespace {

class WordPieceTrainer final : public TokenizerTrainer {
public:
    explicit WordPieceTrainer(WordPieceTraining options)
        : options_(std::move(options)),
          words_({true, true, options_.strip_accents, options_.lower_case, true}, options_.special) {}

    Status add(std::string_view text, const TextOrigin& origin) override { return words_.add(text, origin); }

    Result<std::unique_ptr<Tokenizer>> finish() override {
        const auto& counts = words_.counts();
        if (counts.empty()) return invalid_argument("a tokenizer cannot be trained: the text is empty");
        std::unordered_map<char32_t, uint64_t> seen;
        for (const auto& [bytes, count] : counts)
            for (std::string_view rest = bytes; !rest.empty();) {
                const CodePoint character = first_code_point(rest);
                seen[character.value] += count;
                rest.remove_prefix(character.size);
            }
        std::vector<std::pair<uint64_t, char32_t>> common;
        for (const auto& [character, count] : seen) common.emplace_back(count, character);
        std::ranges::sort(common, [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : a.second < b.second;
        });
        common.resize(std::min<std::size_t>(common.size(), options_.limit_alphabet));
        std::map<char32_t, std::pair<bool, bool>> alphabet; // occurs at the start of a word, later in one
        for (const auto& [count, character] : common) alphabet[character] = {true, false};
        std::map<std::string, uint64_t> kept; // words without rare characters, in a fixed order
        for (const auto& [bytes, count] : counts) {
            bool known = true;
            std::size_t at = 0;
            for (std::string_view rest = bytes; known && !rest.empty(); rest = std::string_view(bytes).substr(at)) {
                const CodePoint character = first_code_point(rest);
                known = alphabet.contains(character.value);
                if (known && at > 0) alphabet[character.value].second = true;
                at += character.size;
            }
            if (known) kept.emplace(bytes, count);
        }
        std::vector<std::string> letters;
        std::map<std::pair<char32_t, bool>, int32_t> ids;
        for (const bool later : {false, true})
            for (const auto& [character, places] : alphabet) {
                if (later && !places.second) continue;
                std::string letter = later ? "##" : "";
                append_code_point(letter, character);
                ids[{character, later}] = static_cast<int32_t>(letters.size());
                letters.push_back(std::move(letter));
            }
        const auto least = static_cast<int64_t>(letters.size() + options_.special.size());
        if (options_.vocabulary_size < least)
            return invalid_argument(fmt::format("vocab_size is {}; the characters of the text and {} special tokens "
                                                "need at least {}",
                                                options_.vocabulary_size, options_.special.size(), least));
        std::vector<CountedWord> words;
        for (const auto& [bytes, count] : kept) {
            CountedWord word;
            word.count = count;
            for (std::string_view rest = bytes; !rest.empty();) {
                const CodePoint character = first_code_point(rest);
                word.symbols.push_back(ids[{character.value, !word.symbols.empty()}]);
                rest.remove_prefix(character.size);
            }
            words.push_back(std::move(word));
        }
        words_.clear();
        const auto target = static_cast<std::size_t>(options_.vocabulary_size) - options_.special.size();
        HK_ASSIGN(const LearnedMerges learned,
                  learn_merges(std::move(letters), std::move(words), target, options_.min_frequency, "##", stop()));
        Vocabulary vocabulary;
        for (const SpecialToken& token : options_.special) HK_TRY(vocabulary.add_special(token));
        for (const std::string& piece : learned.symbols) HK_TRY(vocabulary.add(vocabulary.size(), piece, piece));
        HK_TRY(set_bert_frame(vocabulary));
        WordPieceOptions options;
        options.normalization = words_.normalization();
        return WordPiece::create(std::move(vocabulary), std::move(options));
    }

private:
    WordPieceTraining options_;
    WordCounts words_;
};

} // namespace

std::unique_ptr<TokenizerTrainer> make_wordpiece_trainer(WordPieceTraining options) {
    return std::make_unique<WordPieceTrainer>(std::move(options));
}

} // namespace hekla::text
