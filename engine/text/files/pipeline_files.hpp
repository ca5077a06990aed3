// The parts of a tokenizer.json that depend on its vocabulary: identities and the lists of the model.
#pragma once

#include "text/pipeline/pipeline.hpp"

#include <string>

namespace hekla::text {

// Returns what the ids of a pipeline depend on, for a hash. The identities of earlier versions, which recognized some
// shapes of files, stay for the files that have the same ids.
std::string pipeline_identity(const Pipeline& pipeline, const Vocabulary& vocabulary, const WordModelTables& tables);

// Returns the members "vocab" and "merges" of a model.
std::string model_lists_json(const WordModelOptions& options, const Vocabulary& vocabulary,
                             const WordModelTables& tables);
std::string merges_member(const Vocabulary& vocabulary, std::span<const Merge> merges);

// Returns the member "tokenizer_class" for tokenizer_config.json: a class with which transformers executes the file as
// it is written.
std::string tokenizer_class_json(const Pipeline& pipeline);

} // namespace hekla::text
