#include "base/file_pattern.hpp"

#include <fnmatch.h>

namespace hekla {

bool matches_file_name(const std::string& pattern, const std::filesystem::path& name) {
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

} // namespace hekla
