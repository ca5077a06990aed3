// A buffer followed by a guard page; a canary before it detects underruns.
#pragma once

#include "base/pages.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace hekla::check {

// A buffer that ends at a guard page, so that reading or writing the next byte crashes.
class Fenced {
public:
    explicit Fenced(std::size_t bytes) {
        const std::size_t page = page_size();
        size_ = (bytes + page - 1) / page * page + 2 * page;
        begin_ = reserve_pages(size_);
        if (begin_ == nullptr) return;
        forbid_pages(begin_, page);
        forbid_pages(begin_ + size_ - page, page);
        data_ = begin_ + size_ - page - bytes;
        before_ = std::span(begin_ + page, data_);
    }
    Fenced(const Fenced&) = delete;
    Fenced& operator=(const Fenced&) = delete;
    ~Fenced() {
        if (begin_ != nullptr) release_pages(begin_, size_);
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
