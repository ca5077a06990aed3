#include "text/gpt2_words.hpp"

#include "text/unicode/characters.hpp"

#include <utf8proc.h>

namespace hekla::text {

WordClass word_class(char32_t character) {
    if (is_white_space(character)) return WordClass::space;
    const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(character));
    if (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) return WordClass::letter;
    return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO ? WordClass::number : WordClass::other;
}

} // namespace hekla::text
