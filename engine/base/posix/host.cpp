#include "base/host.hpp"

#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <iterator>
#include <malloc.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <system_error>
#include <unistd.h>

namespace hekla {

int64_t process_id() { return ::getpid(); }

std::string host_name() {
    char host[256] = "unknown";
    ::gethostname(host, sizeof host - 1);
    return host;
}

std::string system_name() {
    utsname system{};
    return ::uname(&system) == 0 ? fmt::format("{}-{}", system.sysname, system.machine) : "unknown";
}

bool is_executable(const std::filesystem::path& file) { return ::access(file.c_str(), X_OK) == 0; }

void set_environment(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

struct BlockedSignals::State {
    sigset_t signals{};
};

BlockedSignals::BlockedSignals() : before_(std::make_unique<State>()) {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_->signals);
}

BlockedSignals::~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_->signals, nullptr); }

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::size_t terminal_columns(std::FILE* stream) {
    winsize size{};
    return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void name_this_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

std::size_t thread_count() {
    std::error_code problem;
    std::filesystem::directory_iterator tasks("/proc/self/task", problem);
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

void share_one_heap() { ::mallopt(M_ARENA_MAX, 1); }

std::size_t heap_bytes() { return ::mallinfo2().uordblks; }

uint64_t peak_memory_bytes() {
    rusage usage{};
    return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

} // namespace hekla
