// What the kinds of tokenizer.json have in common.
#pragma once

#include "base/file_place.hpp"
#include "text/files/bpe_builder.hpp"
#include "text/files/json_file.hpp"
#include "text/vocabulary.hpp"

#include <functional>
#include <string>

namespace hekla::text {

// A member of an object; null where it is absent.
const Json& member(const Json& object, const char* key);
// The "type" of a section.
Result<std::string> type_of(const Json& section, const char* what, const std::string& name);
Status not_done(const std::string& name, const char* what, const std::string& value, const char* done);

// model.vocab, an object of tokens and ids, in the order of ids.
Status read_model_vocabulary(const Json& model, const std::string& name,
                             const std::function<Status(const std::string& token, int32_t id)>& add);
Status read_added_tokens(const Json& json, const std::string& name, Vocabulary& vocabulary);
// model.unk_token; an error where `required` and it is named but not in the vocabulary.
Status read_unknown(const Json& model, const std::string& name, bool required, Vocabulary& vocabulary);
// Reads the vocabulary of a model whose tokens are spelled as themselves: model.vocab, the added tokens, the unknown
// token (which may be `required`, as above), and the other files in the folder of `path`.
Result<Vocabulary> read_plain_vocabulary(const Json& json, const FilePlace& path, bool required);

// model.merges, "a b" or ["a", "b"] each.
Status read_model_merges(const Json& model, const std::string& name, BpeBuilder& builder);

const char* yes(bool value); // "true", "false"
std::string vocabulary_json(const Vocabulary& vocabulary);
// The whole file, its members being JSON.
std::string tokenizer_document(const Vocabulary& vocabulary, const std::string& normalizer,
                               const std::string& pre_tokenizer, const std::string& post_processor,
                               const std::string& decoder, const std::string& model);

} // namespace hekla::text
