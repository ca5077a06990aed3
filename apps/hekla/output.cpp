#include "output.hpp"

#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/standard_streams.hpp"
#include "base/system_file.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

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
    const std::error_code problem = check_writable_folder(folder);
    return problem ? io_error(fmt::format("-o {}: nothing can be written to the folder {}: {}", path, folder.string(),
                                          problem.message()))
                   : Status();
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
    const std::error_code problem = flush_or_discard(stdout);
    if (!problem && std::ferror(stdout) == 0) return {};
    const bool is_closed = output_closed();
    std::clearerr(stdout);
    if (is_closed) return {};
    return io_error(problem ? fmt::format("cannot write to standard output: {}", problem.message())
                            : std::string("cannot write to standard output"));
}

bool output_closed() { return reader_has_ended(stdout); }

bool output_failed() { return std::ferror(stdout) != 0; }

} // namespace hekla::app
