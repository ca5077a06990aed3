#include "base/markup.hpp"

namespace hekla {

std::string escape_markup(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        switch (c) {
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        case '\t':
        case '\n': result += c; break;
        default: result += byte < 0x20 || byte == 0x7f ? '?' : c;
        }
    }
    return result;
}

} // namespace hekla
