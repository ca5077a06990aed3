// Generation that the reference implementation has done before: prompts, arguments and the ids that came out. Running
// it again says whether a decoder does the same.
#pragma once

#include "generate/generator.hpp"

namespace hekla::generate {

struct RecordedCase {
    std::vector<std::vector<int32_t>> prompts;  // equally long
    nlohmann::json arguments;                   // of transformers' generate()
    Fields fields;                              // that went along: "attention_mask"
    std::vector<std::vector<int32_t>> expected; // with the prompts (an encoder-decoder's: with its first token), padded
};

struct CaseReport {
    bool equal = false;
    std::string detail; // where they part: "row 1, token 7: 12, expected 5"; "" if equal
    Statistics statistics;
};

// `config` is the model's: its ids of start, end and padding are the defaults of the arguments. Padding in a prompt (by
// the mask, or by the padding id as the reference does it) is left out of what the decoder reads.
Result<CaseReport> run_recorded(Decoder& decoder, const nlohmann::json& config, const RecordedCase& recorded);

} // namespace hekla::generate
