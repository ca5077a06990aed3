// Versions of plugins, and the ranges of them that another plugin's manifest may ask for.
#pragma once

#include "base/status.hpp"

#include <compare>
#include <optional>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// Up to four numbers with dots between them: "0.2.0". Numbers that are left out are 0.
struct Version {
    std::vector<uint32_t> numbers;
    std::strong_ordering operator<=>(const Version& other) const;
    bool operator==(const Version& other) const { return (*this <=> other) == std::strong_ordering::equal; }
};
std::optional<Version> parse_version(std::string_view text);

// Comparisons that all hold, separated by spaces: ">=0.2 <1". An empty text is the range of all versions.
class VersionRange {
public:
    // Error: invalid_argument, with the part that is wrong and what was expected.
    static Result<VersionRange> parse(std::string_view text);
    // A version that is not numbers is in the empty range's only.
    bool contains(std::string_view version) const;

private:
    enum class Relation { equal, less, at_most, above, at_least };
    struct Bound {
        Relation relation;
        Version version;
    };
    std::vector<Bound> bounds_;
};

} // namespace hekla::plugin
