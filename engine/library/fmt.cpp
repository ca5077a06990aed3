// fmt, compiled into libhekla, which must not depend on libfmt.so. Debian's libfmt-dev has no static library with
// linkable objects, so this file emits fmt's functions itself: in header-only mode a function is emitted where it is
// used, and use_fmt() uses those that the engine needs.
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
