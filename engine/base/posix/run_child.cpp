#include "base/run_child.hpp"

#include "base/file_handle.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hekla {
namespace {

constexpr std::size_t kMostKept = std::size_t{1} << 20; // bytes of each output

struct Pipe {
    FileHandle read, write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io_error(fmt::format("no pipe: {}", std::strerror(errno)));
    return Pipe{FileHandle(ends[0]), FileHandle(ends[1])};
}

// Drops the middle of long output.
void keep(std::string& kept, std::string_view more) {
    kept += more;
    if (kept.size() > kMostKept)
        kept = kept.substr(0, kMostKept / 2) + "\n...\n" + kept.substr(kept.size() - kMostKept / 4);
}

// Runs after fork, so nothing here may allocate.
[[noreturn]] void become(char* const* arguments, int out, int error, uint64_t memory_bytes) {
    ::setpgid(0, 0);
    if (const int none = ::open("/dev/null", O_RDONLY); none >= 0) ::dup2(none, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (memory_bytes > 0) {
        const rlimit most{memory_bytes, memory_bytes};
        ::setrlimit(RLIMIT_AS, &most);
    }
    ::execv(arguments[0], arguments);
    ::_exit(127);
}

} // namespace

Result<ChildResult> run_child(const std::vector<std::string>& command, const ChildLimits& limits) {
    HK_ASSIGN(Pipe out, make_pipe());
    HK_ASSIGN(Pipe error, make_pipe());
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    const pid_t child = ::fork();
    if (child < 0) return io_error(fmt::format("{}: no process: {}", command[0], std::strerror(errno)));
    if (child == 0) become(arguments.data(), out.write.get(), error.write.get(), limits.memory_bytes);
    ::setpgid(child, child); // in the child too: whichever runs first
    out.write.close();
    error.write.close();

    ChildResult result;
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    std::array<pollfd, 2> open{pollfd{out.read.get(), POLLIN, 0}, pollfd{error.read.get(), POLLIN, 0}};
    std::array<std::string*, 2> kept{&result.out, &result.error};
    int status = 0;
    bool ended = false;
    // A surviving grandchild keeps the pipes open, so the loop ends when the child itself has ended.
    while (!ended || open[0].fd >= 0 || open[1].fd >= 0) {
        if (!ended) ended = ::waitpid(child, &status, WNOHANG) == child;
        const bool stop = !ended && limits.stop && limits.stop();
        if (!ended && (stop || elapsed() > limits.seconds)) {
            (stop ? result.stopped : result.timed_out) = true;
            ::kill(-child, SIGKILL);
            ended = ::waitpid(child, &status, 0) == child;
        }
        const int ready = ::poll(open.data(), open.size(), ended ? 0 : 20);
        if (ended && ready <= 0) break;
        for (std::size_t i = 0; i < open.size(); ++i) {
            if (open[i].fd < 0 || open[i].revents == 0) continue;
            std::array<char, 65536> block;
            const ssize_t got = ::read(open[i].fd, block.data(), block.size());
            if (got > 0)
                keep(*kept[i], {block.data(), static_cast<std::size_t>(got)});
            else if (got == 0 || errno != EINTR)
                open[i].fd = -1;
        }
    }
    ::kill(-child, SIGKILL); // its remaining descendants
    result.seconds = elapsed();
    if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    return result;
}

} // namespace hekla
