#include "text/files/base64.hpp"

#include <cstdint>

namespace hekla::text {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

} // namespace

std::string to_base64(std::string_view bytes) {
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
        for (std::size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kBase64[group >> (18 - 6 * i) & 63u];
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string out;
    uint32_t group = 0;
    unsigned bits = 0;
    while (text.ends_with('=')) text.remove_suffix(1);
    for (const char c : text) {
        const std::size_t value = kBase64.find(c);
        if (value == std::string_view::npos) return std::nullopt;
        group = group << 6 | static_cast<uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out.push_back(static_cast<char>(static_cast<unsigned char>(group >> bits & 0xFFu)));
    }
    return out;
}

} // namespace hekla::text
