#include "output.hpp"

#include "base/file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

namespace hekla::app {

std::string json_line(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Status write_output(const std::string& path, std::string_view text) {
    if (!path.empty() && path != "-") return write_file_atomically(path, text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return flush_output();
}

Status flush_output() {
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    const int reason = errno;
    if (flushed && std::ferror(stdout) == 0) return {};
    ::__fpurge(stdout); // otherwise it would be written again, and fail again
    std::clearerr(stdout);
    return io_error(reason != 0 ? fmt::format("cannot write to standard output: {}", std::strerror(reason))
                                : std::string("cannot write to standard output"));
}

bool output_failed() { return std::ferror(stdout) != 0; }

void open_standard_streams() {
    // Standard output is opened read-only, so that writing to it is an error instead of a silent loss.
    constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int stream = 0; stream < 3; ++stream)
        if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            ::open("/dev/null", kModes[stream]); // the lowest free number
}

} // namespace hekla::app
