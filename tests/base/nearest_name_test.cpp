#include "base/nearest_name.hpp"

#include <doctest/doctest.h>
#include <vector>

using namespace hekla;

TEST_CASE("edit distance and the nearest name") {
    CHECK(edit_distance("kitten", "sitting", 10) == 3);
    CHECK(edit_distance("kitten", "sitting", 2) == 3);
    CHECK(edit_distance("", "abc", 5) == 3);
    CHECK(edit_distance("abc", "abc", 0) == 0);
    CHECK(edit_distance("flaw", "lawn", 4) == 2);
    const std::vector<std::string_view> names{"h.0.ln_1.weight", "h.0.ln_2.weight", "wte.weight"};
    CHECK(nearest_name("h.0.ln1.weight", names) == "h.0.ln_1.weight");
    CHECK(nearest_name("wte.weigth", names) == "wte.weight");
    CHECK(nearest_name("something.else.entirely", names) == "");
    CHECK(nearest_name("", names) == "");
}
