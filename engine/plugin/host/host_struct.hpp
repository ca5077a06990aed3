// Data structs across the ABI. A struct of the other side may be shorter than ours (an older version) or longer; its
// struct_size is checked. [abi.5]
#pragma once

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
#include "hekla/plugin/optimizer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>

namespace hekla::plugin {

// Size of a struct in its first release, in bytes. No valid struct is smaller.
template<class T>
inline constexpr std::size_t kFirstSize = 0;
#define HK_FIRST_SIZE(type, size)                                                                                      \
    template<>                                                                                                         \
    inline constexpr std::size_t kFirstSize<type> = size;
#include "plugin/host/first_sizes.inc"
#undef HK_FIRST_SIZE

// Returns a copy of a plugin's struct, with zeros for members that it does not have; nothing if it is null or its
// struct_size is invalid.
template<class T>
std::optional<T> struct_of(const T* given) {
    static_assert(kFirstSize<T> > 0);
    if (given == nullptr || given->struct_size < kFirstSize<T> || given->struct_size % alignof(T) != 0) return {};
    T copy{};
    std::memcpy(&copy, given, std::min<std::size_t>(given->struct_size, sizeof(T)));
    return copy;
}

// Returns element i of a plugin's array. struct_size of the first element is the distance between elements; all must
// have the same.
template<class T>
std::optional<T> struct_at(const T* first, std::size_t i) {
    if (!struct_of(first)) return {};
    const std::size_t step = first->struct_size;
    const auto* at = reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + step * i);
    return at->struct_size == step ? struct_of(at) : std::nullopt;
}

// Fills a plugin's struct up to its struct_size; false if it is null or its struct_size is invalid.
template<class T>
bool fill_struct(T* to, const T& from) {
    static_assert(kFirstSize<T> > 0);
    if (to == nullptr || to->struct_size < kFirstSize<T>) return false;
    const uint32_t room = to->struct_size;
    std::memcpy(to, &from, std::min<std::size_t>(room, sizeof(T)));
    to->struct_size = room;
    return true;
}

// The message for a struct that fill_struct() refuses. what: "an example".
template<class T>
std::string unfilled_text(const T* to, std::string_view what) {
    return fmt::format("{} to be filled has struct_size {}, expected {} or more", what,
                       to == nullptr ? 0 : to->struct_size, kFirstSize<T>);
}

} // namespace hekla::plugin
