#include "base/resource_array.hpp"
#include "counting_resource.hpp"

#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace hekla;

TEST_CASE("a vector of bytes can hold numbers, whatever its memory resource") {
    test::CountingResource memory;
    {
        const ResourceVector<std::byte> bytes(3, &memory);
        CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0);
        CHECK(memory.live() == 3);
    }
    CHECK(memory.live() == 0);
}

TEST_CASE("a moved object keeps its memory, a copy uses the default resource") {
    test::CountingResource memory;
    ResourceVector<int> other;
    {
        ResourceVector<int> numbers({1, 2, 3}, &memory);
        const ResourceVector<int> copy = numbers;
        CHECK(copy.get_allocator().resource == std::pmr::new_delete_resource());
        CHECK(memory.live() == 3 * sizeof(int));
        other = std::move(numbers);
    }
    CHECK(other == ResourceVector<int>{1, 2, 3});
    CHECK(memory.live() == 3 * sizeof(int));
    other = ResourceVector<int>();
    CHECK(memory.live() == 0);
}

TEST_CASE("an array of numbers is zero at first; moves keep its memory, copies use the default resource") {
    test::CountingResource memory;
    ResourceArray<int> other;
    CHECK(other.empty());
    {
        ResourceArray<int> numbers(3, &memory);
        CHECK(std::ranges::equal(numbers, std::vector{0, 0, 0}));
        numbers[1] = 5;
        const ResourceArray<int> copy = numbers;
        CHECK(copy == numbers);
        CHECK(memory.live() == 3 * sizeof(int));
        other = std::move(numbers);
        CHECK(copy == other);
    }
    CHECK(memory.live() == 3 * sizeof(int));
    other = ResourceArray<int>(std::span<const int>(other.data(), 2));
    CHECK(std::ranges::equal(other, std::vector{0, 5}));
    CHECK(memory.live() == 0);
}
