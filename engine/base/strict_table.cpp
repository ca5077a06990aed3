#include "base/strict_table.hpp"

#include "base/nearest_name.hpp"
#include "base/printable.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla {
namespace {

using nlohmann::json;

const json& no_table() {
    static const json& kNone = *new json(json::object());
    return kNone;
}

} // namespace

std::string shown_value(const json& value) {
    constexpr std::size_t kLongest = 60;
    if (value.is_number_float()) // JSON has no infinity
        return std::isfinite(value.get<double>()) ? value.dump() : fmt::format("{}", value.get<double>());
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() <= kLongest) return text;
    std::size_t size = kLongest;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0u) == 0x80u) --size; // whole characters
    return text.substr(0, size) + "...";
}

const std::string& TableReading::place(const json& value) const {
    const auto found = places_.find(&value);
    return found != places_.end() ? found->second : file_;
}

void TableReading::fail(const json& at, const std::string& what) {
    if (!status_.ok()) return;
    status_ = Status(code_, place(at).empty() ? what : fmt::format("{}: {}", place(at), what));
}

StrictTable::StrictTable(const json& value, TableReading& reading, std::string path, std::string title)
    : reading_(reading), value_(value.is_object() ? value : no_table()), path_(std::move(path)),
      title_(std::move(title)) {
    const bool is_absent = value.is_null() && reading_.null_is_absent;
    if (!value.is_object() && !is_absent) wrong(value, "", reading_.has_places() ? "a table" : "an object");
    // The lines of a text have its names in brackets.
    if (title_.empty()) title_ = reading_.has_places() ? fmt::format("[{}]", path_) : path_;
}

const json* StrictTable::find(std::string_view key) {
    if (std::ranges::find(known_, key) == known_.end()) known_.emplace_back(key);
    const auto found = value_.find(key);
    return found == value_.end() || (found->is_null() && reading_.null_is_absent) ? nullptr : &*found;
}

const json* StrictTable::require(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) refuse(fmt::format("the key '{}' is missing", key));
    return value;
}

bool StrictTable::take(const json& value, std::string_view key, std::string& out,
                       const std::vector<std::string>& choices) {
    if (!value.is_string()) return wrong(value, key, "a string");
    const auto& text = value.get_ref<const std::string&>();
    if (reading_.refuses_control_characters && has_control_characters(text))
        return fail(value, key, fmt::format("has a control character: \"{}\"", printable(text)));
    if (!choices.empty() && std::ranges::find(choices, text) == choices.end())
        return fail(
            value, key,
            fmt::format("'{}' is not one of {}{}", text, fmt::join(choices, ", "), did_you_mean(text, choices)));
    out = text;
    return true;
}

bool StrictTable::take(const json& value, std::string_view key, bool& out) {
    if (!value.is_boolean()) return wrong(value, key, "true or false");
    out = value.get<bool>();
    return true;
}

bool StrictTable::take(const json& value, std::string_view key, int64_t& out, const NumberRange& range) {
    if (!value.is_number_integer()) return wrong(value, key, "an integer");
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
        return wrong(value, key, "an integer below 2^63");
    double real = 0.0;
    if (!take(value, key, real, range)) return false;
    out = value.get<int64_t>();
    return true;
}

bool StrictTable::take(const json& value, std::string_view key, double& out, const NumberRange& range) {
    if (!value.is_number()) return wrong(value, key, "a number");
    const auto number = value.get<double>();
    const std::string shown = value.is_number_integer() ? value.dump() : fmt::format("{}", number);
    if (!std::isfinite(number)) return fail(value, key, fmt::format("{} is not a finite number", shown));
    if (number < range.low || number > range.high || (range.above && number == range.low))
        return fail(value, key,
                    std::isfinite(range.high) ? fmt::format("{} is outside {} to {}{}", shown, range.low, range.high,
                                                            range.above ? fmt::format(", without {}", range.low) : "")
                                              : fmt::format("{} is too small, expected {}", shown,
                                                            range.above ? fmt::format("more than {}", range.low)
                                                                        : fmt::format("{} or more", range.low)));
    out = number;
    return true;
}

bool StrictTable::take(const json& value, std::string_view key, std::vector<std::string>& out,
                       const std::vector<std::string>& choices) {
    if (!value.is_array()) return wrong(value, key, "an array of strings");
    out.clear();
    for (const json& one : value) {
        if (!one.is_string()) return wrong(one, key, "an array of strings");
        if (!take(one, key, out.emplace_back(), choices)) return false;
    }
    return true;
}

bool StrictTable::take(const json& value, std::string_view key, std::vector<int64_t>& out, const NumberRange& range) {
    if (!value.is_array()) return wrong(value, key, "an array of integers");
    out.clear();
    for (const json& one : value)
        if (!take(one, key, out.emplace_back(), range)) return false;
    return true;
}

bool StrictTable::fail(const json& at, std::string_view key, const std::string& what) {
    const std::string path = path_of(key);
    reading_.fail(at, path.empty() ? what : fmt::format("{}: {}", path, what));
    return false;
}

bool StrictTable::fail(std::string_view key, const std::string& what) {
    const auto found = value_.find(key);
    return fail(found == value_.end() ? value_ : *found, key, what);
}

bool StrictTable::wrong(const json& value, std::string_view key, const std::string& expected) {
    return fail(value, key, fmt::format("is {}, expected {}", shown_value(value), expected));
}

bool StrictTable::refuse(const std::string& what) { return fail(value_, "", what); }

void StrictTable::expect(std::initializer_list<const char*> keys) {
    for (const char* key : keys) find(key);
    finish();
}

const Status& StrictTable::finish() {
    if (reading_.refuses_unknown_keys)
        for (const std::string& key : unread()) refuse_key(key);
    return reading_.status();
}

void StrictTable::refuse_key(const std::string& key, const std::string& advice) {
    const std::string known = known_.empty() ? " (it has none)" : fmt::format(" (it has {})", fmt::join(known_, ", "));
    reading_.fail(value_.at(key), fmt::format("{} has no key '{}'{}", title_, key,
                                              advice.empty() ? did_you_mean(key, known_, known) : advice));
}

std::vector<std::string> StrictTable::unread() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : value_.items())
        if (std::ranges::find(known_, key) == known_.end()) keys.push_back(key);
    return keys;
}

std::string StrictTable::path_of(std::string_view key) const {
    return path_.empty() || key.empty() ? path_ + std::string(key) : fmt::format("{}.{}", path_, key);
}

std::string StrictTable::path_of(std::string_view key, std::size_t index) const {
    return reading_.has_places() ? path_of(key) : fmt::format("{}[{}]", path_of(key), index);
}

} // namespace hekla
