// What a shared library says of itself before it is loaded: ELF, as the System V ABI has it.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::check {

struct ElfFile {
    std::vector<std::string> exports; // names that others can bind to, sorted
    std::vector<std::string> needed;  // libraries that it is linked with
    bool text_relocations = false;    // the loader must write into its code
    bool executable_stack = false;
};

// Errors: no ELF shared library of this machine's kind, contents that point outside the file.
Result<ElfFile> read_elf(const std::filesystem::path& file);

} // namespace hekla::check
