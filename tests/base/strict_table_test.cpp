// Tables that people write: what is read, and the messages about what is wrong, from JSON and from TOML.
#include "base/nearest_name.hpp"
#include "base/toml.hpp"

#include <doctest/doctest.h>
#include <functional>

using namespace hekla;
using nlohmann::json;

namespace {

// Returns the error of reading a text of TOML as a table.
std::string refused(const std::string& text, const std::function<void(StrictTable&)>& read) {
    TableReading reading("t.toml");
    const Result<json> values = toml_values(text, reading);
    if (!values.ok()) return values.message();
    StrictTable table(values.value(), reading, "", "a test");
    read(table);
    return table.finish().message();
}

} // namespace

TEST_CASE("strict tables: values of TOML with ranges and choices; errors have line, key, value and what was expected") {
    const auto read = [](StrictTable& table) {
        std::string kind;
        int64_t steps = 0;
        double rate = 0.0;
        std::vector<int64_t> sizes;
        table.read("kind", kind, std::vector<std::string>{"linear", "cosine"});
        table.read("steps", steps, NumberRange{1});
        table.read("rate", rate, NumberRange{0.0, 1.0, true});
        table.read("sizes", sizes);
        table.table("train", [](StrictTable& inner) {
            bool fast = false;
            inner.require("fast", fast);
        });
        table.tables("part", [](StrictTable& inner) {
            std::string name;
            inner.read("name", name);
        });
    };
    CHECK(refused("kind = \"linear\"\nsteps = 3\nrate = 1\nsizes = [1, 2]\ntrain.fast = true\n[[part]]\nname = \"a\"\n",
                  read) == "");
    CHECK(refused("\nkind = \"cosin\"", read) ==
          "t.toml:2: kind: 'cosin' is not one of linear, cosine; did you mean 'cosine'?");
    CHECK(refused("kind = 3", read) == "t.toml:1: kind: is 3, expected a string");
    CHECK(refused("steps = 0", read) == "t.toml:1: steps: 0 is too small, expected 1 or more");
    CHECK(refused("steps = 1.5", read) == "t.toml:1: steps: is 1.5, expected an integer");
    CHECK(refused("rate = 0", read) == "t.toml:1: rate: 0 is outside 0 to 1, without 0");
    CHECK(refused("rate = nan", read) == "t.toml:1: rate: nan is not a finite number");
    CHECK(refused("sizes = [1,\n\"a\"]", read) == "t.toml:2: sizes: is \"a\", expected an integer");
    CHECK(refused("sizes = inf", read) == "t.toml:1: sizes: is inf, expected an array of integers");
    CHECK(refused("train = 3", read) == "t.toml:1: train: is 3, expected a table");
    CHECK(refused("[train]", read) == "t.toml:1: train: the key 'fast' is missing");
    CHECK(refused("part = []", read) == "t.toml:1: part: is [], expected an array of tables");
    CHECK(refused("[[part]]\n[[part]]\nnaem = \"b\"", read) ==
          "t.toml:3: [part] has no key 'naem'; did you mean 'name'?");
    CHECK(refused("stpes = 1", read) == "t.toml:1: a test has no key 'stpes'; did you mean 'steps'?");
    CHECK(refused("x = 1\n", [](StrictTable&) {}) == "t.toml:1: a test has no key 'x' (it has none)");
    CHECK(refused("train.day = 2026-11-30", read) ==
          "t.toml:1: train.day: a date or time cannot be used here; write it as a string");
    // Misspelled keys are errors before missing ones.
    CHECK(refused("nmae = 1", [](StrictTable& table) {
              table.expect({"name"});
              table.require("name");
          }) == "t.toml:1: a test has no key 'nmae'; did you mean 'name'?");
}

TEST_CASE("strict tables: JSON has paths instead of lines; null, control characters and other keys by choice") {
    const json values =
        json::parse(R"({"name": "a\u0007", "size": 9223372036854775808, "list": [{}, {"x": 1}], "no": null})");
    TableReading reading("f.json", Code::corrupt);
    reading.null_is_absent = true;
    reading.refuses_control_characters = true;
    StrictTable table(values, reading, "all");
    CHECK(table.find("no") == nullptr);
    std::string name = "before";
    CHECK_FALSE(table.read("name", name));
    CHECK(name == "before");
    CHECK(reading.status().message() == "f.json: all.name: has a control character: \"a\\x07\"");
    CHECK(reading.status().code() == Code::corrupt);
    int64_t size = 1;
    CHECK_FALSE(table.read("size", size)); // the first error stays
    CHECK(size == 1);
    CHECK(table.finish().message().find("all.name") != std::string::npos);

    TableReading second;
    StrictTable again(values, second, "all");
    CHECK_FALSE(again.read("size", size));
    CHECK(second.status().message() == "all.size: is 9223372036854775808, expected an integer below 2^63");
    TableReading third;
    StrictTable last(values, third, "all");
    last.tables("list", [](StrictTable&) {});
    CHECK(third.status().message() == "all.list[1] has no key 'x' (it has none)");
    TableReading lenient;
    lenient.refuses_unknown_keys = false;
    CHECK(StrictTable(values, lenient).finish().ok());
    CHECK(did_you_mean("nmae", std::vector<std::string>{"name"}) == "; did you mean 'name'?");
    CHECK(did_you_mean("x", std::vector<std::string>{"name"}, ": see --help") == ": see --help");
}
