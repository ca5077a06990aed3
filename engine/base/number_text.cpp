#include "base/number_text.hpp"

#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace hekla {

std::string size_text(uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (size >= 1024.0 && unit + 1 < std::size(kUnits)) {
        size /= 1024.0;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string grouped(double number) {
    const std::string digits = fmt::format("{:.0f}", std::abs(number));
    std::string result = number < 0.0 ? "-" : "";
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
        result += digits[i];
    }
    return result;
}

std::string short_number(double number) {
    constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E", " Z"};
    std::size_t unit = 0;
    for (; std::abs(number) >= 999.5 && unit + 1 < std::size(kUnits); ++unit) number /= 1000.0;
    return fmt::format("{:.3g}{}", number, kUnits[unit]);
}

std::string percent_text(double share, int digits) { return fmt::format("{:.{}f}%", 100.0 * share, digits); }

std::string duration_text(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0.0) return "?";
    if (seconds < 1.0) return fmt::format("{:.0f} ms", seconds * 1e3);
    if (seconds < 10.0) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
    if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
    return fmt::format("{}:{:02}", minutes, rest);
}

} // namespace hekla
