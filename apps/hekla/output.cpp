#include "output.hpp"

#include "base/file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

namespace hekla::app {

std::string json_line(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Status write_output(const std::string& path, std::string_view text) {
    if (!path.empty() && path != "-") return write_file_atomically(path, text);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        return io_error(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
    return {};
}

} // namespace hekla::app
