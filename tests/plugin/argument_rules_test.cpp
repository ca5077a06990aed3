// The rules about what plugins give: which one is named, for what.
#include "plugin/host/argument_rules.hpp"

#include <doctest/doctest.h>
#include <limits>

namespace argument_rules_test {

using namespace hekla::plugin;

TEST_CASE("argument rules: the rule that is broken is named, with what breaks it") {
    const auto breaks = [](const Broken& broken, std::string_view rule, std::string_view part) {
        REQUIRE(broken.has_value());
        CAPTURE(broken->what);
        CHECK(broken->rule == rule);
        CHECK(broken->what.find(part) != std::string::npos);
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const int64_t two[] = {2}, empty[] = {0, 3}, negative[] = {3, -1}, huge[] = {int64_t{1} << 40, int64_t{1} << 40};
    const double values[] = {1, nan};
    CHECK(!broken_by_shape("x", nullptr, 0));
    CHECK(!broken_by_shape("x", empty, 2));
    breaks(broken_by_shape("x", nullptr, 1), "graph.4", "x: 1 dimensions");
    breaks(broken_by_shape("x", two, 7), "graph.4", "at most 6");
    breaks(broken_by_shape("x", negative, 2), "graph.4", "x: dimension 1 is -1");
    breaks(broken_by_shape("x", huge, 2), "graph.4", "2^46");
    breaks(broken_by_name("x", ""), "graph.5", "x: the name is empty");
    breaks(broken_by_name("x", "\xff"), "graph.5", "not UTF-8");
    CHECK(!broken_by_parameter("w", two, 1, 0, 1, HK_PARAMETER_NO_DECAY));
    breaks(broken_by_parameter("", two, 1, 0, 1, 0), "graph.5", "parameter: the name");
    breaks(broken_by_parameter("w", negative, 2, 0, 1, 0), "graph.4", "parameter 'w': dimension 1");
    breaks(broken_by_parameter("w", two, 1, 0, 1, 128), "abi.8", "parameter 'w': flags 0x80");
    breaks(broken_by_parameter("w", two, 1, 0, nan, 0), "graph.6", "parameter 'w': its initializer");
    CHECK(!broken_by_buffer("w", two, 1, nullptr));
    CHECK(!broken_by_buffer("w", two, 0, values)); // one element
    breaks(broken_by_buffer("w", two, 1, values), "graph.6", "buffer 'w': value 1 is NaN");
    breaks(broken_by_numbers("constant", negative, 2, values), "graph.4", "dimension 1");
    breaks(broken_by_weight(nan), "graph.6", "weight");
    CHECK(!broken_by_weight(-1));

    hk_field field{};
    breaks(broken_by_field(nullptr), "abi.5", "struct_size");
    breaks(broken_by_field(&field), "abi.5", "struct_size");
    field.struct_size = sizeof field;
    field.kind = HK_KIND_INT32;
    breaks(broken_by_field(&field), "objective.3", "of the name ''");
    field.name = {"f", 1};
    CHECK(!broken_by_field(&field));
    field.rank = 7;
    breaks(broken_by_field(&field), "objective.3", "7 dimensions");
    field.kind = HK_KIND_FLOAT;
    breaks(broken_by_field(&field), "objective.3", "kind 0");
    field.reserved = 1;
    breaks(broken_by_field(&field), "abi.8", "reserved");

    hk_column_need need{};
    breaks(broken_by_column(&need), "abi.5", "struct_size");
    need.struct_size = sizeof need;
    CHECK(!broken_by_column(&need));
    need.flags = 64;
    breaks(broken_by_column(&need), "abi.8", "flags 0x40");
}

} // namespace argument_rules_test
