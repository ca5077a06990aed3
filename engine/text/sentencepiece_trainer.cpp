// Trains SentencePiece models with the library: unigram, and byte-pair merges over characters.
#include "text/sentencepiece.hpp"
#include "text/text_position.hpp"
#include "text/tokenizer_trainer.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

class SentencePieceTrainer final : public TokenizerTrainer {
public:
    explicit SentencePieceTrainer(SentencePieceTraining options) : options_(std::move(options)) {}

    Status add(std::string_view text, const TextOrigin& origin) override {
        HK_TRY(check_utf8(text, origin));
        while (!text.empty()) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            std::string_view line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (line.empty()) continue;
            if (lines_.size() % 4096 == 0) HK_TRY(check_stop());
            lines_.emplace_back(line);
        }
        return {};
    }

    Result<std::unique_ptr<Tokenizer>> finish() override {
        if (lines_.empty()) return invalid_argument("a tokenizer cannot be trained: the text is empty");
        HK_ASSIGN(const std::shared_ptr<const SentencePieceLibrary> library, SentencePieceLibrary::open());
        std::string symbols;
        for (const std::string& symbol : options_.control_symbols) symbols += (symbols.empty() ? "" : ",") + symbol;
        std::vector<std::pair<std::string, std::string>> flags = {
            {"model_type", options_.bpe ? "bpe" : "unigram"},
            {"vocab_size", std::to_string(options_.vocabulary_size)},
            {"character_coverage", fmt::format("{}", options_.character_coverage)},
            {"max_sentence_length", "1000000"},
            {"byte_fallback", options_.byte_fallback ? "true" : "false"},
            {"hard_vocab_limit", "false"}, // fewer pieces if the text has no more
            {"num_threads", "1"},          // with several threads the order of sums is not deterministic
            {"pad_id", "0"},
            {"eos_id", "1"},
            {"unk_id", "2"},
            {"bos_id", "3"},
            {"minloglevel", "2"}};
        if (!symbols.empty()) flags.emplace_back("control_symbols", symbols);
        std::size_t at = 0;
        HK_ASSIGN(const std::string content, library->train(flags, [&](std::string_view& line) -> Result<bool> {
            if (at == lines_.size()) return false;
            HK_TRY(stop().check("training the tokenizer"));
            line = lines_[at++];
            return true;
        }));
        if (stop().stopped()) return Status(Code::cancelled, "stopped when SentencePiece had optimized its pieces");
        lines_.clear();
        HK_ASSIGN(SpieceModel model, read_spiece_model(content, "the trained model"));
        HK_ASSIGN(Vocabulary vocabulary, spiece_vocabulary(model));
        for (const SpecialToken& token : options_.special) HK_TRY(vocabulary.add_special(token));
        return SentencePiece::create(std::move(vocabulary), std::move(model), {});
    }

private:
    SentencePieceTraining options_;
    std::vector<std::string> lines_;
};

} // namespace

std::unique_ptr<TokenizerTrainer> make_sentencepiece_trainer(SentencePieceTraining options) {
    return std::make_unique<SentencePieceTrainer>(std::move(options));
}

} // namespace hekla::text
