// Writes a language model as what `ollama create` takes: a GGUF file and a Modelfile.
// Source: https://docs.ollama.com/modelfile
#pragma once

#include "base/log.hpp"
#include "model/dtype.hpp"
#include "stored_model.hpp"

#include <optional>
#include <string>

namespace hekla::app {

// Creates the folder, which appears whole, with model.gguf and Modelfile: the chat template in Ollama's language, the
// texts that end an answer, and what generation_config.json has of drawing tokens. A template that has no equivalent is
// left out with a warning; Ollama then takes the one that it knows for the template in the file. Returns the lines that
// tell how to use it. Errors: those of write_gguf_model; a folder that exists and is not empty.
Result<std::string> write_ollama_model(const StoredModel& m, const std::filesystem::path& to,
                                       std::optional<model::DType> dtype, const Log& log);

} // namespace hekla::app
