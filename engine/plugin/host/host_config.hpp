// The host's side of hekla.config/1: a JSON object read by dotted paths, with a mark on every key that was read.
#pragma once

#include "base/status.hpp"
#include "hekla/plugin/config.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct hk_config {
    nlohmann::json values = nlohmann::json::object();
    mutable std::set<std::string> read; // every path that was queried
    mutable bool unnoted = false;       // a path is missing in read: no memory was left for it
};

namespace hekla::plugin {

struct WrittenMember;

// A value that a plugin writes. Unlike that of JSON, its destructor allocates nothing, so that a plugin may run out of
// memory while it writes.
struct WrittenValue {
    using Array = std::vector<WrittenValue>;
    using Object = std::vector<WrittenMember>; // in the order in which they were written first
    // monostate: an element of an array that has not been written yet.
    std::variant<std::monostate, std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value;
};
struct WrittenMember {
    std::string key;
    WrittenValue value;
};

} // namespace hekla::plugin

struct hk_config_writer {
    hekla::plugin::WrittenValue root{hekla::plugin::WrittenValue::Object()};
};

namespace hekla::plugin {

const hk_config_interface* host_config_interface();

// Returns the value at a dotted path, or null. A key that itself contains dots is tried as a whole first. Does not
// allocate, so that an existing key is never reported as missing.
const nlohmann::json* find_value(const hk_config& config, std::string_view path);

// Returns what was written, an object. invalid_argument contains the first array element that was created but not
// written.
Result<nlohmann::ordered_json> written_json(const hk_config_writer& writer);

// Returns top-level keys of the config that were not read, neither themselves nor anything below them.
std::vector<std::string> unread_keys(const hk_config& config);

} // namespace hekla::plugin
