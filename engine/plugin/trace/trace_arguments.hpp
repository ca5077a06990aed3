// Arguments and results of traced calls as JSON; text lines show the same.
#pragma once

#include "plugin/host/host_error.hpp"
#include "plugin/host/host_struct.hpp"

#include "hekla/plugin/graph.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hekla::plugin::trace {

using nlohmann::ordered_json;

// Prints on one line, replacing bytes that are not UTF-8.
std::string dumped(const ordered_json& value);
// Quotes and shortens a text.
std::string quoted_text(std::string_view s);
// Returns "HK_INVALID_ARGUMENT", or the number of an unknown code.
std::string code_text(int32_t code);

ordered_json json_of(std::string_view s);
ordered_json json_of(double v);
inline ordered_json json_of(hk_string s) { return json_of(view(s)); }
inline ordered_json json_of(int32_t v) { return v; }
inline ordered_json json_of(uint32_t v) { return v; }
inline ordered_json json_of(int64_t v) { return v; }
inline ordered_json json_of(uint64_t v) { return v; }
// Pointers are shown as null, since their values do not help a reader.
template<class T>
ordered_json json_of(T*) {
    return {};
}

template<class T>
ordered_json list_of(const T* values, uint64_t count) {
    if (values == nullptr) return {};
    constexpr uint64_t kShown = 16;
    ordered_json out = ordered_json::array();
    for (uint64_t i = 0; i < std::min(count, kShown); ++i) out.push_back(json_of(values[i]));
    if (count > kShown) out.push_back(fmt::format("... {} in all", count));
    return out;
}
ordered_json list_of(const hk_attribute* attributes, uint64_t count);

template<std::size_t I, class Tuple>
void add_argument(ordered_json& to, const std::vector<std::string_view>& names, const Tuple& arguments) {
    using T = std::tuple_element_t<I, Tuple>;
    const T& value = std::get<I>(arguments);
    const std::string name(I < names.size() ? names[I] : "?");
    if constexpr (std::is_pointer_v<T> && I + 1 < std::tuple_size_v<Tuple>) {
        using Next = std::tuple_element_t<I + 1, Tuple>;
        using Element = std::remove_const_t<std::remove_pointer_t<T>>;
        constexpr bool kCounted = std::is_same_v<Next, uint32_t> || std::is_same_v<Next, uint64_t>;
        constexpr bool kListed = std::is_same_v<Element, int64_t> || std::is_same_v<Element, hk_value> ||
                                 std::is_same_v<Element, hk_attribute>;
        if constexpr (kCounted && kListed && std::is_const_v<std::remove_pointer_t<T>>) {
            to[name] = list_of(value, std::get<I + 1>(arguments));
            return;
        }
    }
    if (ordered_json made = json_of(value); !made.is_null()) to[name] = std::move(made);
}

// Returns the arguments by the names of the parameters, which are separated by spaces.
template<class Tuple, std::size_t... I>
ordered_json arguments_of(std::string_view parameters, const Tuple& arguments, std::index_sequence<I...>) {
    std::vector<std::string_view> names;
    while (!parameters.empty()) {
        const std::size_t space = parameters.find(' ');
        names.push_back(parameters.substr(0, space));
        parameters.remove_prefix(space == std::string_view::npos ? parameters.size() : space + 1);
    }
    ordered_json out = ordered_json::object();
    (add_argument<I>(out, names, arguments), ...);
    return out;
}

} // namespace hekla::plugin::trace
