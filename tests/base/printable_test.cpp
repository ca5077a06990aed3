#include "base/printable.hpp"

#include <doctest/doctest.h>

namespace printable_test {

using hekla::has_control_characters;
using hekla::printable;

TEST_CASE("control characters are shown, and other characters are as they were") {
    CHECK(printable("a\x1B[31mevil\x07.zip\r") == "a\\x1B[31mevil\\x07.zip\\x0D");
    CHECK(printable("\x7F \xC2\x9B 0m \xC2\xA0 \xC3\xA4 \xE2\x82\xAC\n\t") ==
          "\\x7F \\x9B 0m \xC2\xA0 \xC3\xA4 \xE2\x82\xAC\n\t");
    CHECK(printable("\xC2") == "\xC2");
    CHECK(printable({"\0", 1}) == "\\x00");
    CHECK(printable("") == "");
}

TEST_CASE("texts with control characters are recognized") {
    for (const char* text : {"\x1B", "x\x7F", "\xC2\x80", "a\rb"}) CHECK(has_control_characters(text));
    for (const char* text : {"", "a b", "a\n\tb", "\xC3\xA4", "\xC2\xA0", "\xC2"})
        CHECK_FALSE(has_control_characters(text));
}

} // namespace printable_test
