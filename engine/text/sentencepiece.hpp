// SentencePiece (Kudo and Richardson 2018): unigram language models (Kudo 2018) and byte-pair merges over characters,
// with a space as part of the following piece. The library splits the text, word by word if the result is the same.
#pragma once

#include "text/added_tokens.hpp"
#include "text/files/spiece_shape.hpp"
#include "text/sentencepiece_library.hpp"
#include "text/text_preparation.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/charsmap.hpp"

#include <optional>

namespace hekla::text {

// Marian's vocabulary: ids are those of vocab.json, which two models share, one for each language.
struct SharedVocabulary {
    std::vector<int32_t> ids; // the vocabulary's id of each piece
    std::string other_model;  // the other language's file, kept for saving
    bool is_target = false;   // whether this model is target.spm
};

struct SentencePieceOptions {
    TextPreparation preparation;
    std::optional<SharedVocabulary> shared = {}; // Marian's
    std::string tokenizer_class = {}; // Hugging Face's name, for tokenizer_config.json; empty: derived from the model
};

class SentencePiece final : public Tokenizer {
public:
    // `vocabulary` has the model's pieces with their ids, and possibly added tokens after them (spiece_vocabulary()).
    // Error: the library is not installed.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, SpieceModel model,
                                                     SentencePieceOptions options);

    std::string_view kind() const override { return "sentencepiece"; }
    std::string own_text_of(int32_t id, bool first) const override;
    bool begins_word(int32_t id) const override;
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // spiece.model and tokenizer.json
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary), model_, options_);
    }
    bool own_drops_leading_spaces() const override { return model_.remove_extra_whitespaces; }
    const SpieceModel& model() const { return model_; }
    const SentencePieceOptions& options() const { return options_; }

protected:
    Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                        std::vector<ByteRange>* ranges) const override;
    bool can_cut(std::string_view text, std::size_t at) const override;

private:
    class Run;
    SentencePiece(Vocabulary vocabulary, SpieceModel model, SentencePieceOptions options, SentencePieceModel cutter);
    bool is_word_end(std::string_view text, std::size_t at) const;

    SpieceModel model_;
    SentencePieceOptions options_;
    SentencePieceModel cutter_;
    AddedTokens added_;
    bool by_words_ = false; // whether words can be split one by one
};

std::string spaces_of(std::string_view piece); // with spaces for U+2581

// Returns the vocabulary of a model: its pieces; control and unknown pieces are special tokens, with their roles.
Result<Vocabulary> spiece_vocabulary(const SpieceModel& model);

} // namespace hekla::text
