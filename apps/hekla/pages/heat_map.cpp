#include "pages/heat_map.hpp"

#include "base/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <string_view>

namespace hekla::app {
namespace {

constexpr std::size_t kLongest = 18; // letters of a column's label
constexpr std::size_t kLongestRow = 40;

// Every UTF-8 byte that is not a continuation byte starts a character.
bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }

std::size_t letters(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, begins_letter));
}

// Truncates a label.
std::string_view beginning(std::string_view label, std::size_t room) {
    for (std::size_t i = 0; i < label.size(); ++i)
        if (begins_letter(label[i]) && room-- == 0) return label.substr(0, i);
    return label;
}

} // namespace

std::string heat_map_svg(const HeatMap& map) {
    constexpr int kHeight = 24, kMiddle = kHeight / 2 + 4, kLetter = 8, kGap = 6;
    constexpr double kDark = 0.5; // from here on numbers are light
    const int width = map.numbers ? 2 * kHeight : kHeight;
    const auto room = [](const std::vector<std::string>& labels, std::size_t most) {
        std::size_t longest = 1;
        for (const std::string& label : labels) longest = std::max(longest, letters(beginning(label, most)));
        return static_cast<int>(longest) * kLetter + 2 * kGap;
    };
    const int left = room(map.rows, kLongestRow), top = room(map.columns, kLongest);
    const int columns = static_cast<int>(map.columns.size()), rows = static_cast<int>(map.rows.size());
    SvgWriter svg(left + columns * width + kGap, top + rows * kHeight + kGap, "monospace", 12, "class=\"alignment\"");
    for (int k = 0; k < columns; ++k)
        svg.text_upwards(left + k * width + width / 2 + 4, top - kGap,
                         beginning(map.columns[static_cast<std::size_t>(k)], kLongest), "fill=\"#222\"");
    for (int q = 0; q < rows; ++q) {
        const auto row = static_cast<std::size_t>(q);
        svg.text(left - kGap, top + q * kHeight + kMiddle, beginning(map.rows[row], kLongestRow),
                 "text-anchor=\"end\" fill=\"#222\"");
        for (int k = 0; k < columns; ++k) {
            const double value = map.values[row * map.columns.size() + static_cast<std::size_t>(k)];
            const double share = std::clamp(value, 0.0, 1.0), depth = map.root ? std::sqrt(share) : share;
            const auto shade = [&](int dark) { return static_cast<int>(std::lround(255 - (255 - dark) * depth)); };
            svg.rect(
                left + k * width, top + q * kHeight, width, kHeight,
                fmt::format("fill=\"#{:02x}{:02x}{:02x}\" stroke=\"#e4e4e4\"", shade(0x08), shade(0x40), shade(0x5c)),
                fmt::format("{:.3f}", value));
            if (map.numbers)
                svg.text(left + k * width + width / 2, top + q * kHeight + kMiddle, fmt::format("{:.2f}", value),
                         fmt::format("text-anchor=\"middle\" pointer-events=\"none\" fill=\"{}\"",
                                     depth > kDark ? "#fff" : "#222"));
        }
    }
    return std::move(svg).finish();
}

} // namespace hekla::app
