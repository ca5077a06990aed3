// An allocator of a std::pmr::memory_resource, for tables that grow with a model: in the host's memory, where it gave
// some.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <type_traits>
#include <vector>

namespace hekla {

// std::pmr::polymorphic_allocator keeps a container in the resource that it was made with, so that moving one into
// another copies. Here the resource goes along with what is moved, and a copy lies in the process's own memory unless
// it is told otherwise. Bytes may hold numbers: all of it is aligned as operator new does it. The resource must outlive
// what was allocated. Thread: as the resource.
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
