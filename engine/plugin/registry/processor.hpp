// The processors that libraries are built for, as their ELF headers name them (System V ABI).
#pragma once

#include <string>
#include <string_view>

namespace hekla::plugin {

// The number of bytes at the beginning of a library that other_processor() needs.
inline constexpr std::size_t kElfHeaderSize = 20;

// Returns the name of the processor that this process runs on: "x86-64".
std::string own_processor();

// Returns the name of the processor that a library was built for: "AArch64". Empty if it is own_processor(), or if the
// header is not of an ELF file.
std::string other_processor(std::string_view header);

} // namespace hekla::plugin
