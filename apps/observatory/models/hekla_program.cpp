#include "models/hekla_program.hpp"

#include "failure.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ; // NOLINT(readability-redundant-declaration): not in all headers

namespace observatory {
namespace {

// The two ends of a pipe, closed with this object.
class Pipe {
public:
    Pipe() {
        if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw Failure(std::string("pipe: ") + std::strerror(errno));
    }
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    int read_end() const { return ends_[0]; }
    int write_end() const { return ends_[1]; }
    void close_end(std::size_t end) {
        if (ends_[end] >= 0) close(ends_[end]);
        ends_[end] = -1;
    }
    // Appends what has arrived to `text`; closes the pipe at its end.
    void read_into(std::string& text) {
        std::array<char, 4096> piece{};
        const ssize_t count = read(ends_[0], piece.data(), piece.size());
        if (count > 0)
            text.append(piece.data(), static_cast<std::size_t>(count));
        else if (count == 0 || errno != EINTR)
            close_end(0);
    }

private:
    std::array<int, 2> ends_{-1, -1};
};

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
    path_ = (std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / "hekla").string();
}

std::string HeklaProgram::run(std::vector<std::string> arguments) const {
    for (const std::string& folder : plugin_folders_) arguments.insert(arguments.begin(), {"--plugin-path", folder});
    arguments.insert(arguments.begin(), path_);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    Pipe output, errors;
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.write_end(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors.write_end(), STDERR_FILENO);
    pid_t child = 0;
    const int problem = posix_spawn(&child, path_.c_str(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0)
        throw Failure(path_ + ": " + std::strerror(problem) + "; adapters need the program hekla in this folder");
    output.close_end(1);
    errors.close_end(1);
    std::string printed, messages;
    while (output.read_end() >= 0 || errors.read_end() >= 0) {
        std::array<pollfd, 2> both{pollfd{output.read_end(), POLLIN, 0}, pollfd{errors.read_end(), POLLIN, 0}};
        if (poll(both.data(), both.size(), -1) < 0 && errno != EINTR) break;
        if (both[0].revents != 0) output.read_into(printed);
        if (both[1].revents != 0) errors.read_into(messages);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return printed;
    std::string message = error_message(messages);
    if (message.empty()) message = path_ + " ended without a message";
    throw Failure(message);
}

} // namespace observatory
