// Serializes values as consecutive bytes, for row_store.hpp. Native byte order, because the same process writes and
// reads them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hekla::data {

template<class T>
requires std::is_trivially_copyable_v<T>
void pack(std::string& to, const T& value) { to.append(reinterpret_cast<const char*>(&value), sizeof value); }
inline void pack(std::string& to, std::string_view text) {
    pack(to, static_cast<uint64_t>(text.size()));
    to += text;
}
template<class T>
requires std::is_trivially_copyable_v<T>
void pack(std::string& to, const std::vector<T>& values) {
    pack(to, static_cast<uint64_t>(values.size()));
    to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Reads values written by pack(), in the same order, and removes them from the front of `from`.
template<class T>
requires std::is_trivially_copyable_v<T>
void unpack(std::string_view& from, T& value) {
    std::memcpy(&value, from.data(), sizeof value);
    from.remove_prefix(sizeof value);
}
inline void unpack(std::string_view& from, std::string& text) {
    uint64_t size = 0;
    unpack(from, size);
    text.assign(from.substr(0, size));
    from.remove_prefix(size);
}
template<class T>
requires std::is_trivially_copyable_v<T>
void unpack(std::string_view& from, std::vector<T>& values) {
    uint64_t size = 0;
    unpack(from, size);
    values.resize(size);
    if (size > 0) std::memcpy(values.data(), from.data(), size * sizeof(T));
    from.remove_prefix(size * sizeof(T));
}

} // namespace hekla::data
