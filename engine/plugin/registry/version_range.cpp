#include "plugin/registry/version_range.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace hekla::plugin {

std::strong_ordering Version::operator<=>(const Version& other) const {
    for (std::size_t i = 0; i < std::max(numbers.size(), other.numbers.size()); ++i) {
        const uint32_t mine = i < numbers.size() ? numbers[i] : 0,
                       theirs = i < other.numbers.size() ? other.numbers[i] : 0;
        if (mine != theirs) return mine <=> theirs;
    }
    return std::strong_ordering::equal;
}

std::optional<Version> parse_version(std::string_view text) {
    constexpr std::size_t kMostNumbers = 4;
    Version version;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (version.numbers.size() < kMostNumbers) {
        uint32_t number = 0;
        const auto [next, problem] = std::from_chars(at, end, number);
        if (problem != std::errc()) return {};
        version.numbers.push_back(number);
        if (next == end) return version;
        if (*next != '.') return {};
        at = next + 1;
    }
    return {};
}

Result<VersionRange> VersionRange::parse(std::string_view text) {
    constexpr std::pair<std::string_view, Relation> kRelations[] = {{">=", Relation::at_least},
                                                                    {"<=", Relation::at_most},
                                                                    {">", Relation::above},
                                                                    {"<", Relation::less},
                                                                    {"=", Relation::equal}};
    VersionRange range;
    while (true) {
        const std::size_t begin = text.find_first_not_of(' ');
        if (begin == std::string_view::npos) return range;
        text.remove_prefix(begin);
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(word.size());
        const auto relation =
            std::ranges::find_if(kRelations, [&](const auto& r) { return word.starts_with(r.first); });
        const std::optional<Version> version =
            relation == std::end(kRelations) ? std::nullopt : parse_version(word.substr(relation->first.size()));
        if (!version)
            return invalid_argument(
                fmt::format("'{}' is not a comparison with a version: expected >=, <=, >, < or = and up "
                            "to four numbers, as in \">=0.2 <1\"",
                            word));
        range.bounds_.push_back({relation->second, *version});
    }
}

bool VersionRange::contains(std::string_view text) const {
    if (bounds_.empty()) return true;
    const std::optional<Version> version = parse_version(text);
    return version && std::ranges::all_of(bounds_, [&](const Bound& bound) {
               const std::strong_ordering order = *version <=> bound.version;
               switch (bound.relation) {
               case Relation::equal: return order == 0;
               case Relation::less: return order < 0;
               case Relation::at_most: return order <= 0;
               case Relation::above: return order > 0;
               case Relation::at_least: return order >= 0;
               }
               return false;
           });
}

} // namespace hekla::plugin
