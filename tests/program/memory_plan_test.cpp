// The memory plan, checked by brute force: no two tensors with overlapping lifetimes share a byte.
#include "program/memory_plan.hpp"

#include "graph/builder.hpp"
#include "program/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace memory_plan_test {

using namespace hekla;
using namespace hekla::program;

namespace {

Lowering random_lowering(uint64_t seed, uint32_t dispatches, uint32_t tensors, uint64_t largest) {
    std::mt19937_64 random(seed);
    Lowering lowering;
    for (uint32_t t = 0; t < tensors; ++t)
        lowering.allocate(graph::Shape{static_cast<int64_t>(1 + random() % (largest / 4))}, Storage::f32, "t");
    lowering.dispatches.resize(dispatches);
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const auto first = static_cast<uint32_t>(random() % dispatches);
        const auto life = static_cast<uint32_t>(random() % (random() % 5 == 0 ? dispatches : 4));
        for (const uint32_t d : {first, std::min(first + life, dispatches - 1)})
            lowering.dispatches[d].record.accesses.push_back({id, 0, lowering.resources[id].bytes, true});
    }
    return lowering;
}

bool overlap(const Placement& a, const Placement& b) {
    const bool together = a.first <= b.last && b.first <= a.last;
    return together && a.block == b.block && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

} // namespace

TEST_CASE("tensors with overlapping lifetimes never overlap, in one block or many") {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        const Lowering lowering = random_lowering(seed, 60, 150, 8000);
        for (const uint64_t most : {uint64_t{1} << 31, uint64_t{24 * 1024}}) {
            const auto plan = plan_memory(lowering, most);
            REQUIRE(plan.ok());
            CHECK(plan->placements.size() == 150);
            for (std::size_t i = 0; i < plan->placements.size(); ++i) {
                const Placement& a = plan->placements[i];
                CHECK(a.offset % kAlignment == 0);
                CHECK(a.offset + a.bytes <= plan->blocks[a.block]);
                for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(overlap(a, plan->placements[j]));
            }
            for (const uint64_t block : plan->blocks) CHECK(block <= most);
            CHECK(plan->arena() >= plan->live_bytes);
            CHECK(plan->arena() <= plan->unshared_bytes);
        }
    }
}

TEST_CASE("lifetimes run from the first access to the last") {
    Lowering lowering;
    const View a = lowering.allocate(graph::Shape{100}, Storage::f32, "a");
    const View b = lowering.allocate(graph::Shape{100}, Storage::f32, "b");
    const View c = lowering.allocate(graph::Shape{100}, Storage::f32, "c");
    lowering.allocate(graph::Shape{100}, Storage::f32, "never used");
    lowering.dispatches.resize(4);
    lowering.dispatches[0].record.put(writes(a));
    lowering.dispatches[1].record.put(reads(a));
    lowering.dispatches[1].record.put(writes(b));
    lowering.dispatches[3].record.put(reads(b));
    lowering.dispatches[3].record.put(writes(c));
    const auto plan = plan_memory(lowering, 1 << 20);
    REQUIRE(plan.ok());
    REQUIRE(plan->placements.size() == 3);
    CHECK(plan->placements[0].first == 0);
    CHECK(plan->placements[0].last == 1);
    CHECK(plan->placements[1].first == 1);
    CHECK(plan->placements[1].last == 3);
    CHECK(plan->placements[2].first == 3);
    CHECK(plan->placements[0].offset == plan->placements[2].offset); // a is dead when c is written
    CHECK(plan->arena() == plan->live_bytes);
    CHECK(plan->text().find("3 tensors") != std::string::npos);
    CHECK(plan->json().find("\"name\": \"b\"") != std::string::npos);
    CHECK(plan->svg().ends_with("</svg>\n"));
}

TEST_CASE("a tensor larger than one allocation is rejected with its name and size") {
    Lowering lowering;
    const View big = lowering.allocate(graph::Shape{10000}, Storage::f32, "logits");
    lowering.dispatches.resize(1);
    lowering.dispatches[0].record.put(writes(big));
    const auto plan = plan_memory(lowering, 4096);
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.code() == Code::out_of_memory);
    CHECK(plan.message().find("'logits' takes 40000 bytes") != std::string::npos);
}

TEST_CASE("sizes above 4 GiB are counted correctly, and too many elements are rejected by name") {
    const auto lowered = [](int64_t rows) {
        graph::Builder b;
        const graph::ValueId ids = b.input("ids", graph::Kind::int32, {2, 3});
        const graph::ValueId table = b.parameter("table", {rows, 1024}, 0, 0, 0, 0);
        const graph::ValueId one = b(graph::Op::embedding, {table, ids});
        // The whole table again, scaled: an activation of the same size.
        const graph::ValueId scaled = b(graph::Op::mul, {table, b.scalar(2.0)});
        const graph::ValueId two = b(graph::Op::embedding, {b(graph::Op::softmax, {scaled}), ids});
        b.output("y", b(graph::Op::add, {one, two}));
        auto graph = b.finish();
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        CompileOptions options;
        options.outputs = {"y"};
        auto lowering = lower(graph.value(), Limits(), options);
        if (lowering.ok()) lowering.value().graph = nullptr; // the graph ends here
        return lowering;
    };
    constexpr int64_t kRows = 1'500'000; // 6,144,000,000 bytes
    const auto lowering = lowered(kRows);
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    const auto found =
        std::ranges::find(lowering->resources, ResourceKind::parameter, [](const Resource& r) { return r.kind; });
    REQUIRE(found != lowering->resources.end());
    CHECK(found->bytes == uint64_t{kRows} * 4096);
    const auto plan = plan_memory(lowering.value(), uint64_t{1} << 40);
    REQUIRE_MESSAGE(plan.ok(), plan.message());
    CHECK(plan->arena() >= 2 * uint64_t{kRows} * 4096);
    CHECK(plan->arena() < 3 * uint64_t{kRows} * 4096);
    CHECK(plan->live_bytes >= 2 * uint64_t{kRows} * 4096);
    const auto small = plan_memory(lowering.value(), uint64_t{1} << 31);
    REQUIRE_FALSE(small.ok());
    CHECK(small.message().find("takes 6144000000 bytes, and one allocation of this device holds 2147483648") !=
          std::string::npos);
    const auto refused = lowered(2'100'000);
    REQUIRE_FALSE(refused.ok());
    CHECK_MESSAGE(refused.message().find("table") != std::string::npos, refused.message());
    CHECK_MESSAGE(refused.message().find("2150400000 elements") != std::string::npos, refused.message());
}

} // namespace memory_plan_test
