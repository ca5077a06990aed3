#include "base/base64.hpp"

#include <doctest/doctest.h>
#include <string_view>

TEST_CASE("base64: the vectors of RFC 4648") {
    const auto encoded = [](std::string_view text) { return hekla::base64(std::as_bytes(std::span(text))); };
    CHECK(encoded("").empty());
    CHECK(encoded("f") == "Zg==");
    CHECK(encoded("fo") == "Zm8=");
    CHECK(encoded("foo") == "Zm9v");
    CHECK(encoded("foobar") == "Zm9vYmFy");
    CHECK(encoded("\xff\xfe\xfb") == "//77");
}
