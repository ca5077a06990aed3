// Pages of memory, which can be made inaccessible.
#pragma once

#include <cstddef>

namespace hekla {

std::size_t page_size(); // bytes

// Reserves readable and writable memory of zeros, at the beginning of a page. Returns null if the system refuses it.
std::byte* reserve_pages(std::size_t bytes);
// Makes each access to the pages crash. `begin`: of a page; bytes: a multiple of page_size(). Returns false if the
// system refuses it.
bool forbid_pages(std::byte* begin, std::size_t bytes);
// bytes: those of reserve_pages().
void release_pages(std::byte* begin, std::size_t bytes);

} // namespace hekla
