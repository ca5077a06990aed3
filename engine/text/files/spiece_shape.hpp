// Files of SentencePiece's shape: the model that a tokenizer.json was converted from.
#pragma once

#include "text/files/spiece_model.hpp"
#include "text/pipeline/pipeline.hpp"
#include "text/text_preparation.hpp"

#include <optional>
#include <string>

namespace hekla::text {

// What separates words, in addition to the white space that a model's map makes spaces.
inline constexpr std::string_view kSpieceSpaces = "[ \xC2\x85]+";

// Where a word begins and how its spaces are handled.
enum class SpaceRule : int32_t {
    model,  // by the model's own flags (usually: none at the ends, one between words, one before the first)
    always, // all spaces are kept; one is inserted before each text and after each added token
    first,  // all spaces are kept; one is inserted only at the beginning of the text
    never,  // all spaces are kept, none is added
};

struct SpieceShape {
    SpieceModel model;
    TextPreparation preparation;
    SpaceRule spaces = SpaceRule::model;
    std::string squeezed; // replacement of several spaces
};

// Returns the model of a file whose ids SentencePiece's algorithm finds as well; nothing for other files.
std::optional<SpieceShape> spiece_shape(const Pipeline& pipeline, const Vocabulary& vocabulary,
                                        const WordModelTables& tables);

// Returns the pieces and scores of a file's model alone; nothing if its merges do not follow from scores.
std::optional<SpieceModel> spiece_model_of(const Pipeline& pipeline, const Vocabulary& vocabulary,
                                           const WordModelTables& tables);

// Returns the identity of a tokenizer of a SentencePiece model. `ids`: Marian's; empty if they are the pieces' own.
std::string spiece_identity(const SpieceShape& shape, const Vocabulary& vocabulary, std::span<const int32_t> ids);

} // namespace hekla::text
