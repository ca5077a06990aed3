#include "plugin/host/host_config.hpp"

#include "plugin/host/host_error.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// What cannot be noted for lack of memory does not change what the plugin reads: its instance is refused afterwards.
void note_read(const hk_config& config, hk_string key) noexcept {
    try {
        config.read.emplace(view(key));
    } catch (...) { config.unnoted = true; }
}

const char* type_of(const json& value) {
    if (value.is_number_float()) return "a number with a fraction";
    if (value.is_number()) return "a number";
    if (value.is_boolean()) return "true or false";
    if (value.is_string()) return "a text";
    if (value.is_array()) return "an array";
    if (value.is_object()) return "an object";
    return "null";
}

// Runs take(value) if the key exists and `fits`, and marks it as read.
template<class Fits, class Take>
int32_t get(const hk_config* config, hk_string key, hk_error* error, const char* expected, Fits fits, Take take) {
    note_read(*config, key);
    try {
        const json* value = find_value(*config, view(key));
        if (value == nullptr || value->is_null())
            return refuse(error, HK_NOT_FOUND,
                          fmt::format("config key '{}' is missing, expected {}", view(key), expected));
        if (!fits(*value))
            return refuse(error, HK_INVALID_ARGUMENT,
                          fmt::format("config key '{}' is {}, expected {}", view(key), type_of(*value), expected));
        take(*value);
        return HK_OK;
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

constexpr uint64_t kLongestArray = 1 << 20;

std::optional<std::size_t> index_from(std::string_view text) {
    std::size_t index = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), index);
    return problem == std::errc() && end == text.data() + text.size() ? std::optional(index) : std::nullopt;
}

WrittenValue& member_of(WrittenValue::Object& object, std::string_view key) {
    const auto found = std::ranges::find(object, key, &WrittenMember::key);
    return found != object.end() ? found->value : object.emplace_back(std::string(key), WrittenValue()).value;
}

// Returns where to write a key's value, creating intermediate objects. Null, with the error set, if that is not
// possible.
WrittenValue* place(hk_config_writer& writer, std::string_view key, hk_error* error) {
    WrittenValue* at = &writer.root;
    for (std::string_view path = key;;) {
        const std::size_t dot = path.find('.');
        const std::string_view head = path.substr(0, dot);
        if (auto* const array = std::get_if<WrittenValue::Array>(&at->value)) {
            const std::optional<std::size_t> index = index_from(head);
            if (!index || *index >= array->size()) {
                refuse(error, HK_INVALID_ARGUMENT,
                       fmt::format("'{}': '{}' is not an index of an array of {}", key, head, array->size()));
                return nullptr;
            }
            at = &(*array)[*index];
        } else {
            if (std::holds_alternative<std::monostate>(at->value) || std::holds_alternative<std::nullptr_t>(at->value))
                at->value = WrittenValue::Object();
            auto* const object = std::get_if<WrittenValue::Object>(&at->value);
            if (object == nullptr) {
                refuse(error, HK_INVALID_ARGUMENT, fmt::format("'{}' passes through a key that is not an object", key));
                return nullptr;
            }
            at = &member_of(*object, head);
        }
        if (dot == std::string_view::npos) return at;
        path.remove_prefix(dot + 1);
    }
}

