// An array of numbers in memory of a std::pmr::memory_resource: tensors on the host. Without optimization of the
// standard library, a std::vector with an allocator of its own visits each element even to free them.
#pragma once

#include "base/resource_allocator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <utility>

namespace hekla {

// The number of elements is constant; all are zero at first. As with ResourceAllocator, a move also moves the resource,
// and a copy uses new and delete. The resource must outlive the array. Thread: as the resource.
template<class T>
class ResourceArray {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    using value_type = T;
    using size_type = std::size_t;
    using iterator = T*;
    using const_iterator = const T*;

    ResourceArray() = default;
    explicit ResourceArray(std::size_t size, const ResourceAllocator<T>& from = {}) : allocator_(from) {
        if (size == 0) return;
        data_ = allocator_.allocate(size); // throws std::bad_alloc
        size_ = size;
        std::memset(static_cast<void*>(data_), 0, size * sizeof(T));
    }
    ResourceArray(std::span<const T> content, const ResourceAllocator<T>& from = {})
        : ResourceArray(content.size(), from) {
        if (!content.empty()) std::memcpy(static_cast<void*>(data_), content.data(), content.size_bytes());
    }
    ResourceArray(const ResourceArray& other) : ResourceArray(std::span<const T>(other)) {}
    ResourceArray(ResourceArray&& other) noexcept { swap(other); }
    ResourceArray& operator=(ResourceArray other) noexcept {
        swap(other);
        return *this;
    }
    ~ResourceArray() {
        if (data_ != nullptr) allocator_.deallocate(data_, size_);
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    const T* begin() const { return data_; }
    T* end() { return data_ + size_; }
    const T* end() const { return data_ + size_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    bool operator==(const ResourceArray& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

private:
    void swap(ResourceArray& other) noexcept {
        std::swap(allocator_, other.allocator_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    ResourceAllocator<T> allocator_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace hekla
