// GPT-2's representation of bytes as printable characters, so that tokens fit into text files: the printable bytes of
// Latin-1 are themselves, the other 68 become U+0100, U+0101, ... in order (a space is "Ġ", a newline "Ċ").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hekla::text {

class ByteAlphabet {
public:
    ByteAlphabet();
    const std::string& letter(uint8_t byte) const { return letters_[byte]; }
    const std::array<std::string, 256>& letters() const { return letters_; } // by byte
    std::string spell(std::string_view bytes) const;
    // Returns the bytes of a valid UTF-8 token; nothing if it has a character outside the alphabet.
    std::optional<std::string> bytes(std::string_view token) const;
    // Returns all bytes in the order of their letters' code points: the order of ids 0 to 255 in GPT-2's vocabulary.
    std::array<uint8_t, 256> bytes_in_order() const;

private:
    std::array<std::string, 256> letters_;
    std::array<int16_t, 324> byte_of_; // code point -> byte, -1 if there is none
};

} // namespace hekla::text
