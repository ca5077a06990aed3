// Numbers as people read them.
#include "base/number_text.hpp"

#include <doctest/doctest.h>

using namespace hekla;

TEST_CASE("number texts: sizes, durations, groups of digits, short numbers, percentages") {
    CHECK(size_text(512) == "512 B");
    CHECK(size_text(3 << 20) == "3.0 MiB");
    CHECK(duration_text(0.041) == "41 ms");
    CHECK(duration_text(3.2) == "3.2 s");
    CHECK(duration_text(80.0) == "1:20");
    CHECK(duration_text(7384.0) == "2:03:04");
    CHECK(duration_text(-1.0) == "?");
    CHECK(grouped(18700.0) == "18,700");
    CHECK(grouped(-999.0) == "-999");
    CHECK(short_number(999.0) == "999");
    CHECK(short_number(18700.0) == "18.7 k");
    CHECK(short_number(999.6) == "1 k");
    CHECK(short_number(-2.5e9) == "-2.5 G");
    CHECK(percent_text(0.125) == "12.5%");
    CHECK(percent_text(0.1234, 2) == "12.34%");
}
