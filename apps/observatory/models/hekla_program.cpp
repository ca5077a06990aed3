#include "models/hekla_program.hpp"

#include "base/host.hpp"
#include "base/run_child.hpp"
#include "base/shared_library.hpp"
#include "failure.hpp"

#include <filesystem>
#include <limits>
#include <string_view>

namespace observatory {
namespace {

// Returns the message of what a verb has printed on stderr: "hekla: error: MESSAGE" after other lines.
std::string error_message(const std::string& printed) {
    constexpr std::string_view kError = "hekla: error: ";
    const std::size_t found = printed.find(kError);
    std::string message = found == std::string::npos ? printed : printed.substr(found + kError.size());
    while (!message.empty() && message.back() == '\n') message.pop_back();
    return message;
}

} // namespace

HeklaProgram::HeklaProgram(std::vector<std::string> plugin_folders) : plugin_folders_(std::move(plugin_folders)) {
    std::error_code problem;
    path_ = (std::filesystem::read_symlink(hekla::program_file(), problem).parent_path() / "hekla").string();
}

std::string HeklaProgram::run(std::vector<std::string> arguments) const {
    for (const std::string& folder : plugin_folders_) arguments.insert(arguments.begin(), {"--plugin-path", folder});
    arguments.insert(arguments.begin(), path_);
    if (!hekla::is_executable(path_))
        throw Failure(path_ + ": is not a program that can be started; adapters need the program hekla in this folder");
    const hekla::Result<hekla::ChildResult> ran =
        hekla::run_child(arguments, {.seconds = std::numeric_limits<double>::infinity()});
    if (!ran.ok()) throw Failure(ran.status().message());
    if (ran->status == 0) return ran->out;
    std::string message = error_message(ran->error);
    if (message.empty()) message = path_ + " ended without a message";
    throw Failure(message);
}

} // namespace observatory
