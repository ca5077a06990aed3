// fmt, compiled into libhekla, because Debian packages only a shared library of it. With the headers alone a function is
// emitted where it is used, so this file uses the functions that the engine uses.
#define FMT_HEADER_ONLY
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace hekla::library {

std::string use_fmt(const void* p, double d, float f, long double l, std::string_view s);
std::string use_fmt(const void* p, double d, float f, long double l, std::string_view s) {
    std::string text = fmt::format("{} {:5.1f} {} {:e} {} {:>8} {} {:x} {} {} {}", p, d, f, d, l, s, true, 7U, 'c',
                                   -1LL, fmt::join(std::vector<int>{1, 2}, ", "));
    text += fmt::vformat(s, fmt::make_format_args(d));
    return text;
}

} // namespace hekla::library
