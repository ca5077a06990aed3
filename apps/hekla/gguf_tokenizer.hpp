// A model's tokenizer as llama.cpp's GGUF keys.
#pragma once

#include "base/log.hpp"
#include "model/gguf.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace hekla::app {

// Appends tokenizer.ggml.*: byte-level BPE with an expression that llama.cpp knows; SentencePiece's BPE; or characters,
// as BPE whose merges join the bytes of each character. `ids`: rows of the model's embedding; rows without a token get
// an unused one. A folder without a tokenizer gets the model "none", and a line is logged. Errors: those of reading it;
// unsupported (another kind or expression); invalid_argument (more tokens than ids).
Status add_tokenizer_keys(const std::filesystem::path& folder, const nlohmann::ordered_json& config, int64_t ids,
                          model::GgufKeys& keys, const Log& log);

} // namespace hekla::app
