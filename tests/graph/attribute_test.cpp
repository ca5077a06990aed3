// Attributes when memory runs out: a failed copy leaks nothing, and leaves its source unchanged.
#include "graph/graph.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {
thread_local int64_t allocations_left = -1; // -1: nothing fails
}

// A program can replace operator new only once. Not inlined, or the compiler finds std::free in place of the delete
// that belongs to a new of the standard library's headers.
[[gnu::noinline]] void* operator new(std::size_t size) {
    if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
    if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
    throw std::bad_alloc();
}
// std::stable_sort calls this one; a sanitizer's own would not match our delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    if (allocations_left >= 0 && allocations_left-- == 0) return nullptr;
    return std::malloc(size > 0 ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace hekla::graph;

TEST_CASE("a node is copied completely or not at all, whichever allocation fails") {
    Node node;
    node.inputs = {1, 2};
    node.outputs = {3};
    node.attributes = {{"text", std::string(100, 'x')},
                       {"ints", std::vector<int64_t>(50, 7)},
                       {"reals", std::vector<double>(50, 0.5)},
                       {"integer", int64_t{4}},
                       {"real", 0.25}};
    int64_t failed = 0;
    for (int64_t after = 0; after < 100; ++after) {
        bool whole = true;
        allocations_left = after;
        try {
            const Node copy = node;
            std::vector<Attribute> others;
            for (const Attribute& attribute : copy.attributes) others.push_back({attribute.name, attribute.value});
            others.front().value = copy.attributes.back().value;
        } catch (const std::bad_alloc&) { whole = false; }
        allocations_left = -1;
        if (whole) break;
        ++failed;
    }
    CHECK(failed > 8); // each list, each text and the numbers, twice
    CHECK(failed < 100);
    CHECK(node.text("text") == std::string(100, 'x'));
    CHECK(node.ints("ints") == std::vector<int64_t>(50, 7));
    CHECK(node.real("real") == 0.25);
}
