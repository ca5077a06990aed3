// The embedded GLSL at the beginning of generated kernels.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace hekla::program {

// Returns a file of shaders/ with its includes expanded, because there is no #include at run time. `seen` collects
// every file's name; files that are already in it are skipped.
std::string expanded_glsl(std::string_view file, std::set<std::string, std::less<>>& seen);

} // namespace hekla::program
