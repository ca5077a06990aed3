// An arena for texts and tables of plain data that are built once and then only read.
#pragma once

#include <algorithm>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace hekla {

// An arena in the memory of a resource, freed at once when it is destroyed. Moving it keeps the addresses of its
// content. Throws std::bad_alloc. Thread: one at a time.
class ReadOnlyArena {
public:
    explicit ReadOnlyArena(std::pmr::memory_resource* from = std::pmr::new_delete_resource())
        : memory_(std::make_unique<std::pmr::monotonic_buffer_resource>(from)) {}

    // Return copies that live as long as the arena; empty for an empty text or list.
    std::string_view text(std::string_view text) {
        const std::span<const char> copy = list(std::span<const char>(text));
        return {copy.data(), copy.size()};
    }
    template<class T>
    std::span<const T> list(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
        if (values.empty()) return {};
        T* copy = static_cast<T*>(memory_->allocate(values.size_bytes(), alignof(T)));
        std::uninitialized_copy(values.begin(), values.end(), copy);
        return {copy, values.size()};
    }
    template<class T>
    std::span<const T> list(const std::vector<T>& values) {
        return list(std::span<const T>(values));
    }

private:
    std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_; // a pointer because the resource cannot be moved
};

// A table that stores equal texts once, in an arena. The texts outlive the table.
class StringInterner {
public:
    explicit StringInterner(ReadOnlyArena& arena) : arena_(arena) {}

    std::string_view text(std::string_view text) {
        const auto known = texts_.find(text);
        return known != texts_.end() ? *known : *texts_.insert(arena_.text(text)).first;
    }
    template<class T>
    std::span<const T> list(const std::vector<T>& values) {
        return arena_.list(values);
    }

private:
    ReadOnlyArena& arena_;
    std::unordered_set<std::string_view> texts_;
};

} // namespace hekla
