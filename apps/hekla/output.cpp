#include "output.hpp"

#include "base/file.hpp"
#include "base/printable.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
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

Status write_foreign_output(const std::string& path, std::string_view text) {
    return path.empty() || path == "-" ? write_output(path, printable(text)) : write_output(path, text);
}

void print_foreign(std::string_view text) {
    const std::string shown = printable(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
}

namespace {

Status check_writable(const std::string& path, const std::filesystem::path& folder) {
    if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
    return io_error(
        fmt::format("-o {}: nothing can be written to the folder {}: {}", path, folder.string(), std::strerror(errno)));
}

} // namespace

Status check_output_file(const std::string& path) {
    const std::filesystem::path file = path, parent = file.has_parent_path() ? file.parent_path() : ".";
    std::error_code problem;
    if (!file.has_filename() || std::filesystem::is_directory(file, problem))
        return invalid_argument(fmt::format("-o '{}': expected the name of a file", path));
    if (!std::filesystem::is_directory(parent, problem))
        return not_found(fmt::format("-o {}: the folder {} does not exist: make it first", path, parent.string()));
    return check_writable(path, parent);
}

Status check_output_folder(const std::string& path) {
    std::error_code problem;
    std::filesystem::path there = std::filesystem::absolute(path, problem);
    while (there.has_relative_path() && !std::filesystem::exists(there, problem)) there = there.parent_path();
    if (path.empty() || !std::filesystem::is_directory(there, problem))
        return invalid_argument(fmt::format("-o '{}': {} is not a folder: expected the name of a folder", path,
                                            path.empty() ? "it" : there.string()));
    return check_writable(path, there);
}

Status flush_output() {
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    const int reason = errno;
    if (flushed && std::ferror(stdout) == 0) return {};
    ::__fpurge(stdout); // otherwise it would be written again, and fail again
    const bool is_closed = output_closed();
    std::clearerr(stdout);
    if (is_closed) return {};
    return io_error(reason != 0 ? fmt::format("cannot write to standard output: {}", std::strerror(reason))
                                : std::string("cannot write to standard output"));
}

bool output_closed() {
    pollfd output{STDOUT_FILENO, 0, 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
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
