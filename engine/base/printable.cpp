#include "base/printable.hpp"

#include <fmt/format.h>

namespace hekla {
namespace {

// Returns the bytes of the control character that the text begins with; 0: it begins with another, or one that is kept.
std::size_t control_size(std::string_view text) {
    if (text[0] == '\n' || text[0] == '\t') return 0;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
    return text.size() > 1 && byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0 ? 2 : 0;
}

} // namespace

std::string printable(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const std::size_t control = control_size(text);
        if (control > 0)
            shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[control - 1]));
        else
            shown += text[0];
        text.remove_prefix(control > 0 ? control : 1);
    }
    return shown;
}

bool has_control_characters(std::string_view text) {
    for (; !text.empty(); text.remove_prefix(1))
        if (control_size(text) > 0) return true;
    return false;
}

} // namespace hekla
