// Generation recorded from the reference implementation: prompts, arguments and resulting ids. Running it again
// compares a decoder with the reference.
#pragma once

#include "generate/generator.hpp"

namespace hekla::generate {

struct RecordedCase {
    std::vector<std::vector<int32_t>> prompts;  // equally long
    nlohmann::json arguments;                   // of transformers' generate()
    Fields fields;                              // other fields: "attention_mask"
    std::vector<std::vector<int32_t>> expected; // with the prompts (an encoder-decoder's: with its first token), padded
};

struct CaseReport {
    bool equal = false;
    std::string detail; // the first difference: "row 1, token 7: 12, expected 5"; "" if equal
    Statistics statistics;
};

// `config` is the model's: its start, end and padding ids are the defaults of the arguments. Padding in a prompt (by
// the mask, or by the padding id as in the reference) is removed from the decoder's input.
Result<CaseReport> run_recorded(Decoder& decoder, const nlohmann::json& config, const RecordedCase& recorded);

} // namespace hekla::generate
