// What is made once and then only read, side by side in memory of a resource: texts, and tables of plain data.
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

// All of it is given back at once, when this goes. Moved, what it gave stays where it is. Throws std::bad_alloc.
// Thread: one at a time.
class ReadOnlyArena {
public:
    explicit ReadOnlyArena(std::pmr::memory_resource* from = std::pmr::new_delete_resource())
        : memory_(std::make_unique<std::pmr::monotonic_buffer_resource>(from)) {}

    // Copies that live as long as this. Empty: nothing is taken.
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
    std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_; // behind a pointer: it cannot be moved
};

// Keeps texts that come again and again once. It may go before what it kept.
class StringInterner {
public:
    explicit StringInterner(ReadOnlyArena& kept) : kept_(kept) {}

    std::string_view text(std::string_view text) {
        const auto known = texts_.find(text);
        return known != texts_.end() ? *known : *texts_.insert(kept_.text(text)).first;
    }
    template<class T>
    std::span<const T> list(const std::vector<T>& values) {
        return kept_.list(values);
    }

private:
    ReadOnlyArena& kept_;
    std::unordered_set<std::string_view> texts_;
};

} // namespace hekla
