#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace hekla {

Utf8Sequence first_utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {Utf8Sequence::State::valid, 1};
    if (first < 0xC2 || first > 0xF4) return {Utf8Sequence::State::invalid, 1};
    const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
    const unsigned low = first == 0xE0 ? 0xA0u : first == 0xF0 ? 0x90u : 0x80u;
    const unsigned high = first == 0xED ? 0x9Fu : first == 0xF4 ? 0x8Fu : 0xBFu;
    for (std::size_t i = 1; i < size; ++i) {
        if (i >= text.size()) return {Utf8Sequence::State::incomplete, i};
        const unsigned next = byte(i);
        if (next < (i == 1 ? low : 0x80u) || next > (i == 1 ? high : 0xBFu)) return {Utf8Sequence::State::invalid, i};
    }
    return {Utf8Sequence::State::valid, size};
}

std::size_t find_invalid_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        while (at + 8 <= text.size()) { // skips runs of ASCII, eight bytes at a time
            uint64_t word;
            std::memcpy(&word, text.data() + at, 8);
            if (word & 0x8080808080808080u) break;
            at += 8;
        }
        if (at == text.size()) break;
        const Utf8Sequence sequence = first_utf8_sequence(text.substr(at));
        if (sequence.state != Utf8Sequence::State::valid) return at;
        at += sequence.size;
    }
    return at;
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

} // namespace hekla
