// Callbacks of a host that can be replaced while they run, for hosts that hot-reload their code.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace hekla::api {

// A replaceable T, which is a struct of function pointers and their user pointers. Thread: any.
template<class T>
class Replaceable {
public:
    explicit Replaceable(const T& functions = {}) : functions_(functions) {}

    // Calls f(functions) without holding a lock.
    template<class F>
    decltype(auto) call(F&& f) {
        const Running running(*this);
        return std::forward<F>(f)(running.functions());
    }
    T get() const {
        const std::lock_guard guard(mutex_);
        return functions_;
    }
    // Replaces the functions and waits until no old one runs any more. Must not be called from one of them.
    void replace(const T& functions) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_[1 - side_] == 0; }); // another replace() ends first
        functions_ = functions;
        const std::size_t old = side_;
        side_ = 1 - side_;
        changed_.wait(lock, [&] { return running_[old] == 0; });
    }

private:
    class Running {
    public:
        explicit Running(Replaceable& of) : of_(of) {
            const std::lock_guard guard(of.mutex_);
            functions_ = of.functions_;
            side_ = of.side_;
            ++of.running_[side_];
        }
        ~Running() {
            {
                const std::lock_guard guard(of_.mutex_);
                if (--of_.running_[side_] > 0) return;
            }
            of_.changed_.notify_all();
        }
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;
        const T& functions() const { return functions_; }

    private:
        Replaceable& of_;
        T functions_{};
        std::size_t side_ = 0;
    };
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    T functions_;
    std::size_t side_ = 0;
    std::array<uint64_t, 2> running_{}; // number of running calls of the functions before and after the last replace()
};

} // namespace hekla::api
