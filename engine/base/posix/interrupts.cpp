#include "base/interrupts.hpp"

#include <csignal>
#include <cstring>
#include <unistd.h>

namespace hekla {
namespace {

// A signal handler can access only globals.
volatile std::sig_atomic_t g_interrupts = 0;
volatile std::sig_atomic_t g_first_signal = SIGINT;
volatile std::sig_atomic_t g_polled = 0;
const char* volatile g_message = nullptr;

void on_interrupt(int signal) {
    const int before = g_interrupts;
    g_interrupts = before + 1;
    if (before == 0 && g_polled != 0) {
        g_first_signal = signal;
    } else {
        if (const char* const message = g_message; before == 0 && message != nullptr)
            static_cast<void>(!::write(STDERR_FILENO, message, std::strlen(message)));
        std::signal(signal, SIG_DFL);
        std::raise(signal);
    }
}

} // namespace

void watch_interrupts(const char* message) {
    g_message = message;
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool interrupted() {
    g_polled = 1;
    return g_interrupts > 0;
}

void leave_interrupts_to_another() { g_polled = 1; }

void forget_interrupts() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    g_interrupts = 0;
    g_polled = 0;
}

int stopped_status() { return 128 + g_first_signal; }

} // namespace hekla
