#include "support/program.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace hekla::test {

namespace fs = std::filesystem;

namespace {

constexpr unsigned kNobody = 65534;

} // namespace

Ran succeed(const Ran& ran) {
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    return ran;
}

Process::Process(const fs::path& folder, const Arguments& arguments, const Surroundings& surroundings) {
    const fs::path in = streams_.write("in", surroundings.input), err = streams_ / "err";
    const fs::path out = surroundings.output.value_or(streams_ / "out");
    const unsigned user = surroundings.nobody ? kNobody : ::getuid();
    const std::string cache = (fs::temp_directory_path() / ("hekla_test_cache_" + std::to_string(user))).string();
    const std::string program = surroundings.program.empty() ? HEKLA_PROGRAM : surroundings.program.string();
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ > 0) return;
    const auto as = [](const fs::path& file, int flags, int stream) {
        const int opened = ::open(file.c_str(), flags, 0600);
        if (opened < 0 || ::dup2(opened, stream) < 0) ::_exit(126);
    };
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    as(in, O_RDONLY, 0);
    as(err, kNew, 2);
    if (out.empty())
        ::close(1);
    else
        as(out, kNew, 1);
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    ::setenv("XDG_DATA_HOME", folder.c_str(), 1); // hides the user's own plugins
    for (const auto& [name, value] : surroundings.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (surroundings.nobody && (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
        ::_exit(126);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
}

Process::~Process() {
    if (!ended_) {
        ::kill(id_, SIGKILL);
        int status = 0;
        ::waitpid(id_, &status, 0);
    }
}

void Process::send(int signal) const {
    if (!ended_) ::kill(id_, signal);
}

void Process::collect(int status) {
    ended_ = true;
    result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result_.out = streams_.read("out");
    result_.err = streams_.read("err");
}

std::string Process::errors() const { return ended_ ? result_.err : streams_.read("err"); }

bool Process::running() {
    if (ended_) return false;
    int status = 0;
    if (::waitpid(id_, &status, WNOHANG) == id_) collect(status);
    return !ended_;
}

bool Process::wait_until_handled(int signal) {
    // Until it runs the program, the process is a copy of this one, with the handlers of the test framework.
    const fs::path process = "/proc/" + std::to_string(id_);
    std::error_code problem;
    const fs::path own = fs::read_symlink("/proc/self/exe", problem);
    for (int i = 0; i < 6000 && running(); ++i) {
        const fs::path program = fs::read_symlink(process / "exe", problem);
        const std::string content = content_of(process / "status");
        const std::size_t caught = content.find("SigCgt:");
        if (!problem && program != own && caught != std::string::npos &&
            (std::strtoull(content.c_str() + caught + 7, nullptr, 16) >> (signal - 1) & 1) != 0)
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

Ran Process::wait(double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (running()) {
        if (std::chrono::steady_clock::now() > until) send(SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return result_;
}

Ran run(const fs::path& folder, const Arguments& arguments, const Surroundings& surroundings) {
    return Process(folder, arguments, surroundings).wait();
}

Ran shell(const fs::path& folder, const std::string& command) {
    return run(folder, {"-c", command}, {.program = "/bin/sh"});
}

} // namespace hekla::test
