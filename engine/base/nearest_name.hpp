// "Did you mean": the known name nearest to a wrong one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hekla {

// Returns the edit distance (insert, delete, replace), or limit + 1 if it is larger than limit.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// Returns the nearest candidate within a third of `name`'s length (or two letters), or an empty text. Of several
// equally near ones, the first is returned. Only the first 20,000 candidates are compared. The result points into
// `candidates`.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates);

// Returns the end of a message about a name that does not exist: "; did you mean 'NAME'?" for the nearest candidate, or
// `otherwise` if none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates,
                         std::string_view otherwise = {});
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates,
                         std::string_view otherwise = {});

} // namespace hekla