template<class Stored, class Given>
int32_t set(hk_config_writer* writer, hk_string key, Given&& value, hk_error* error) {
    try {
        WrittenValue* at = place(*writer, view(key), error);
        if (at == nullptr) return HK_INVALID_ARGUMENT;
        at->value.template emplace<Stored>(std::forward<Given>(value));
        return HK_OK;
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

int32_t set_array(hk_config_writer* writer, hk_string key, uint64_t count, hk_error* error) {
    try {
        if (count > kLongestArray)
            return refuse(
                error, HK_INVALID_ARGUMENT,
                fmt::format("'{}': an array of {} elements, at most {} are possible", view(key), count, kLongestArray));
        return set<WrittenValue::Array>(writer, key, static_cast<std::size_t>(count), error);
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

// path: of the value, for the error.
Result<nlohmann::ordered_json> json_of(const WrittenValue& written, const std::string& path) {
    using nlohmann::ordered_json;
    const auto below = [&](std::string_view key) {
        return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
    };
    if (const auto* array = std::get_if<WrittenValue::Array>(&written.value)) {
        ordered_json all = ordered_json::array();
        for (std::size_t i = 0; i < array->size(); ++i) {
            HK_ASSIGN(ordered_json one, json_of((*array)[i], below(std::to_string(i))));
            all.push_back(std::move(one));
        }
        return all;
    }
    if (const auto* object = std::get_if<WrittenValue::Object>(&written.value)) {
        ordered_json all = ordered_json::object();
        for (const auto& [key, value] : *object) { HK_ASSIGN(all[key], json_of(value, below(key))); }
        return all;
    }
    if (const auto* value = std::get_if<bool>(&written.value)) return ordered_json(*value);
    if (const auto* value = std::get_if<int64_t>(&written.value)) return ordered_json(*value);
    if (const auto* value = std::get_if<double>(&written.value)) return ordered_json(*value);
    if (const auto* value = std::get_if<std::string>(&written.value)) return ordered_json(*value);
    if (std::holds_alternative<std::nullptr_t>(written.value)) return ordered_json(nullptr);
    return invalid_argument(fmt::format("'{}' is an element of an array and was not written", path));
}

} // namespace

const json* find_value(const hk_config& config, std::string_view path) {
    const json* at = &config.values;
    while (true) {
        if (at->is_object())
            if (const auto whole = at->find(path); whole != at->end()) return &*whole;
        const std::size_t dot = path.find('.');
        const std::string_view head = path.substr(0, dot);
        if (at->is_object()) {
            const auto found = at->find(head);
            if (found == at->end()) return nullptr;
            at = &*found;
        } else if (at->is_array()) {
            std::size_t index = 0;
            const auto [end, problem] = std::from_chars(head.data(), head.data() + head.size(), index);
            if (problem != std::errc() || end != head.data() + head.size() || index >= at->size()) return nullptr;
            at = &(*at)[index];
        } else {
            return nullptr;
        }
        if (dot == std::string_view::npos) return at;
        path.remove_prefix(dot + 1);
    }
}

const hk_config_interface* host_config_interface() {
    static const hk_config_interface kTable = {
        [](const hk_config* config, hk_string key) -> int32_t {
            note_read(*config, key);
            const json* value = find_value(*config, view(key));
            return value != nullptr && !value->is_null() ? 1 : 0;
        },
        [](const hk_config* config, hk_string key, int64_t* out, hk_error* error) {
            return get(
                config, key, error, "an integer", [](const json& v) { return v.is_number_integer(); },
                [&](const json& v) { *out = v.get<int64_t>(); });
        },
        [](const hk_config* config, hk_string key, double* out, hk_error* error) {
            return get(
                config, key, error, "a number", [](const json& v) { return v.is_number(); },
                [&](const json& v) { *out = v.get<double>(); });
        },
        [](const hk_config* config, hk_string key, int32_t* out, hk_error* error) {
            return get(
                config, key, error, "true or false", [](const json& v) { return v.is_boolean(); },
                [&](const json& v) { *out = v.get<bool>() ? 1 : 0; });
        },
        [](const hk_config* config, hk_string key, hk_string* out, hk_error* error) {
            return get(
                config, key, error, "a text", [](const json& v) { return v.is_string(); },
                [&](const json& v) {
                    const std::string& s = v.get_ref<const std::string&>();
                    *out = {s.data(), s.size()};
                });
        },
        [](const hk_config* config, hk_string key, uint64_t* out, hk_error* error) {
            return get(
                config, key, error, "an object or an array", [](const json& v) { return v.is_structured(); },
                [&](const json& v) { *out = v.size(); });
        },
        [](hk_config_writer* w, hk_string key, int64_t value, hk_error* e) { return set<int64_t>(w, key, value, e); },
        [](hk_config_writer* w, hk_string key, double value, hk_error* e) { return set<double>(w, key, value, e); },
        [](hk_config_writer* w, hk_string key, int32_t value, hk_error* e) { return set<bool>(w, key, value != 0, e); },
        [](hk_config_writer* w, hk_string key, hk_string value, hk_error* e) {
            return set<std::string>(w, key, view(value), e);
        },
        [](hk_config_writer* w, hk_string key, hk_error* e) { return set<std::nullptr_t>(w, key, nullptr, e); },
        set_array,
        [](const hk_config* config, hk_string key) -> int32_t {
            note_read(*config, key);
            const json* value = find_value(*config, view(key));
            return value != nullptr && value->is_null() ? 1 : 0;
        },
    };
    return &kTable;
}

Result<nlohmann::ordered_json> written_json(const hk_config_writer& writer) { return json_of(writer.root, ""); }

std::vector<std::string> unread_keys(const hk_config& config) {
    std::vector<std::string> unread;
    for (const auto& [key, value] : config.values.items()) {
        const std::string below = key + ".";
        const bool read = std::ranges::any_of(
            config.read, [&, &name = key](const std::string& path) { return path == name || path.starts_with(below); });
        if (!read) unread.push_back(key);
    }
    return unread;
}

} // namespace hekla::plugin
