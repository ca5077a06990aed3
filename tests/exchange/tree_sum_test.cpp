// The order of sums over parts: the same bits for any division of the parts.
#include "exchange/tree_sum.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

using namespace hekla;
using namespace hekla::exchange;

namespace {

using Values = std::vector<float>;

// Numbers whose sums round in every addition.
Values values_of_part(uint32_t part, std::size_t count) {
    std::mt19937 random(part + 1);
    Values values(count);
    for (float& value : values)
        value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 40) - 20);
    return values;
}

// The definition: T(first, end) = T(first, middle) + T(middle, end).
Values reference(uint32_t first, uint32_t end, std::size_t count) {
    if (end - first == 1) return values_of_part(first, count);
    uint32_t half = 1;
    while (2 * half < end - first) half *= 2;
    Values left = reference(first, first + half, count);
    const Values right = reference(first + half, end, count);
    for (std::size_t i = 0; i < count; ++i) left[i] += right[i];
    return left;
}

// The sum of all parts, computed by ranks with these ranges of parts.
Values summed(uint32_t parts, const std::vector<PartRange>& ranks, std::size_t count) {
    std::vector<PartSums> sums;
    for (const PartRange& own : ranks) {
        PartSums& rank = sums.emplace_back(parts, own, count);
        for (int step = 0; step < 2; ++step) { // memory is used again
            rank.clear();
            for (uint32_t part = own.first; part < own.end; ++part) {
                const std::span<float> to = rank.next_part();
                const Values values = values_of_part(part, count);
                std::copy(values.begin(), values.end(), to.begin());
                if (part % 2 == 0) {
                    rank.add_part();
                } else { // in pieces, of which the last is added first
                    rank.add_elements(100, count - 100);
                    rank.add_elements(0, 100);
                    rank.end_part();
                }
            }
        }
    }
    std::vector<Node> nodes;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        std::vector<PartRange> found;
        for (const Node& node : sums[r].nodes()) {
            found.push_back(node.parts);
            nodes.push_back(node);
        }
        CHECK(found == nodes_of(parts, ranks[r]));
    }
    const Result<std::span<float>> sum = sum_of_tree(parts, nodes);
    REQUIRE_MESSAGE(sum.ok(), sum.message());
    return {sum->begin(), sum->end()};
}

} // namespace

TEST_CASE("the largest nodes of a range cover it once, and are few") {
    for (uint32_t parts = 1; parts <= 33; ++parts) {
        for (uint32_t first = 0; first < parts; ++first) {
            for (uint32_t end = first; end <= parts; ++end) {
                const std::vector<PartRange> nodes = nodes_of(parts, {first, end});
                uint32_t at = first;
                for (const PartRange& node : nodes) {
                    CHECK(node.first == at);
                    CHECK(is_node(parts, node));
                    at = node.end;
                }
                CHECK(at == end);
                CHECK(nodes.size() <= 2 * static_cast<std::size_t>(std::bit_width(parts)));
            }
        }
        CHECK(is_node(parts, {0, parts}));
    }
    CHECK(!is_node(8, {1, 3}));
    CHECK(!is_node(6, {2, 6}));
    CHECK(is_node(6, {4, 6}));
}

TEST_CASE("every division of the parts gives the bits of the definition") {
    constexpr std::size_t kCount = 257;
    for (uint32_t parts = 1; parts <= 13; ++parts) {
        const Values expected = reference(0, parts, kCount);
        for (int32_t ranks = 1; ranks <= static_cast<int32_t>(parts); ++ranks) {
            std::vector<PartRange> shares;
            for (int32_t rank = 0; rank < ranks; ++rank) shares.push_back(parts_of_rank(parts, rank, ranks));
            CHECK(summed(parts, shares, kCount) == expected);
        }
        for (uint32_t cut = 1; cut < parts; ++cut) // unequal shares
            CHECK(summed(parts, {{0, cut}, {cut, parts}}, kCount) == expected);
    }
}

TEST_CASE("equal shares differ by at most one part, and no rank is without one") {
    for (uint32_t parts = 1; parts <= 40; ++parts)
        for (int32_t ranks = 1; ranks <= static_cast<int32_t>(parts); ++ranks) {
            uint32_t at = 0;
            for (int32_t rank = 0; rank < ranks; ++rank) {
                const PartRange own = parts_of_rank(parts, rank, ranks);
                CHECK(own.first == at);
                const uint32_t share = own.end - own.first, least = parts / static_cast<uint32_t>(ranks);
                CHECK((share == least || share == least + 1));
                CHECK(share > 0);
                at = own.end;
            }
            CHECK(at == parts);
        }
}

TEST_CASE("denormal numbers are kept where the thread flushes them") {
    Values sum{1e-40f};
#if defined(__SSE2__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); // flush to zero, denormals are zero
    add(sum, Values{2e-40f});
    CHECK(_mm_getcsr() == (before | 0x8040u));
    _mm_setcsr(before);
#else
    add(sum, Values{2e-40f});
#endif
    CHECK(sum[0] == 1e-40f + 2e-40f);
    CHECK(sum[0] > 0.0f);
}

TEST_CASE("sums that lack a part, or have one twice, are refused") {
    Values a{1}, b{2};
    const std::vector<Node> half{{{0, 1}, a}};
    CHECK(sum_of_tree(2, half).code() == Code::internal);
    const std::vector<Node> twice{{{0, 1}, a}, {{1, 2}, b}, {{1, 2}, b}};
    CHECK(sum_of_tree(2, twice).code() == Code::internal);
}
