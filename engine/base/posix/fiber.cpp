#include "base/fiber.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace hekla {

namespace {

// The size of a thread's stack, because drivers compile on it. Untouched pages take no memory.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

} // namespace

struct Fiber::State {
    std::function<void()> body;
    void* stack = MAP_FAILED;
    ucontext_t here{}, outside{};
    bool ended = false;

    ~State() {
        if (stack != MAP_FAILED) munmap(stack, kStackBytes);
    }
    // makecontext() can only pass ints.
    static void enter(unsigned high, unsigned low) {
        const auto address = (static_cast<uintptr_t>(high) << 16 << 16) | low;
        auto* state = reinterpret_cast<State*>(address); // NOLINT(performance-no-int-to-ptr)
        state->body();
        state->ended = true;
        swapcontext(&state->here, &state->outside); // never resumed again
    }
};

Fiber::Fiber(std::unique_ptr<State> state) : state_(std::move(state)) {}

Fiber::~Fiber() = default;

Result<std::unique_ptr<Fiber>> Fiber::create(std::function<void()> body) {
    auto state = std::make_unique<State>();
    state->body = std::move(body);
    state->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (state->stack == MAP_FAILED || mprotect(state->stack, page, PROT_NONE) != 0) // a guard page against overflows
        return out_of_memory(fmt::format("a stack of {} MiB: {}", kStackBytes >> 20, std::strerror(errno)));
    getcontext(&state->here);
    state->here.uc_stack.ss_sp = state->stack;
    state->here.uc_stack.ss_size = kStackBytes;
    const auto address = reinterpret_cast<uintptr_t>(state.get());
    makecontext(&state->here, reinterpret_cast<void (*)()>(&State::enter), 2,
                static_cast<unsigned>(address >> 16 >> 16), static_cast<unsigned>(address & 0xFFFFFFFFU));
    return std::unique_ptr<Fiber>(new Fiber(std::move(state)));
}

void Fiber::resume() {
    if (!state_->ended) swapcontext(&state_->outside, &state_->here);
}

void Fiber::pause() { swapcontext(&state_->here, &state_->outside); }

bool Fiber::ended() const { return state_->ended; }

} // namespace hekla
