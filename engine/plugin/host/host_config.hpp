// The host's side of hekla.config/1: a JSON object read by dotted paths, with a mark on every key that was read.
#pragma once

#include "base/status.hpp"
#include "hekla/plugin/config.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

struct hk_config {
    nlohmann::json values = nlohmann::json::object();
    mutable std::set<std::string> read; // every path that was queried
};

// Elements of arrays that have not been written yet are "discarded" values.
struct hk_config_writer {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
};

namespace hekla::plugin {

const hk_config_interface* host_config_interface();

// Returns the value at a dotted path, or null. A key that itself contains dots is tried as a whole first. Does not
// allocate, so that an existing key is never reported as missing.
const nlohmann::json* find_value(const hk_config& config, std::string_view path);

// invalid_argument contains the first array element that was created but not written.
Status check_complete(const hk_config_writer& writer);

// Returns top-level keys of the config that were not read, neither themselves nor anything below them.
std::vector<std::string> unread_keys(const hk_config& config);

} // namespace hekla::plugin
