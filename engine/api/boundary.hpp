// The C boundary: the entry and exit code of every hk_ function.
#pragma once

#include "base/host_state.hpp"
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

// Converts a host's timeout; at most a day, so that adding it to a clock does not overflow.
inline std::chrono::nanoseconds nanoseconds_of(uint64_t nanoseconds) {
    constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000'000;
    return std::chrono::nanoseconds(static_cast<int64_t>(std::min(nanoseconds, kDay)));
}

// Fills `error` and returns the code.
int32_t refuse(hk_error* error, int32_t code, std::string_view message) noexcept;

// Runs the body of an API function, with the engine's locale and floating-point environment, and converts its Status,
// or an exception, to a code and a message.
template<class F>
int32_t guarded(hk_error* error, F&& f) noexcept {
    const HostState host;
    try {
        const Status status = f();
        return status.ok() ? HK_OK : refuse(error, static_cast<int32_t>(status.code()), status.message());
    } catch (const std::bad_alloc&) {
        return refuse(error, HK_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& e) { return refuse(error, HK_INTERNAL, e.what()); } catch (...) {
        return refuse(error, HK_INTERNAL, "an exception of an unknown type");
    }
}

// Checks struct_size: it covers the members that this library knows, and is a multiple of `alignment` of at most a
// page. `input`: the host filled the struct in, so members that only a newer header has must be zero. Null is an error.
Status check_size(const void* given, std::size_t size, std::size_t alignment, bool input, const char* type);

// Checks the struct_size of a struct that the library fills in, or reads.
template<class T>
Status complete(const T* given, const char* type) {
    return check_size(given, sizeof(T), alignof(T), false, type);
}
template<class T>
Status complete_input(const T* given, const char* type) {
    return check_size(given, sizeof(T), alignof(T), true, type);
}

} // namespace hekla::api
