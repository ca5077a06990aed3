#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>

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

} // namespace hekla
