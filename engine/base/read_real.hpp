// std::from_chars for double, which libc++ only has since version 20.
#pragma once

#include <charconv>
#include <version>
#if !defined(__cpp_lib_to_chars)
#include <cerrno>
#include <locale.h>
#include <stdlib.h>
#include <string>
#include <string_view>
#endif

namespace hekla {

inline std::from_chars_result read_real(const char* begin, const char* end, double& value) {
#if defined(__cpp_lib_to_chars)
    return std::from_chars(begin, end, value);
#else
    // strtod accepts what from_chars refuses: leading space, a plus sign, hexadecimals.
    const char* const digits = begin != end && *begin == '-' ? begin + 1 : begin;
    const bool hexadecimal = end - digits > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (digits == end || *digits == ' ' || *digits == '+' || *digits == '-' || (*digits >= '\t' && *digits <= '\r'))
        return {begin, std::errc::invalid_argument};
    if (hexadecimal) { // only the leading 0
        value = *begin == '-' ? -0.0 : 0.0;
        return {digits + 1, std::errc()};
    }
    static const locale_t classic = ::newlocale(LC_ALL_MASK, "C", nullptr);
    constexpr std::string_view kOfNumbers = "0123456789+-.eEinfatyINFATY"; // "inf" and "nan" are numbers too
    const std::string_view all(begin, static_cast<std::size_t>(end - begin));
    const std::string text(all.substr(0, all.find_first_not_of(kOfNumbers)));
    char* stop = nullptr;
    errno = 0;
    const double read = ::strtod_l(text.c_str(), &stop, classic);
    if (stop == text.c_str()) return {begin, std::errc::invalid_argument};
    const char* const after = begin + (stop - text.c_str());
    if (errno == ERANGE && (read > 1.0 || read < -1.0)) return {after, std::errc::result_out_of_range};
    value = read;
    return {after, std::errc()};
#endif
}

} // namespace hekla
