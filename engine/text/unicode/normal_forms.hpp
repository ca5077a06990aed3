// Unicode's normal forms (UAX 15), with the changes that lead to them as the tokenizers library counts them.
#pragma once

#include "text/pipeline/aligned_text.hpp"

namespace hekla::text {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

// Changes the text to a normal form. Takes linear time for texts without long runs of combining marks, and O(n log n)
// for these.
void normalize(AlignedText& text, NormalForm form);

} // namespace hekla::text
