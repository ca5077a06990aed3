#include "base/standard_streams.hpp"

#include "base/posix/system_problem.hpp"

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <stdio_ext.h>

namespace hekla {

void open_standard_streams() {
    // Standard output is opened read-only, so that writing to it is an error instead of a silent loss.
    constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int stream = 0; stream < 3; ++stream)
        if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            ::open("/dev/null", kModes[stream]); // the lowest free number
}

void outlive_failed_writes() {
    for (const int signal : {SIGPIPE, SIGXFSZ}) // not SIG_IGN, which child processes would inherit
        std::signal(signal, [](int) {});
}

std::error_code flush_or_discard(std::FILE* stream) {
    const std::error_code problem = problem_unless(std::fflush(stream) == 0);
    if (problem) ::__fpurge(stream); // otherwise it would be written again, and fail again
    return problem;
}

bool reader_has_ended(std::FILE* stream) {
    pollfd output{::fileno(stream), POLLERR, 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

} // namespace hekla
