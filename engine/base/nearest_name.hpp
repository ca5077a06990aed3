// "Did you mean": the known name that a wrong one is nearest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hekla {

// Edit distance (insert, delete, replace), or limit + 1 where it is larger than limit.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// The candidate within a third of `name`'s length (or two letters), or empty. Ties go to the first; of very many
// candidates only the first twenty thousand are looked at. The result points into `candidates`.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

} // namespace hekla
