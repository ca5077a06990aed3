// Stop requests that long work polls.
#pragma once

#include "base/status.hpp"

#include <chrono>
#include <concepts>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hekla {

// A function that returns true when long work should end. Thread: one at a time; copies are independent.
class StopPoll {
public:
    StopPoll() = default; // never stops
    template<class F>
    requires(std::constructible_from<std::function<bool()>, F> && !std::same_as<std::remove_cvref_t<F>, StopPoll>)
        // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the requirement excludes copies
        StopPoll(F&& stop)
        : stop_(std::forward<F>(stop)) {} // implicit; an empty function never stops

    // Calls the function.
    bool stopped() const { return stop_ && stop_(); }
    // Calls the function. Returns Code::cancelled, "stopped while WORK", if it returned true.
    Status check_now(std::string_view work) const;
    // The same, but calls the function at most every 20 milliseconds: cheap enough for every row.
    Status check(std::string_view work) const;

private:
    std::function<bool()> stop_;
    mutable std::chrono::steady_clock::time_point next_{}; // the first check() always calls the function
};

} // namespace hekla
