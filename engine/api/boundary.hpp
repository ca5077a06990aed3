// The C boundary: what every function of hekla.h begins and ends with.
#pragma once

#include "base/status.hpp"
#include "hekla/hekla.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::api {

inline std::string string_of(hk_string s) {
    return s.data != nullptr ? std::string(s.data, static_cast<std::size_t>(s.size)) : std::string();
}
inline hk_string view(std::string_view s) { return {s.data(), s.size()}; }
std::vector<std::string> texts(const hk_string* strings, uint64_t count);

// A time that a host gives, as long as a clock's arithmetic should meet.
inline std::chrono::nanoseconds nanoseconds_of(uint64_t nanoseconds) {
    constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000'000;
    return std::chrono::nanoseconds(static_cast<int64_t>(std::min(nanoseconds, kDay)));
}

// Fills `error` and gives the code back.
int32_t refuse(hk_error* error, int32_t code, std::string_view message) noexcept;

// Runs what a function of the API does; its Status, or whatever it throws, becomes the answer.
template<class F>
int32_t guarded(hk_error* error, F&& f) noexcept {
    try {
        const Status status = f();
        return status.ok() ? HK_OK : refuse(error, static_cast<int32_t>(status.code()), status.message());
    } catch (const std::bad_alloc&) {
        return refuse(error, HK_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& e) { return refuse(error, HK_INTERNAL, e.what()); } catch (...) {
        return refuse(error, HK_INTERNAL, "an exception of an unknown type");
    }
}

// A struct of the caller's must be at least as long as the functions here read.
template<class T>
Status complete(const T* options, const char* name) {
    if (options == nullptr) return invalid_argument(fmt::format("{} is null", name));
    if (options->struct_size < sizeof(T))
        return invalid_argument(fmt::format("{}.struct_size is {}, expected {}: set it to sizeof({})", name,
                                            options->struct_size, sizeof(T), name));
    return {};
}

} // namespace hekla::api
