// The description in a tokenizer.json, read once: every tokenizer of such a file executes this description, or is
// chosen because it does exactly the same faster.
#pragma once

#include "base/file_place.hpp"
#include "text/pipeline/decoder.hpp"
#include "text/pipeline/normalizer.hpp"
#include "text/pipeline/post_processor.hpp"
#include "text/pipeline/pre_tokenizer.hpp"
#include "text/pipeline/word_model.hpp"

#include <memory>
#include <string>

namespace hekla::text {

// Immutable. Thread: any.
class Pipeline {
public:
    // Reads the sections of a file. Errors: the first component or option that is not supported, by its place.
    static Result<std::shared_ptr<Pipeline>> read(const Json& json, const std::string& name);
    // Reads tokenizer_config.json's tokenizer_class.
    Status read_class(const FilePlace& folder);

    const Normalizer& normalizer() const { return normalizer_; }
    const PreTokenizer& pre_tokenizer() const { return pre_tokenizer_; }
    const WordModelOptions& model() const { return model_; }
    WordModelOptions& options() { return model_; } // while a file is read
    const PostProcessor& post_processor() const { return post_processor_; }
    const std::shared_ptr<const Decoder>& decoder() const { return decoder_; }
    // Returns a section as it was given: "normalizer", "pre_tokenizer", "post_processor" or "decoder".
    const Json& section(const char* key) const { return sections_[key]; }
    // The class of tokenizer_config.json when the file was read; empty if there was none.
    const std::string& tokenizer_class() const { return tokenizer_class_; }

    // Returns the file: its own sections, with the tokens of `vocabulary`. `lists`: the model's vocab, and its merges.
    std::string to_json(const Vocabulary& vocabulary, const std::string& lists) const;
    // Returns the normal form of a text. A text whose form cannot be computed stays as it is.
    std::string normalized(std::string_view text) const;
    // Returns an added token as it is matched and decoded: a normalized one in its normal form.
    std::string form_of(int32_t id, const Vocabulary& vocabulary) const;

private:
    Normalizer normalizer_;
    PreTokenizer pre_tokenizer_;
    WordModelOptions model_;
    PostProcessor post_processor_;
    std::shared_ptr<const Decoder> decoder_;
    std::string tokenizer_class_;
    Json sections_; // "normalizer", "pre_tokenizer", "post_processor", "decoder", as given
};

} // namespace hekla::text
