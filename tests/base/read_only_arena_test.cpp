#include "base/read_only_arena.hpp"
#include "counting_resource.hpp"

#include <cstdint>
#include <doctest/doctest.h>
#include <string>

using namespace hekla;

TEST_CASE("read-only arena: texts and lists use the memory of a resource, and move with the arena") {
    test::CountingResource memory;
    {
        ReadOnlyArena kept(&memory);
        CHECK(kept.text("").empty());
        CHECK(kept.list(std::vector<int>()).empty());
        CHECK(memory.live() == 0);
        std::string text(5000, 'x');
        std::vector<double> numbers{1.5, -2.0};
        const std::string_view one = kept.text("a"), same = kept.text(text); // later allocations are still aligned
        const std::span<const double> list = kept.list(numbers);
        const std::string before = text;
        text.assign(text.size(), 'y');
        numbers.assign(2, 0.0);
        const ReadOnlyArena moved = std::move(kept);
        CHECK(one == "a");
        CHECK(same == before);
        CHECK(std::vector<double>(list.begin(), list.end()) == std::vector<double>{1.5, -2.0});
        CHECK(reinterpret_cast<std::uintptr_t>(list.data()) % alignof(double) == 0);
        CHECK(memory.live() > 5000);
    }
    CHECK(memory.live() == 0);
    ReadOnlyArena kept(&memory);
    const std::string_view there = kept.text("there");
    memory.most = 10'000;
    CHECK_THROWS_AS(kept.text(std::string(20'000, 'x')), std::bad_alloc);
    CHECK(there == "there");
}

TEST_CASE("string interner: equal texts are stored once") {
    ReadOnlyArena kept;
    std::string_view first, again;
    {
        StringInterner texts(kept);
        first = texts.text(std::string("the same"));
        again = texts.text(std::string("the same"));
        CHECK(texts.text("another") == "another");
        CHECK(texts.text("").empty());
    }
    CHECK(first == "the same");
    CHECK(first.data() == again.data());
}
