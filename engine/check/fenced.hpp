// A buffer followed by a guard page; a canary before it detects underruns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <sys/mman.h>
#include <unistd.h>

namespace hekla::check {

// A buffer that ends at a guard page, so that reading or writing the next byte crashes.
class Fenced {
public:
    explicit Fenced(std::size_t bytes) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        size_ = (bytes + page - 1) / page * page + 2 * page;
        void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return;
        begin_ = static_cast<std::byte*>(at);
        ::mprotect(begin_, page, PROT_NONE);
        ::mprotect(begin_ + size_ - page, page, PROT_NONE);
        data_ = begin_ + size_ - page - bytes;
        before_ = std::span(begin_ + page, data_);
    }
    Fenced(const Fenced&) = delete;
    Fenced& operator=(const Fenced&) = delete;
    ~Fenced() {
        if (begin_ != nullptr) ::munmap(begin_, size_);
    }
    std::byte* data() const { return data_; }
    // Returns whether the canary between the beginning of the page and data() was overwritten.
    bool touched_before() const {
        return std::ranges::any_of(before_, [](std::byte b) { return b != std::byte{0}; });
    }

private:
    std::byte* begin_ = nullptr;
    std::byte* data_ = nullptr;
    std::span<std::byte> before_;
    std::size_t size_ = 0;
};

} // namespace hekla::check
