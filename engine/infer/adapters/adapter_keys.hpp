// Keys of adapters' configurations that Hekla does not read: those that would change what the adapter computes are
// refused, unless their value changes nothing.
#pragma once

#include "infer/adapters/adapter_folder.hpp"

#include <span>
#include <string_view>

namespace hekla::infer {

// Checks the keys of a configuration but those that are read. whose: the first column of adapter_keys.inc. A key that
// is not in it may change the computation as well, unless it is null, false, 0, "none" or empty. Errors: unsupported,
// with the file, the key, its value and what was expected.
Status check_unread_keys(std::string_view whose, const nlohmann::json& config, std::span<const std::string_view> read,
                         const std::string& file);

} // namespace hekla::infer
