// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace hekla {

std::string size_text(uint64_t bytes);                  // "512 B", "3.2 MiB"
std::string duration_text(double seconds);              // "41 ms", "3.2 s", "1:20", "2:03:04"
std::string grouped(double number);                     // 18700 -> "18,700"
std::string short_number(double number);                // 18700 -> "18.7 k"
std::string percent_text(double share, int digits = 1); // 0.125 -> "12.5%"; digits: after the point

} // namespace hekla
