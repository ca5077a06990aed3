// errno as an error code.
#pragma once

#include <cerrno>
#include <system_error>

namespace hekla {

inline std::error_code last_problem() { return {errno, std::system_category()}; }
inline std::error_code problem_unless(bool done) { return done ? std::error_code() : last_problem(); }

} // namespace hekla
