// An allocator over a std::pmr::memory_resource, for tables that grow with a model: the host's allocator, if it gave
// one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <vector>

namespace hekla {

// Unlike std::pmr::polymorphic_allocator, for which moving between containers of different resources copies, a move
// also moves the resource, and a copy uses new and delete unless a resource is given. Every allocation is aligned as by
// operator new, because tables of bytes contain numbers. The resource must outlive the allocations. Thread: as the
// resource.
template<class T>
struct ResourceAllocator {
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    ResourceAllocator() = default;
    ResourceAllocator(std::pmr::memory_resource* from) : resource(from) {}
    template<class U>
    ResourceAllocator(const ResourceAllocator<U>& other) : resource(other.resource) {}

    T* allocate(std::size_t count) {
        return static_cast<T*>(resource->allocate(count * sizeof(T), kAlignment)); // throws std::bad_alloc
    }
    void deallocate(T* memory, std::size_t count) { resource->deallocate(memory, count * sizeof(T), kAlignment); }
    ResourceAllocator select_on_container_copy_construction() const { return {}; }
    bool operator==(const ResourceAllocator& other) const { return *resource == *other.resource; }

    static constexpr std::size_t kAlignment = std::max(alignof(T), alignof(std::max_align_t));
    std::pmr::memory_resource* resource = std::pmr::new_delete_resource();
};

template<class T>
using ResourceVector = std::vector<T, ResourceAllocator<T>>;

} // namespace hekla
