#include "base/base64.hpp"

#include <algorithm>

namespace hekla {

std::string base64(std::span<const std::byte> bytes) {
    constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
        unsigned word = 0;
        for (std::size_t j = 0; j < 3; ++j)
            word = word << 8 | (j < count ? std::to_integer<unsigned>(bytes[i + j]) : 0U);
        text += kDigits[word >> 18];
        text += kDigits[word >> 12 & 63U];
        text += count > 1 ? kDigits[word >> 6 & 63U] : '=';
        text += count > 2 ? kDigits[word & 63U] : '=';
    }
    return text;
}

} // namespace hekla
