// Matches within a text, as Python's re.findall() returns them.
#include "text/expression.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using Matches = std::vector<std::string>;

TEST_CASE("all matches of an expression") {
    const auto found = [](const char* expression, const char* text) {
        Result<Matches> matches = text::find_matches(expression, text);
        REQUIRE_MESSAGE(matches.ok(), matches.message());
        return matches.take();
    };
    CHECK(found("[0-9]+", "a1 b22 c") == Matches{"1", "22"});
    CHECK(found("a(b+)", "abb ab a") == Matches{"bb", "b"});
    CHECK(found("(x)|(y)", "yxz") == Matches{"y", "x"});
    CHECK(found("[0-9]", "none").empty());
    CHECK(found("é", "été") == Matches{"é", "é"});
    CHECK(found("b*", "abé") == Matches{"", "b", "", ""});
    CHECK(text::find_matches("(", "a").message().find("'(' is not a regular expression") == 0);
    CHECK(text::find_matches("(a+)+$", std::string(60, 'a') + "b").message().find("fails for") != std::string::npos);
}
