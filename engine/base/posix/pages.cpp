#include "base/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace hekla {

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::byte* reserve_pages(std::size_t bytes) {
    void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return begin != MAP_FAILED ? static_cast<std::byte*>(begin) : nullptr;
}

bool forbid_pages(std::byte* begin, std::size_t bytes) { return ::mprotect(begin, bytes, PROT_NONE) == 0; }

void release_pages(std::byte* begin, std::size_t bytes) { ::munmap(begin, bytes); }

} // namespace hekla
