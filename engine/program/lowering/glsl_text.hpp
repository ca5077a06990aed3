// The embedded GLSL that generated kernels begin with.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace hekla::program {

// A file of shaders/ with what it includes in place of the lines that say so: there is no #include at run time. `seen`
// gets every file's name; those that are in it give nothing.
std::string expanded_glsl(std::string_view file, std::set<std::string, std::less<>>& seen);

} // namespace hekla::program
