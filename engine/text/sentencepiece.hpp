// SentencePiece (Kudo and Richardson 2018): unigram language models (Kudo 2018) and byte-pair merges over characters,
// with a space as part of the piece after it. The library splits; it gets texts word by word where the result is the
// same.
#pragma once

#include "text/added_tokens.hpp"
#include "text/files/spiece_model.hpp"
#include "text/sentencepiece_library.hpp"
#include "text/text_preparation.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/charsmap.hpp"

#include <optional>

namespace hekla::text {

// Where a word begins and what happens to its spaces.
enum class SpaceRule : int32_t {
    model,  // as the model's own flags have it (usually: none at the ends, one between words, one before the first)
    always, // every space stays; one is put before each text and after each added token
    first,  // every space stays; one before the text's beginning alone
    never,  // every space stays, none is added
};

// Marian's: ids are those of vocab.json, which two models share, one for each language.
struct SharedVocabulary {
    std::vector<int32_t> ids; // the vocabulary's id of each piece
    std::string other_model;  // the other language's file, kept to be written again
    bool is_target = false;   // whether this model is target.spm
};

struct SentencePieceOptions {
    TextPreparation preparation;
    SpaceRule spaces = SpaceRule::model;
    std::optional<SharedVocabulary> shared = {}; // Marian's
    std::string squeezed = {};        // what several spaces become where every space stays; empty: they stay too
    std::string tokenizer_class = {}; // Hugging Face's name, for tokenizer_config.json; empty: by what the model is
    std::string post_processor = {};  // tokenizer.json's member as it was read; encode() ignores it
};

class SentencePiece final : public Tokenizer {
public:
    // `vocabulary` has the model's pieces under their ids, and possibly added tokens after them (spiece_vocabulary()).
    // Error: the library is not installed.
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, SpieceModel model,
                                                     SentencePieceOptions options);

    std::string_view kind() const override { return "sentencepiece"; }
    std::string text_of(int32_t id, bool first) const override;
    bool begins_word(int32_t id) const override;
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // spiece.model and tokenizer.json
    Result<std::unique_ptr<Tokenizer>> with(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary), model_, options_);
    }
    bool drops_leading_spaces() const override {
        return options_.spaces == SpaceRule::model && model_.remove_extra_whitespaces;
    }
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
    Charsmap charsmap_;     // where every space stays, the normalization is done here
    bool by_words_ = false; // words can be cut one by one
};

std::string spaces_of(std::string_view piece); // with spaces for U+2581

// Returns the vocabulary of a model: its pieces; control and unknown pieces are special tokens, with their roles.
Result<Vocabulary> spiece_vocabulary(const SpieceModel& model);

} // namespace hekla::text
