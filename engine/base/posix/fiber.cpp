#include "base/fiber.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace hekla {

namespace {

// The size of a thread's stack, because drivers compile on it. Untouched pages take no memory.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

} // namespace

struct Fiber::State {
    // Tells the sanitizers that the program is built with which stack it runs on; without them nothing. To be called
    // right before a switch, and first thing after it; inlined, because a function that was entered on one stack must
    // not return on the other.
    class SwitchNotes {
    public:
#ifdef __SANITIZE_THREAD__
        SwitchNotes() : fiber_(__tsan_create_fiber(0)) {}
        ~SwitchNotes() { __tsan_destroy_fiber(fiber_); }
#else
        SwitchNotes() = default;
        ~SwitchNotes() = default;
#endif
        SwitchNotes(const SwitchNotes&) = delete;
        SwitchNotes& operator=(const SwitchNotes&) = delete;

        [[gnu::always_inline]] void leave_thread([[maybe_unused]] const void* stack) {
#ifdef __SANITIZE_ADDRESS__
            __sanitizer_start_switch_fiber(&frames_outside_, stack, kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
            outside_ = __tsan_get_current_fiber();
            __tsan_switch_to_fiber(fiber_, 0);
#endif
        }
        [[gnu::always_inline]] void back_on_thread() {
#ifdef __SANITIZE_ADDRESS__
            __sanitizer_finish_switch_fiber(frames_outside_, nullptr, nullptr);
#endif
        }
        [[gnu::always_inline]] void leave_fiber([[maybe_unused]] bool for_ever) {
#ifdef __SANITIZE_ADDRESS__
            __sanitizer_start_switch_fiber(for_ever ? nullptr : &frames_here_, outside_stack_, outside_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
            __tsan_switch_to_fiber(outside_, 0);
#endif
        }
        [[gnu::always_inline]] void on_fiber() {
#ifdef __SANITIZE_ADDRESS__
            __sanitizer_finish_switch_fiber(frames_here_, &outside_stack_, &outside_bytes_);
#endif
        }

    private:
#ifdef __SANITIZE_ADDRESS__
        void *frames_here_ = nullptr, *frames_outside_ = nullptr;
        const void* outside_stack_ = nullptr;
        std::size_t outside_bytes_ = 0;
#endif
#ifdef __SANITIZE_THREAD__
        void *fiber_, *outside_ = nullptr;
#endif
    };

    std::function<void()> body;
    void* stack = MAP_FAILED;
    ucontext_t here{}, outside{};
    SwitchNotes notes;
    bool ended = false;

    ~State() {
        if (stack != MAP_FAILED) munmap(stack, kStackBytes);
    }
    // makecontext() can only pass ints.
    static void enter(unsigned high, unsigned low) {
        const auto address = (static_cast<uintptr_t>(high) << 16 << 16) | low;
        auto* state = reinterpret_cast<State*>(address); // NOLINT(performance-no-int-to-ptr)
        state->notes.on_fiber();
        state->body();
        state->ended = true;
        state->notes.leave_fiber(true);
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
    if (state_->ended) return;
    state_->notes.leave_thread(state_->stack);
    swapcontext(&state_->outside, &state_->here);
    state_->notes.back_on_thread();
}

void Fiber::pause() {
    state_->notes.leave_fiber(false);
    swapcontext(&state_->here, &state_->outside);
    state_->notes.on_fiber();
}

bool Fiber::ended() const { return state_->ended; }

} // namespace hekla
