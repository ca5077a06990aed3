// Base64 (RFC 4648), with padding.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hekla {

std::string base64(std::span<const std::byte> bytes);

} // namespace hekla
