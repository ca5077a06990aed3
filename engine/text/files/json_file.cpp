#include "text/files/json_file.hpp"

#include <fmt/format.h>
#include <limits>

namespace hekla::text {

Result<Json> read_json_object(const FilePlace& path) {
    HK_ASSIGN(const std::string content, path.read());
    return parse_json_object(content, path.string());
}

std::string json_quote(std::string_view text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<bool> json_bool(const Json& object, const char* key, bool otherwise, const std::string& name) {
    const auto at = object.find(key);
    if (at == object.end() || at->is_null()) return otherwise;
    if (!at->is_boolean())
        return corrupt(fmt::format("{}: \"{}\" is a {}, true or false was expected", name, key, at->type_name()));
    return at->get<bool>();
}

Result<std::string> json_string(const Json& object, const char* key, const std::string& otherwise,
                                const std::string& name) {
    const auto at = object.find(key);
    if (at == object.end() || at->is_null()) return otherwise;
    if (!at->is_string())
        return corrupt(fmt::format("{}: \"{}\" is a {}, a string was expected", name, key, at->type_name()));
    return at->get<std::string>();
}

Result<int32_t> json_token_id(const Json& value, const std::string& what, const std::string& name) {
    if (!value.is_number_integer())
        return corrupt(fmt::format("{}: the id of {} is a {}, an integer was expected", name, what, value.type_name()));
    // get<int64_t> of an unsigned value above 2^63 would wrap, so compare in the type that was parsed.
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= uint64_t{std::numeric_limits<int32_t>::max()}
                          : value.get<int64_t>() >= 0 && value.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return corrupt(fmt::format("{}: the id {} of {} is outside 0 to 2147483647", name, value.dump(), what));
    return static_cast<int32_t>(value.get<int64_t>());
}

} // namespace hekla::text
