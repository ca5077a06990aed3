// Shared by the kinds of tokenizer.json.
#pragma once

#include "base/file_place.hpp"
#include "text/files/bpe_builder.hpp"
#include "text/files/json_file.hpp"
#include "text/vocabulary.hpp"

#include <functional>
#include <string>

namespace hekla::text {

// Returns a member of an object; null if it does not exist.
const Json& member(const Json& object, const char* key);
// Returns the "type" of a section.
Result<std::string> type_of(const Json& section, const char* what, const std::string& name);
Status not_done(const std::string& name, const char* what, const std::string& value, const char* done);

// Reads model.vocab, an object of tokens and ids, in the order of ids.
Status read_model_vocabulary(const Json& model, const std::string& name,
                             const std::function<Status(const std::string& token, int32_t id)>& add);
Status read_added_tokens(const Json& json, const std::string& name, Vocabulary& vocabulary);
// Reads model.unk_token; an error if `required` and it is set but not in the vocabulary.
Status read_unknown(const Json& model, const std::string& name, bool required, Vocabulary& vocabulary);

// Reads model.merges, each "a b" or ["a", "b"].
Status read_model_merges(const Json& model, const std::string& name, BpeBuilder& builder);

const char* yes(bool value);                                     // "true", "false"
std::string vocabulary_json(const Vocabulary& vocabulary);       // all tokens
std::string model_vocabulary_json(const Vocabulary& vocabulary); // those of the model
// Returns the whole file; the arguments are JSON.
std::string tokenizer_document(const Vocabulary& vocabulary, const std::string& normalizer,
                               const std::string& pre_tokenizer, const std::string& post_processor,
                               const std::string& decoder, const std::string& model);

} // namespace hekla::text
