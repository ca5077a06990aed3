// Filters, tests, methods and operators of templates: functions of values.
#pragma once

#include "base/status.hpp"
#include "text/jinja/value.hpp"

#include <string>
#include <string_view>

namespace hekla::text::jinja {

inline constexpr std::size_t kTextLimit = std::size_t{16} << 20; // bytes of any text
inline constexpr std::size_t kListLimit = 100'000;               // items of any list

// The arguments of a call.
struct Arguments {
    List values;
    Dict named;

    // Returns an argument by position or name; null if it was not given.
    const Value* get(std::size_t position, std::string_view name) const;
};

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments);
Result<Value> call_method(const Value& value, std::string_view name, const Arguments& arguments);
// Arithmetic, "~", "in", "not in" and comparisons.
Result<Value> apply_binary(std::string_view name, const Value& left, const Value& right);
// Returns object.name or object["name"]; undefined if it has none. Error: an undefined object.
Result<Value> attribute_of(const Value& object, std::string_view name);
Result<Value> item_of(const Value& object, const Value& index);
// Bounds are undefined where they are absent.
Result<Value> slice_of(const Value& object, const Value& begin, const Value& end, const Value& step);
// Returns what a loop iterates over: items, keys or characters. Undefined has none.
Result<List> items_of(const Value& value);

} // namespace hekla::text::jinja
