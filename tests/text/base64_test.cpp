#include "text/files/base64.hpp"

#include <doctest/doctest.h>

using namespace hekla::text;

TEST_CASE("base64: the vectors of RFC 4648, in both directions") {
    for (const auto& [bytes, text] : {std::pair<const char*, const char*>{"", ""},
                                      {"f", "Zg=="},
                                      {"fo", "Zm8="},
                                      {"foo", "Zm9v"},
                                      {"foobar", "Zm9vYmFy"},
                                      {"\xff\xfe\xfb", "//77"}}) {
        CHECK(to_base64(bytes) == text);
        CHECK(from_base64(text) == bytes);
    }
    CHECK_FALSE(from_base64("Zm9v!"));
}
