// A memory resource for tests that counts, and aligns exactly as requested and no better.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace hekla::test {

class CountingResource final : public std::pmr::memory_resource {
public:
    std::size_t live() const { return live_; } // bytes
    std::size_t most = SIZE_MAX;               // bytes per allocation

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (bytes > most) throw std::bad_alloc();
        auto* memory =
            static_cast<std::byte*>(std::pmr::new_delete_resource()->allocate(bytes + alignment, 2 * alignment));
        live_ += bytes;
        return memory + alignment;
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
        live_ -= bytes;
        std::pmr::new_delete_resource()->deallocate(static_cast<std::byte*>(memory) - alignment, bytes + alignment,
                                                    2 * alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
    std::size_t live_ = 0;
};

} // namespace hekla::test
