#include "plugin/registry/processor.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <elf.h>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace hekla::plugin {
namespace {

constexpr uint8_t kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
#if defined(__x86_64__)
constexpr uint16_t kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kOwnMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t kOwnMachine = EM_RISCV;
#else
constexpr uint16_t kOwnMachine = EM_NONE; // unknown: libraries are not compared
#endif

struct Processor {
    uint16_t machine;
    uint8_t bits; // as ELFCLASS64
    const char* name;
};
constexpr Processor kProcessors[] = {
    {EM_X86_64, ELFCLASS64, "x86-64"},   {EM_386, ELFCLASS32, "x86 (32 bits)"},
    {EM_AARCH64, ELFCLASS64, "AArch64"}, {EM_ARM, ELFCLASS32, "Arm (32 bits)"},
    {EM_RISCV, ELFCLASS64, "RISC-V"},    {EM_RISCV, ELFCLASS32, "RISC-V (32 bits)"},
    {EM_PPC64, ELFCLASS64, "PowerPC64"}, {EM_S390, ELFCLASS64, "s390x"},
};

std::string name_of(uint16_t machine, uint8_t bits) {
    const auto* const known = std::ranges::find_if(
        kProcessors, [&](const Processor& one) { return one.machine == machine && one.bits == bits; });
    if (known != std::end(kProcessors)) return known->name;
    return fmt::format("processor {} of the ELF format ({} bits)", machine, bits == ELFCLASS64 ? 64 : 32);
}

} // namespace

std::string own_processor() { return name_of(kOwnMachine, kOwnClass); }

std::string other_processor(std::string_view header) {
    if (kOwnMachine == EM_NONE || header.size() < kElfHeaderSize || !header.starts_with(ELFMAG)) return {};
    const auto byte = [&](std::size_t at) { return static_cast<uint8_t>(header[at]); };
    const bool big = byte(EI_DATA) == ELFDATA2MSB;
    constexpr std::size_t kMachine = 18; // e_machine, in both classes
    const auto machine = static_cast<uint16_t>(byte(kMachine + (big ? 1 : 0)) | byte(kMachine + (big ? 0 : 1)) << 8);
    return machine == kOwnMachine && byte(EI_CLASS) == kOwnClass ? std::string() : name_of(machine, byte(EI_CLASS));
}

} // namespace hekla::plugin
