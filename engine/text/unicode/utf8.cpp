#include "text/unicode/utf8.hpp"

#include <fmt/format.h>
#include <utility>

namespace hekla::text {

Status check_utf8(std::string_view text, const TextOrigin& origin) {
    const std::size_t at = find_invalid_utf8(text);
    if (at == text.size()) return {};
    return invalid_argument(
        fmt::format("{}: not valid UTF-8 (byte 0x{:02X}); convert the text to UTF-8, or leave it out",
                    describe_position(origin, text, at), static_cast<unsigned char>(text[at])));
}

CodePoint first_code_point(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
    const char32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    const auto rest = [&](std::size_t i) { return byte(i) & 0x3Fu; };
    if (first < 0xE0) return {(first & 0x1Fu) << 6 | rest(1), 2};
    if (first < 0xF0) return {(first & 0x0Fu) << 12 | rest(1) << 6 | rest(2), 3};
    return {(first & 0x07u) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3), 4};
}

std::size_t last_code_point_start(std::string_view text) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) --at;
    return at;
}

void append_code_point(std::string& text, char32_t value) {
    const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
    if (value < 0x80) {
        put(value);
    } else if (value < 0x800) {
        put(0xC0u | value >> 6);
        put(0x80u | (value & 0x3Fu));
    } else if (value < 0x10000) {
        put(0xE0u | value >> 12);
        put(0x80u | (value >> 6 & 0x3Fu));
        put(0x80u | (value & 0x3Fu));
    } else {
        put(0xF0u | value >> 18);
        put(0x80u | (value >> 12 & 0x3Fu));
        put(0x80u | (value >> 6 & 0x3Fu));
        put(0x80u | (value & 0x3Fu));
    }
}

bool is_white_space(char32_t value) {
    return (value >= 0x9 && value <= 0xD) || value == 0x20 || value == 0x85 || value == 0xA0 || value == 0x1680 ||
           (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029 || value == 0x202F ||
           value == 0x205F || value == 0x3000;
}

std::string Utf8Stream::push(std::string_view bytes) {
    held_.append(bytes);
    std::string out;
    std::string_view rest = held_;
    while (!rest.empty()) {
        const Utf8Sequence sequence = first_utf8_sequence(rest);
        if (sequence.state == Utf8Sequence::State::incomplete) break;
        out.append(sequence.state == Utf8Sequence::State::valid ? rest.substr(0, sequence.size) : kReplacement);
        rest.remove_prefix(sequence.size);
    }
    held_.erase(0, held_.size() - rest.size());
    return out;
}

std::string Utf8Stream::finish() {
    // The held bytes are one incomplete sequence, and so one maximal part.
    return std::exchange(held_, {}).empty() ? std::string() : std::string(kReplacement);
}

} // namespace hekla::text
