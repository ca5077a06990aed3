#include "base/file_handle.hpp"

#include "base/posix/system_problem.hpp"

#include <unistd.h>

namespace hekla {

std::error_code FileHandle::close() noexcept {
    if (!is_open()) return {};
    return problem_unless(::close(std::exchange(number_, kNone)) == 0);
}

} // namespace hekla
