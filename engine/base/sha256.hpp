// SHA-256 (FIPS 180-4): hashes that other tools make too, of files that builds write down.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

std::string sha256_hex(std::string_view bytes); // 64 lower-case digits

} // namespace hekla
