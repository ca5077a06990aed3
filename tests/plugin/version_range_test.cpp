#include "plugin/registry/version_range.hpp"

#include <doctest/doctest.h>
#include <string>

namespace version_range_test {

using namespace hekla;
using plugin::parse_version;
using plugin::VersionRange;

TEST_CASE("versions are compared number by number, and missing numbers are 0") {
    CHECK(*parse_version("0.10.0") > *parse_version("0.9.9"));
    CHECK(*parse_version("1") == *parse_version("1.0.0.0"));
    CHECK(*parse_version("1.0.0.1") > *parse_version("1"));
    for (const char* text : {"", ".", "1.", ".1", "1..2", "1.2.3.4.5", "v1", "1.2-rc", "-1", "99999999999", "1 "}) {
        CAPTURE(text);
        CHECK_FALSE(parse_version(text));
    }
}

TEST_CASE("a range of versions is comparisons that all hold") {
    struct Case {
        const char *range, *version;
        bool inside;
    };
    for (const auto& [range, version, inside] : {Case{"", "0.1.0", true},
                                                 {"", "not numbers", true},
                                                 {">=0.2 <1", "0.2", true},
                                                 {">=0.2 <1", "0.1.9", false},
                                                 {">=0.2 <1", "1.0.0", false},
                                                 {">=0.2 <1", "0.11", true},
                                                 {"=0.2.1", "0.2.1.0", true},
                                                 {"=0.2.1", "0.2.2", false},
                                                 {"  >0.2   <=0.3 ", "0.3", true},
                                                 {">0.2", "0.2.0", false},
                                                 {">=0.2", "0.2-rc", false}}) {
        CAPTURE(range);
        CAPTURE(version);
        CHECK(VersionRange::parse(range).value().contains(version) == inside);
    }
    for (const char* range : {"0.2", "~0.2", ">=", ">= 0.2", ">=0.2,<1", "=>1", "*"}) {
        CAPTURE(range);
        const Status status = VersionRange::parse(range).status();
        CHECK(status.code() == Code::invalid_argument);
        CHECK(status.message().find("is not a comparison with a version: expected >=, <=, >, < or =") !=
              std::string::npos);
    }
}

} // namespace version_range_test
