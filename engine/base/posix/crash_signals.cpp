#include "base/crash_signals.hpp"

#include <array>
#include <csignal>
#include <sys/mman.h>

namespace hekla {
namespace {

void (*g_report)() = nullptr; // a signal handler can access only globals

void on_crash(int signal) {
    g_report();
    ::raise(signal); // SA_RESETHAND: the default action now applies
}

} // namespace

void report_crashes(void (*report)()) {
    static std::array<char, 1 << 14> stack;
    g_report = report;
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
}

bool allocation_fails(std::size_t size) {
    void* const probe = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe != MAP_FAILED) ::munmap(probe, size);
    return probe == MAP_FAILED;
}

} // namespace hekla
