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

// Best effort: a key that is not marked is only reported as unread in a warning.
void note_read(const hk_config& config, hk_string key) noexcept {
    try {
        config.read.emplace(view(key));
    } catch (...) {}
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
    try {
        note_read(*config, key);
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

// Returns where to write a key's value, creating intermediate objects. Null, with the error set, if that is not
// possible.
nlohmann::ordered_json* place(hk_config_writer& writer, std::string_view key, hk_error* error) {
    nlohmann::ordered_json* at = &writer.values;
    for (std::string_view path = key;;) {
        const std::size_t dot = path.find('.');
        const std::string_view head = path.substr(0, dot);
        if (at->is_array()) {
            const std::optional<std::size_t> index = index_from(head);
            if (!index || *index >= at->size()) {
                refuse(error, HK_INVALID_ARGUMENT,
                       fmt::format("'{}': '{}' is not an index of an array of {}", key, head, at->size()));
                return nullptr;
            }
            at = &(*at)[*index];
        } else if (at->is_object() || at->is_null() || at->is_discarded()) {
            if (!at->is_object()) *at = nlohmann::ordered_json::object();
            at = &(*at)[std::string(head)];
        } else {
            refuse(error, HK_INVALID_ARGUMENT, fmt::format("'{}' passes through a key that is not an object", key));
            return nullptr;
        }
        if (dot == std::string_view::npos) return at;
        path.remove_prefix(dot + 1);
    }
}

template<class T>
int32_t set(hk_config_writer* writer, hk_string key, T value, hk_error* error) {
    try {
        nlohmann::ordered_json* at = place(*writer, view(key), error);
        if (at == nullptr) return HK_INVALID_ARGUMENT;
        *at = std::move(value);
        return HK_OK;
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

int32_t set_array(hk_config_writer* writer, hk_string key, uint64_t count, hk_error* error) {
    try {
        if (count > kLongestArray)
            return refuse(
                error, HK_INVALID_ARGUMENT,
                fmt::format("'{}': an array of {} elements, at most {} are possible", view(key), count, kLongestArray));
        const nlohmann::ordered_json unwritten(nlohmann::ordered_json::value_t::discarded);
        return set(writer, key, nlohmann::ordered_json::array_t(static_cast<std::size_t>(count), unwritten), error);
    } catch (const std::exception& e) { return refuse_exception(error, e); }
}

std::string unwritten_key(const nlohmann::ordered_json& value) {
    if (!value.is_structured()) return {};
    for (const auto& [key, element] : value.items()) {
        if (element.is_discarded()) return key;
        if (const std::string below = unwritten_key(element); !below.empty()) return fmt::format("{}.{}", key, below);
    }
    return {};
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
        [](hk_config_writer* w, hk_string key, int64_t value, hk_error* e) { return set(w, key, value, e); },
        [](hk_config_writer* w, hk_string key, double value, hk_error* e) { return set(w, key, value, e); },
        [](hk_config_writer* w, hk_string key, int32_t value, hk_error* e) { return set(w, key, value != 0, e); },
        [](hk_config_writer* w, hk_string key, hk_string value, hk_error* e) { return set(w, key, view(value), e); },
        [](hk_config_writer* w, hk_string key, hk_error* e) { return set(w, key, nullptr, e); },
        set_array,
        [](const hk_config* config, hk_string key) -> int32_t {
            note_read(*config, key);
            const json* value = find_value(*config, view(key));
            return value != nullptr && value->is_null() ? 1 : 0;
        },
    };
    return &kTable;
}

Status check_complete(const hk_config_writer& writer) {
    const std::string key = unwritten_key(writer.values);
    return key.empty() ? Status()
                       : invalid_argument(fmt::format("'{}' is an element of an array and was not written", key));
}

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
