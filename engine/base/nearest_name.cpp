#include "base/nearest_name.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <vector>

namespace hekla {

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
    if (a.size() > b.size()) std::swap(a, b);
    if (b.size() - a.size() > limit) return limit + 1;
    std::vector<std::size_t> row(a.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t j = 1; j <= b.size(); ++j) {
        std::size_t diagonal = row[0];
        std::size_t least = row[0] = j;
        for (std::size_t i = 1; i <= a.size(); ++i) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[i];
            row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
            least = std::min(least, row[i]);
        }
        if (least > limit) return limit + 1;
    }
    return std::min(row.back(), limit + 1);
}

namespace {

constexpr std::size_t kCandidates = 20'000; // a hostile file may contain millions of names

template<class Name>
std::string_view nearest_of(std::string_view name, std::span<const Name> candidates) {
    constexpr std::size_t kLongest = 256;
    if (name.empty() || name.size() > kLongest) return {};
    std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;
    std::string_view nearest;
    for (const std::string_view candidate : candidates.first(std::min(candidates.size(), kCandidates))) {
        if (best == 0) break;
        const std::size_t distance = edit_distance(name, candidate, best - 1);
        if (distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

template<class Name>
std::string suggestion_of(std::string_view name, std::span<const Name> candidates, std::string_view otherwise) {
    const std::string_view near = nearest_of(name, candidates);
    return near.empty() ? std::string(otherwise) : fmt::format("; did you mean '{}'?", near);
}

} // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
    return nearest_of(name, candidates);
}

std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates) {
    return nearest_of(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates,
                         std::string_view otherwise) {
    return suggestion_of(name, candidates, otherwise);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates, std::string_view otherwise) {
    return suggestion_of(name, candidates, otherwise);
}

} // namespace hekla
