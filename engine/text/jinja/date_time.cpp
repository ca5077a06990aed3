#include "text/jinja/date_time.hpp"

#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <optional>

namespace hekla::text::jinja {
namespace {

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

std::chrono::year_month_day day_of(const DateTime& when) {
    return std::chrono::year(when.year) / std::chrono::month(static_cast<unsigned>(when.month)) /
           std::chrono::day(static_cast<unsigned>(when.day));
}

std::string padded(int value, int width, char padding) {
    if (padding == '-') return fmt::format("{}", value);
    return padding == '_' ? fmt::format("{:{}}", value, width) : fmt::format("{:0{}}", value, width);
}

// flag: '-' for no padding, '_' for spaces, as in the C library; else zeros.
std::optional<std::string> directive(const DateTime& when, char name, char flag) {
    const std::chrono::sys_days days = day_of(when);
    const unsigned weekday = std::chrono::weekday(days).c_encoding(); // 0: Sunday
    const int day_of_year =
        static_cast<int>((days - std::chrono::sys_days(std::chrono::year(when.year) / 1 / 1)).count()) + 1;
    const std::string_view day = kDays[weekday], month = kMonths[when.month - 1];
    const int hour = when.hour % 12 == 0 ? 12 : when.hour % 12;
    switch (name) {
    case 'Y': return padded(when.year, 4, flag);
    case 'y': return padded(when.year % 100, 2, flag);
    case 'm': return padded(when.month, 2, flag);
    case 'd': return padded(when.day, 2, flag);
    case 'e': return padded(when.day, 2, flag == 0 ? '_' : flag);
    case 'j': return padded(day_of_year, 3, flag);
    case 'H': return padded(when.hour, 2, flag);
    case 'I': return padded(hour, 2, flag);
    case 'M': return padded(when.minute, 2, flag);
    case 'S': return padded(when.second, 2, flag);
    case 'p': return when.hour < 12 ? "AM" : "PM";
    case 'A': return std::string(day);
    case 'a': return std::string(day.substr(0, 3));
    case 'B': return std::string(month);
    case 'b':
    case 'h': return std::string(month.substr(0, 3));
    case 'w': return fmt::format("{}", weekday);
    case 'u': return fmt::format("{}", weekday == 0 ? 7 : weekday);
    case 'F': return fmt::format("{:04}-{:02}-{:02}", when.year, when.month, when.day);
    case 'D': return fmt::format("{:02}/{:02}/{:02}", when.month, when.day, when.year % 100);
    case 'T': return fmt::format("{:02}:{:02}:{:02}", when.hour, when.minute, when.second);
    case 'R': return fmt::format("{:02}:{:02}", when.hour, when.minute);
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    default: return {};
    }
}

std::optional<int> number_of(std::string_view digits) {
    int value = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9') return {};
        value = value * 10 + (c - '0');
    }
    return value;
}

} // namespace

DateTime DateTime::now() {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
#ifdef _WIN32
    localtime_s(&local, &seconds);
#else
    localtime_r(&seconds, &local);
#endif
    return {local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec};
}

Result<DateTime> DateTime::of_day(std::string_view date) {
    const bool shaped = date.size() == 10 && date[4] == '-' && date[7] == '-';
    const auto year = shaped ? number_of(date.substr(0, 4)) : std::nullopt,
               month = shaped ? number_of(date.substr(5, 2)) : std::nullopt,
               day = shaped ? number_of(date.substr(8, 2)) : std::nullopt;
    if (year && month && day) {
        const DateTime when{*year, *month, *day};
        if (*year >= 1 && day_of(when).ok()) return when;
    }
    return invalid_argument(fmt::format("'{}' is not a date; expected year, month and day, as in 2026-01-31", date));
}

Result<std::string> DateTime::formatted(std::string_view format) const {
    std::string text;
    for (std::size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%') {
            text += format[at];
            continue;
        }
        ++at;
        const char flag = at < format.size() && (format[at] == '-' || format[at] == '_') ? format[at++] : '\0';
        const std::optional<std::string> made =
            at < format.size() ? directive(*this, format[at], flag) : std::optional<std::string>();
        if (!made)
            return unsupported(
                fmt::format("strftime_now does not know '{}' in '{}'; it knows %Y %y %m %d %e %j %H %I %M "
                            "%S %p %A %a %B %b %w %u %F %D %T %R %%",
                            format.substr(at - (flag != 0 ? 2 : 1), flag != 0 ? 3 : 2), format));
        text += *made;
    }
    return text;
}

} // namespace hekla::text::jinja
