// The frames of the model families, from the roles of a vocabulary's tokens: for tokenizer files that name a class and
// have no post-processor, and for tokenizers that a run trains.
#pragma once

#include "text/vocabulary.hpp"

#include <optional>
#include <string_view>

namespace hekla::text {

TextFrame bert_frame(int32_t cls, int32_t separator);    // [CLS] a [SEP] b [SEP]; b is of type 1
TextFrame roberta_frame(int32_t cls, int32_t separator); // <s> a </s></s> b </s>
TextFrame t5_frame(int32_t end);                         // a </s> b </s>
TextFrame xlnet_frame(int32_t separator, int32_t cls);   // a <sep> b <sep> <cls>; types 0, 1 and 2
TextFrame repeated_frame(TextFrame single);              // each text of a pair has the frame of a single one

// Returns the frame that a class of Hugging Face's tokenizers adds where tokenizer.json has no post-processor. family:
// of tokenizer_class, without "Tokenizer". Nothing: the class decides nothing.
std::optional<TextFrame> frame_of_tokenizer_class(std::string_view family, const Vocabulary& vocabulary);

// Returns whether the frame ends with the classifier token, as XLNet's: rows are padded on the left.
bool pads_left(const Vocabulary& vocabulary);

// Returns the frame of a tokenizer that is trained for an architecture (its id): that of the published models.
TextFrame frame_of_architecture(std::string_view architecture, const Vocabulary& vocabulary);

} // namespace hekla::text
