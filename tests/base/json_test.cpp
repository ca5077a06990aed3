// The JSON reader: what it accepts, and the position and reason of every error.
#include "base/json.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using nlohmann::json;

namespace {

std::string error_of(std::string_view text) {
    const Result<json> value = parse_json(text, "file");
    CHECK(value.code() == Code::corrupt);
    CHECK(json_or_null(text).is_null());
    // Both kinds of value are built from the same events.
    if (text.starts_with('{')) CHECK(parse_ordered_json_object(text, "file").message() == value.message());
    return value.message();
}

bool has(const std::string& text, std::string_view part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

std::string arrays(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

} // namespace

TEST_CASE("json: values equal the library's") {
    for (const char* text : {"null", "true", " [] ", "{}", "-12", "18446744073709551615", "1.5e3", R"("a\u00e9\n")",
                             R"([1, [2, {"a": []}], {"b": {"c": null}}, "x"])", R"({"b": 1, "a": [{}, {}], "": ""})"}) {
        CAPTURE(text);
        const Result<json> value = parse_json(text, "file");
        REQUIRE_MESSAGE(value.ok(), value.message());
        CHECK(value.value() == json::parse(text));
        CHECK(value.value().dump() == json::parse(text).dump());
        CHECK(json_or_null(text) == json::parse(text));
        CHECK(ordered_json_or_null(text).dump() == nlohmann::ordered_json::parse(text).dump());
    }
    CHECK(parse_json("18446744073709551615", "")->is_number_unsigned());
    CHECK(parse_json("-1", "")->is_number_integer());
    CHECK(parse_ordered_json_object(R"({"b": 1, "a": 2})", "")->dump() == R"({"b":1,"a":2})");
}

TEST_CASE("json: every error has its line, column and one reason") {
    CHECK(has(error_of(""), "file: line 1, column 1: not valid JSON: the text is empty"));
    CHECK(has(error_of("{\n  \"a\": 1,\n  \"b\" 2\n}"), "file: line 3, column 7: not valid JSON: syntax error"));
    CHECK(has(error_of("[1,\n2]\n x"), "line 3, column 2: not valid JSON"));
    CHECK(has(error_of("{}{}"), "line 1, column 3: not valid JSON"));
    CHECK(has(error_of("[1, 2,]"), "line 1, column 7: not valid JSON"));
    CHECK(has(error_of("[1e999]"), "line 1, column 6: not valid JSON: number overflow"));
    CHECK(has(error_of("\"\xff\""), "line 1, column 2: not valid JSON"));
    CHECK(has(error_of(std::string_view("[]\0", 3)), "line 1, column 3: not valid JSON: a NUL byte"));
    CHECK(has(error_of(std::string_view("[]\0[]", 5)), "line 1, column 3: not valid JSON: a NUL byte"));
    CHECK(has(error_of("{\"a\": 1,\n \"a\": 2}"), "file: line 2, column 4: the key \"a\" occurs twice in one object"));
    CHECK(has(error_of(R"({"a": 1, "\u0061": 2})"), "the key \"a\" occurs twice"));
    CHECK(has(error_of("{\"" + std::string(500, 'x') + "\": 1, \"" + std::string(500, 'x') + "\": 2}"),
              "a key of 500 bytes occurs twice"));
    CHECK(parse_json(R"([{"a": 1}, {"a": 2}, {"b": {"a": {"a": 3}}}])", "").ok());
    // The library quotes the last token that it read; the message must not become as long as the file.
    CHECK(error_of("{\"" + std::string(100'000, 'x')).size() < 400);
    CHECK(parse_json_line("{\"a\" 1}", "the line").message().starts_with("the line: column 6: not valid JSON"));
    CHECK(parse_json_object("[]", "file").message() == "file: a JSON object was expected, this is an array");
    CHECK(parse_ordered_json_object("1", "file").message() == "file: a JSON object was expected, this is a number");
}

TEST_CASE("json: the nesting limit is checked before any recursion") {
    CHECK(parse_json(arrays(kJsonDepthLimit), "").ok());
    CHECK(has(error_of(arrays(kJsonDepthLimit + 1)), "file: line 1, column 65: nested deeper than 64 levels"));
    CHECK(has(error_of(arrays(1'000'000)), "nested deeper than 64 levels"));
    CHECK(has(error_of(std::string(1'000'000, '[')), "nested deeper than 64 levels"));
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\n\"a\":";
    CHECK(has(error_of(objects), "file: line 65, column 5: nested deeper than 64 levels"));
    // A wide document is not deep.
    std::string wide = "[";
    for (int i = 0; i < 100'000; ++i) wide += "[{}],";
    wide.back() = ']';
    CHECK(parse_json(wide, "")->size() == 100'000);
}

TEST_CASE("json: an object of many keys is read in linear time") {
    std::string text = "{";
    for (int i = 0; i < 200'000; ++i)
        text += "\"key" + std::to_string(i) + "\":0,"; // minutes if each key were searched linearly
    text.back() = '}';
    CHECK(parse_ordered_json_object(text, "")->size() == 200'000);
    CHECK(parse_json_object(text, "")->size() == 200'000);
}
