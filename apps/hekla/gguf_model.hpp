// Writes GPT-2 and decoders of the Llama family as GGUF with the names of llama.cpp, with their tokenizers, and LoRA
// adapters of them.
#pragma once

#include "adapted_model.hpp"
#include "model/dtype.hpp"
#include "stored_model.hpp"

namespace hekla::app {

// Stores matrices as `dtype`, or unchanged; vectors and positions always as f32. Without a tokenizer in the model's
// folder the file has none, and a line is logged. Errors: unsupported if llama.cpp would compute something else
// (another class, activation, scale, ...) or has no equivalent of the tokenizer.
Status write_gguf_model(const StoredModel& m, const std::filesystem::path& to, std::optional<model::DType> dtype,
                        const Log& log);

// Writes a LoRA adapter as llama.cpp's --lora loads it. Errors: unsupported if it is another adapter, or one that has
// no equivalent there (DoRA, embeddings, trained biases and modules).
Status write_gguf_adapter(const AdaptedModel& m, const std::filesystem::path& to);

} // namespace hekla::app
