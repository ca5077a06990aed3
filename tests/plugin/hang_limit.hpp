// The time limit of plugins that hang in tests: short, and longer where sanitizers make a process slow to start.
#pragma once

namespace hekla::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kHangLimit = 8;
inline constexpr const char* kHangText = "timed out after 8 s";
#else
inline constexpr double kHangLimit = 0.7;
inline constexpr const char* kHangText = "timed out after 0.7 s";
#endif

} // namespace hekla::test
