// A SentencePiece model's file: its pieces and its normalization, read and validated before the library reads it, and
// written. The format is protobuf's wire format of sentencepiece_model.proto.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

inline constexpr std::string_view kSpacePiece = "\xE2\x96\x81"; // U+2581, which represents a space in pieces

struct SpieceModel {
    enum class Type : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
    enum class Kind : int32_t { unigram = 1, bpe = 2, word = 3, character = 4 };
    struct Piece {
        std::string text;
        float score = 0.0f;
        Type type = Type::normal;
    };
    std::vector<Piece> pieces; // by id
    Kind kind = Kind::unigram;
    bool byte_fallback = false;
    int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1; // as trained; an id without a piece is possible
    std::string charsmap;                                    // normalization as a compiled trie; empty: none
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool space_is_suffix = false;
};

// Errors: not such a file, or truncated; no pieces, an empty one, two equal ones, one that is not UTF-8, no unknown
// piece; a score that is not finite; a trie with references outside itself. Messages begin with `name`.
Result<SpieceModel> read_spiece_model(std::string_view content, const std::string& name);

// Returns the file of a model; fields that it does not have (training options) get the format's defaults.
std::string write_spiece_model(const SpieceModel& model);

} // namespace hekla::text
