// A model of GPT-2's or Llama's form as GGUF, under the names that llama.cpp knows, with its tokenizer.
#pragma once

#include "model/dtype.hpp"
#include "stored_model.hpp"

namespace hekla::app {

// Matrices are stored as `dtype`, or as they are; vectors and positions always as f32. Without a tokenizer in the
// model's folder the file has none, and the log says so. Errors: unsupported where llama.cpp would compute something
// else than the model (another class, activation, scale, ...), or where the tokenizer has no equal there.
Status write_gguf_model(const StoredModel& m, const std::filesystem::path& to, std::optional<model::DType> dtype,
                        const Log& log);

} // namespace hekla::app
