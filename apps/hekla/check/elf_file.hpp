// Properties of a shared library, read from its ELF file without loading it (System V ABI).
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::check {

struct ElfFile {
    std::vector<std::string> exports; // exported symbols, sorted
    std::vector<std::string> needed;  // libraries that it links
    bool text_relocations = false;    // whether the loader must write to its code
    bool executable_stack = false;
};

// Errors: not an ELF shared library for this machine, offsets outside the file.
Result<ElfFile> read_elf(const std::filesystem::path& file);

} // namespace hekla::check
