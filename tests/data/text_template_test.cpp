// Templates with doubled braces, as tasks have them.
#include "data/text_template.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using data::TextTemplate;

TEST_CASE("doubled braces name columns, and single ones are text") {
    const Result<TextTemplate> parsed = TextTemplate::parse_doubled("{x}: {{a}} {{ b.c }}{{a}}}");
    REQUIRE_MESSAGE(parsed.ok(), parsed.message());
    CHECK(parsed->columns() == std::vector<std::string>{"a", "b.c"});
    const auto of = [](std::string_view name) { return name == "a" ? std::string_view("1") : std::string_view(""); };
    CHECK(parsed->text(of) == "{x}: 1 1}");
    CHECK(!parsed->fill(of).has_value()); // b.c is blank
    CHECK(TextTemplate::parse_doubled("")->text(of).empty());
    for (const char* wrong : {"{{a", "{{}}", "{{ }}", "{{a|upper}}", "{{a['b']}}", "{{ {a} }}"}) {
        CAPTURE(wrong);
        CHECK(!TextTemplate::parse_doubled(wrong).ok());
    }
}
