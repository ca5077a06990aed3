// SHA-256 (FIPS 180-4), for file hashes that other tools compute too.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

std::string sha256_hex(std::string_view bytes); // 64 lower-case digits
bool is_sha256_hex(std::string_view text);      // whether a text has that form

} // namespace hekla
