// Where an installation has what the repository has.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

// Returns the path of a document ("docs/models.md", in share/doc/hekla) or of an app ("apps/recipes", in share/hekla)
// of this installation; the name itself if it is not there, as in a build.
std::string installed_path(std::string_view name);

} // namespace hekla
