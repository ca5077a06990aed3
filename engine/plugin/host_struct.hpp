// Data structs across the ABI. The other side's may be shorter than ours, of an older version, or longer; what it says
// of itself is not believed blindly. [abi.5]
#pragma once

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

namespace hekla::plugin {

// The size of a struct when it was first released: none is shorter.
template<class T>
inline constexpr std::size_t kFirstSize = 0;
#define HK_FIRST_SIZE(type, size)                                                                                      \
    template<>                                                                                                         \
    inline constexpr std::size_t kFirstSize<type> = size;
#include "plugin/first_sizes.inc"
#undef HK_FIRST_SIZE

// A copy of a plugin's struct: members that it is too short for are zero. Nothing where it is null, or its struct_size
// cannot be.
template<class T>
std::optional<T> struct_of(const T* given) {
    static_assert(kFirstSize<T> > 0);
    if (given == nullptr || given->struct_size < kFirstSize<T> || given->struct_size % alignof(T) != 0) return {};
    T copy{};
    std::memcpy(&copy, given, std::min<std::size_t>(given->struct_size, sizeof(T)));
    return copy;
}

// Element i of a plugin's array: the first says how far it is from one to the next, and all are alike.
template<class T>
std::optional<T> struct_at(const T* first, std::size_t i) {
    if (!struct_of(first)) return {};
    const std::size_t step = first->struct_size;
    const auto* at = reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + step * i);
    return at->struct_size == step ? struct_of(at) : std::nullopt;
}

// Fills a plugin's struct as far as it goes; false where it is null, or its struct_size cannot be.
template<class T>
bool fill_struct(T* to, const T& from) {
    static_assert(kFirstSize<T> > 0);
    if (to == nullptr || to->struct_size < kFirstSize<T>) return false;
    const uint32_t room = to->struct_size;
    std::memcpy(to, &from, std::min<std::size_t>(room, sizeof(T)));
    to->struct_size = room;
    return true;
}

} // namespace hekla::plugin
