#include "data/example_rows.hpp"

#include "base/utf8.hpp"

#include <charconv>
#include <fmt/format.h>

namespace hekla::data {

std::optional<BadRow> check_line(const Line& line) {
    if (line.too_long) return BadRow{Defect::too_long, fmt::format("the line is longer than {} bytes", line.limit)};
    if (const std::size_t at = find_invalid_utf8(line.text); at < line.text.size())
        return BadRow{Defect::not_utf8, fmt::format("byte {} of the line (0x{:02X}) is not valid UTF-8", at + 1,
                                                    static_cast<unsigned char>(line.text[at]))};
    if (const std::size_t at = line.text.find('\0'); at != std::string_view::npos)
        return BadRow{Defect::nul_byte, fmt::format("byte {} of the line is NUL", at + 1)};
    return std::nullopt;
}

Status check_line_ends(const Line& line, const std::string& file) {
    if (line.number != 1 || !line.end.empty() || line.text.find('\r') == std::string_view::npos) return {};
    return corrupt(fmt::format("{}: its lines end in CR alone (\\r), as on old Macs; LF or CR LF was expected: convert "
                               "it, as `tr '\\r' '\\n'` does",
                               file));
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos; }

std::optional<std::size_t> column_number(std::string_view source) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(source.data(), source.data() + source.size(), number);
    if (error != std::errc() || end != source.data() + source.size() || number == 0) return std::nullopt;
    return number;
}

std::vector<std::string_view> split_tabs(std::string_view line) {
    std::vector<std::string_view> fields;
    for (std::size_t at = 0;;) {
        const std::size_t tab = line.find('\t', at);
        fields.push_back(line.substr(at, tab == std::string_view::npos ? tab : tab - at));
        if (tab == std::string_view::npos) return fields;
        at = tab + 1;
    }
}

BadRow too_long(std::string_view what, std::size_t max_bytes) {
    return {Defect::too_long, fmt::format("the {} is longer than {} bytes", what, max_bytes)};
}

} // namespace hekla::data
