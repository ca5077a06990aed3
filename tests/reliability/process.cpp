#include "process.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <iterator>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace hekla::test {

namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

constexpr unsigned kNobody = 65534;

} // namespace

Folder::Folder() {
    static std::atomic<int> counter{0};
    root_ = fs::temp_directory_path() /
            ("hekla_reliability_" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
    fs::create_directories(root_);
}

Folder::~Folder() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
}

void Folder::write(const std::string& name, const std::string& content) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream out(path(name), std::ios::binary);
    out << content;
    out.close();
    REQUIRE(out);
}

std::string Folder::read(const std::string& name) const { return content_of(path(name)); }

std::string Folder::listing(const std::string& name) const {
    if (!exists(name)) return "nothing";
    std::vector<std::string> lines;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path(name))) {
        struct stat info {};
        REQUIRE(::lstat(entry.path().c_str(), &info) == 0);
        if (S_ISDIR(info.st_mode)) {
            lines.push_back(entry.path().string() + "/");
            continue;
        }
        if (entry.path().filename() == ".lock") continue; // contains the last process
        lines.push_back(entry.path().string() + " " + std::to_string(info.st_size) + " " +
                        std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec));
    }
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
}

Process::Process(const Folder& folder, const std::vector<std::string>& arguments, const Surroundings& surroundings) {
    static std::atomic<int> counter{0};
    const std::string stem = folder.root().string() + "." + std::to_string(counter++);
    out_ = stem + ".out";
    err_ = stem + ".err";
    const std::string cache = (fs::temp_directory_path() / ("hekla_reliability_cache_" +
                                                            std::to_string(surroundings.nobody ? kNobody : ::getuid())))
                                  .string();
    const char* const program = surroundings.program.empty() ? HEKLA_PROGRAM : surroundings.program.c_str();
    std::vector<char*> words{const_cast<char*>(program)};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ > 0) return;
    const int in = ::open("/dev/null", O_RDONLY), out = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
              err = ::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || out < 0 || err < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0 ||
        ::chdir(folder.root().c_str()) != 0)
        ::_exit(126);
    ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    ::setenv("XDG_DATA_HOME", folder.root().c_str(), 1);
    for (const auto& [name, value] : surroundings.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (surroundings.nobody && (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
        ::_exit(126);
    ::execv(program, words.data());
    ::_exit(127);
}

Process::~Process() {
    if (!ended_) {
        ::kill(id_, SIGKILL);
        int status = 0;
        ::waitpid(id_, &status, 0);
    }
    std::error_code ignored;
    fs::remove(out_, ignored);
    fs::remove(err_, ignored);
}

void Process::send(int signal) const {
    if (!ended_) ::kill(id_, signal);
}

void Process::collect(int status) {
    ended_ = true;
    result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result_.out = content_of(out_);
    result_.err = content_of(err_);
}

std::string Process::errors() const { return ended_ ? result_.err : content_of(err_); }

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

Ended Process::wait(double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (running()) {
        if (std::chrono::steady_clock::now() > until) send(SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return result_;
}

Ended run(const Folder& folder, const std::vector<std::string>& arguments, const Surroundings& surroundings) {
    return Process(folder, arguments, surroundings).wait();
}

} // namespace hekla::test
