#include "text/byte_bpe.hpp"
#include "text/merge_learning.hpp"
#include "text/text_position.hpp"
#include "text/tokenizer_trainer.hpp"

#include <fmt/format.h>
#include <unordered_map>

namespace hekla::text {
namespace {

struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

class ByteBpeTrainer final : public TokenizerTrainer {
public:
    explicit ByteBpeTrainer(ByteBpeTraining options) : options_(std::move(options)), special_(options_.special) {}

    Status add(std::string_view text, const TextOrigin& origin) override {
        HK_TRY(check_utf8(text, origin));
        return special_.walk(
            text, true, [&](std::size_t begin, std::size_t end) { return count(text.substr(begin, end - begin)); },
            [](const TokenMatcher::Match&) {});
    }

    Result<std::unique_ptr<Tokenizer>> finish() override {
        const auto special = static_cast<int64_t>(options_.special.size());
        if (options_.vocabulary_size < 256 + special)
            return invalid_argument(
                fmt::format("vocab_size is {}; a byte-level vocabulary with {} special tokens needs at "
                            "least {}",
                            options_.vocabulary_size, special, 256 + special));
        if (counts_.empty()) return invalid_argument("a tokenizer cannot be trained: the text is empty");

        const std::array<uint8_t, 256> order = alphabet_.bytes_in_order();
        std::vector<std::string> letters;
        std::array<int32_t, 256> id_of{};
        for (const uint8_t byte : order) {
            id_of[byte] = static_cast<int32_t>(letters.size());
            letters.push_back(alphabet_.letter(byte));
        }
        std::vector<CountedWord> words;
        words.reserve(counts_.size());
        for (const auto& [bytes, count] : counts_) {
            CountedWord word;
            word.count = count;
            for (const char byte : bytes) word.symbols.push_back(id_of[static_cast<unsigned char>(byte)]);
            words.push_back(std::move(word));
        }
        counts_.clear();
        const auto target = static_cast<std::size_t>(options_.vocabulary_size - special);
        HK_ASSIGN(const LearnedMerges learned,
                  learn_merges(std::move(letters), std::move(words), target, options_.min_frequency, "", stop()));

        Vocabulary vocabulary;
        for (std::size_t id = 0; id < learned.symbols.size(); ++id)
            HK_TRY(vocabulary.add(static_cast<int32_t>(id), learned.symbols[id],
                                  alphabet_.bytes(learned.symbols[id]).value_or("")));
        for (const SpecialToken& token : options_.special) HK_TRY(vocabulary.add_special(token));
        Merges merges;
        for (const Merge& merge : learned.merges) merges.add(merge);
        ByteBpeOptions options;
        options.add_prefix_space = options_.add_prefix_space;
        return ByteBpe::create(std::move(vocabulary), merges, std::move(options));
    }

private:
    Status count(std::string_view segment) {
        std::string spaced;
        if (options_.add_prefix_space && !segment.empty() && segment.front() != ' ') {
            spaced = ' ' + std::string(segment);
            segment = spaced;
        }
        return splitter_.split(segment, [&](std::size_t begin, std::size_t end) {
            if (words_seen_++ % 65536 == 0) HK_TRY(check_stop());
            const std::string_view word = segment.substr(begin, end - begin);
            const auto at = counts_.find(word);
            if (at != counts_.end()) {
                ++at->second;
            } else {
                counts_.emplace(std::string(word), 1);
            }
            return Status();
        });
    }

    ByteBpeTraining options_;
    Splitter splitter_ = Splitter::gpt2();
    ByteAlphabet alphabet_;
    AddedTokens special_;
    uint64_t words_seen_ = 0;
    std::unordered_map<std::string, uint64_t, TextHash, std::equal_to<>> counts_;
};

} // namespace

std::unique_ptr<TokenizerTrainer> make_byte_bpe_trainer(ByteBpeTraining options) {
    return std::make_unique<ByteBpeTrainer>(std::move(options));
}

} // namespace hekla::text
