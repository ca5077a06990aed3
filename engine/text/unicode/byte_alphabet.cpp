#include "text/unicode/byte_alphabet.hpp"

#include "base/utf8.hpp"

namespace hekla::text {

ByteAlphabet::ByteAlphabet() {
    byte_of_.fill(-1);
    char32_t moved = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        const char32_t letter = printable ? byte : moved++;
        append_code_point(letters_[byte], letter);
        byte_of_[letter] = static_cast<int16_t>(byte);
    }
}

std::string ByteAlphabet::spell(std::string_view bytes) const {
    std::string out;
    for (const char byte : bytes) out += letters_[static_cast<unsigned char>(byte)];
    return out;
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view token) const {
    std::string out;
    while (!token.empty()) {
        const CodePoint letter = first_code_point(token);
        if (letter.value >= byte_of_.size() || byte_of_[letter.value] < 0) return std::nullopt;
        out.push_back(static_cast<char>(static_cast<unsigned char>(byte_of_[letter.value])));
        token.remove_prefix(letter.size);
    }
    return out;
}

std::array<uint8_t, 256> ByteAlphabet::bytes_in_order() const {
    std::array<uint8_t, 256> order{};
    std::size_t next = 0;
    for (const int16_t byte : byte_of_)
        if (byte >= 0) order[next++] = static_cast<uint8_t>(byte);
    return order;
}

} // namespace hekla::text
