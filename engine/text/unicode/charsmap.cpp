#include "text/unicode/charsmap.hpp"

#include "base/utf8.hpp"

#include <cstring>

namespace hekla::text {
namespace {

// Accessors of a unit of the double array.
bool is_value(uint32_t unit) { return unit >> 31 != 0; }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::size_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFu; }
std::size_t offset_of(uint32_t unit) { return std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

// Returns the size of the array in bytes, or 0 if it is invalid.
std::size_t array_bytes(std::string_view compiled) {
    uint32_t size = 0;
    if (compiled.size() < sizeof size) return 0;
    std::memcpy(&size, compiled.data(), sizeof size);
    return size % 4 == 0 && size < compiled.size() - sizeof size ? size : 0;
}

} // namespace

bool Charsmap::is_sound(std::string_view compiled) {
    if (compiled.empty()) return true;
    const std::size_t size = array_bytes(compiled);
    if (size == 0) return false;
    std::vector<uint32_t> units(size / 4);
    std::memcpy(units.data(), compiled.data() + 4, size);
    const std::string_view replacements = compiled.substr(4 + size);
    if (replacements.back() != '\0' || find_invalid_utf8(replacements) != replacements.size()) return false;
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (is_value(units[i])) continue;
        const std::size_t node = i ^ offset_of(units[i]);
        if ((node | 0xFF) >= units.size()) return false;
        if (!has_value(units[i])) continue;
        const std::size_t value = value_of(units[node]);
        if (value >= replacements.size() || (static_cast<unsigned char>(replacements[value]) & 0xC0u) == 0x80u)
            return false;
    }
    return true;
}

Charsmap::Charsmap(std::string_view sound) {
    const std::size_t size = array_bytes(sound);
    if (size == 0) return;
    units_.resize(size / 4);
    std::memcpy(units_.data(), sound.data() + 4, size);
    replacements_ = sound.substr(4 + size);
}

std::optional<std::string_view> Charsmap::shortest(std::string_view text) const {
    if (units_.empty()) return std::nullopt;
    std::size_t node = offset_of(units_[0]);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        node ^= byte;
        const uint32_t unit = units_[node];
        if (byte == 0 || label_of(unit) != byte) return std::nullopt;
        node ^= offset_of(unit);
        if (has_value(unit)) return replacements_.c_str() + value_of(units_[node]);
    }
    return std::nullopt;
}

void Charsmap::apply(std::string_view text, std::string& out, std::vector<ByteRange>& origins) const {
    for (std::size_t at = 0; at < text.size();) {
        std::size_t length = 0, value = 0;
        if (!units_.empty()) {
            std::size_t node = offset_of(units_[0]);
            for (std::size_t i = at; i < text.size(); ++i) {
                const auto byte = static_cast<unsigned char>(text[i]);
                node ^= byte;
                const uint32_t unit = units_[node];
                if (byte == 0 || label_of(unit) != byte) break;
                node ^= offset_of(unit);
                if (!has_value(unit)) continue;
                length = i + 1 - at;
                value = value_of(units_[node]);
            }
        }
        if (length > 0) {
            out += replacements_.c_str() + value;
        } else {
            length = first_code_point(text.substr(at)).size;
            out += text.substr(at, length);
        }
        origins.resize(out.size(), {at, at + length});
        at += length;
    }
}

} // namespace hekla::text
