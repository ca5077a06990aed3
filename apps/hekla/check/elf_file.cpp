#include "check/elf_file.hpp"

#include "base/file.hpp"
#include "plugin/registry/processor.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <optional>

namespace hekla::check {
namespace {

// Structures of the file, copied out because they can be at any address.
class Bytes {
public:
    explicit Bytes(const std::string& all) : all_(all) {}
    template<class T>
    std::optional<T> at(uint64_t offset) const {
        if (offset > all_.size() || all_.size() - offset < sizeof(T)) return {};
        T value;
        std::memcpy(&value, all_.data() + offset, sizeof value);
        return value;
    }
    std::optional<std::string> text(uint64_t offset) const {
        if (offset >= all_.size()) return {};
        const std::size_t end = all_.find('\0', offset);
        if (end == std::string::npos) return {};
        return all_.substr(offset, end - offset);
    }

private:
    const std::string& all_;
};

Status damaged(const std::filesystem::path& file, const char* what) {
    return corrupt(fmt::format("{}: damaged: its {} is outside the file", file.string(), what));
}

} // namespace

Result<ElfFile> read_elf(const std::filesystem::path& file) {
    HK_ASSIGN(const std::string content, read_file(file));
    const Bytes bytes(content);
    const auto header = bytes.at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return invalid_argument(fmt::format("{}: is not an ELF file; expected a shared library", file.string()));
    if (const std::string other = plugin::other_processor(content); !other.empty())
        return unsupported(fmt::format("{}: was built for {}, and this process runs on {}", file.string(), other,
                                       plugin::own_processor()));
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN)
        return unsupported(fmt::format("{}: is not a 64-bit shared library (class {}, type {})", file.string(),
                                       header->e_ident[EI_CLASS], header->e_type));
    ElfFile elf;
    for (uint16_t i = 0; i < header->e_phnum; ++i) {
        const auto segment = bytes.at<Elf64_Phdr>(header->e_phoff + uint64_t{i} * header->e_phentsize);
        if (!segment) return damaged(file, "program header");
        if (segment->p_type == PT_GNU_STACK && (segment->p_flags & PF_X) != 0) elf.executable_stack = true;
    }
    std::vector<Elf64_Shdr> sections;
    for (uint16_t i = 0; i < header->e_shnum; ++i) {
        const auto section = bytes.at<Elf64_Shdr>(header->e_shoff + uint64_t{i} * header->e_shentsize);
        if (!section) return damaged(file, "section header");
        sections.push_back(*section);
    }
    bool symbols = false;
    for (const Elf64_Shdr& section : sections) {
        if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
        if (section.sh_link >= sections.size()) return damaged(file, "table of names");
        const uint64_t names = sections[section.sh_link].sh_offset;
        if (section.sh_type == SHT_DYNAMIC) {
            for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= section.sh_size; at += sizeof(Elf64_Dyn)) {
                const auto entry = bytes.at<Elf64_Dyn>(section.sh_offset + at);
                if (!entry) return damaged(file, "dynamic section");
                if (entry->d_tag == DT_NULL) break;
                if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0))
                    elf.text_relocations = true;
                if (entry->d_tag != DT_NEEDED) continue;
                const auto name = bytes.text(names + entry->d_un.d_val);
                if (!name) return damaged(file, "name of a library");
                elf.needed.push_back(*name);
            }
            continue;
        }
        symbols = true;
        for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
            const auto symbol = bytes.at<Elf64_Sym>(section.sh_offset + at);
            if (!symbol) return damaged(file, "table of symbols");
            const unsigned binding = ELF64_ST_BIND(symbol->st_info), visible = ELF64_ST_VISIBILITY(symbol->st_other);
            const bool defined = symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS; // SHN_ABS: version names
            if (!defined || binding == STB_LOCAL || (visible != STV_DEFAULT && visible != STV_PROTECTED)) continue;
            const auto name = bytes.text(names + symbol->st_name);
            if (!name) return damaged(file, "name of a symbol");
            elf.exports.push_back(*name);
        }
    }
    if (!symbols) return corrupt(fmt::format("{}: has no table of dynamic symbols", file.string()));
    std::ranges::sort(elf.exports);
    elf.exports.erase(std::unique(elf.exports.begin(), elf.exports.end()), elf.exports.end());
    return elf;
}

} // namespace hekla::check
