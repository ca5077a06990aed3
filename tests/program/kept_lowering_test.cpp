// ProgramMetadata equals the lowering that it was made from, and uses the given memory.
#include "program/program_metadata.hpp"

#include "counting_resource.hpp"
#include "graph/builder.hpp"
#include "program/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace kept_lowering_test {

using namespace hekla;
using namespace hekla::program;

TEST_CASE("program metadata is a complete copy of a lowering, in the given memory, without temporary data") {
    graph::Builder b;
    const graph::ValueId x = b.input("x", graph::Kind::float_, {5, 7});
    b.input("unread", graph::Kind::float_, {1});
    const graph::ValueId w = b.parameter("w", {3, 7}, 0, 0, 0, 0);
    const graph::ValueId sum = b(graph::Op::sum, {b(graph::Op::tanh, {b(graph::Op::linear, {x, w, graph::kNone})})},
                                 {{"axes", std::vector<int64_t>{1}}, {"keep", int64_t{0}}});
    b.output("sum", sum);
    const auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    CompileOptions options;
    options.outputs = {"sum"};
    auto lowered = lower(graph.value(), Limits(), options);
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    REQUIRE(lowered->dispatches.size() >= 2);
    REQUIRE(lowered->ignored_inputs == std::vector<std::string>{"unread"});
    lowered.value().choices = {{"a", "direct"}, {"b", "tiled"}};
    const Lowering lowering = lowered.value(); // for comparison after the original is destroyed

    test::CountingResource memory;
    {
        ProgramMetadata kept;
        CHECK(kept.output("sum") == nullptr);
        kept = ProgramMetadata(lowered.value(), &memory);
        lowered = Lowering();
        REQUIRE(kept.dispatches.size() == lowering.dispatches.size());
        for (std::size_t d = 0; d < kept.dispatches.size(); ++d) {
            const DispatchInfo& one = kept.dispatches[d];
            const Dispatch& whole = lowering.dispatches[d];
            CHECK(one.label == dispatch_label(lowering, whole));
            CHECK(one.shader == whole.shader);
            CHECK(std::ranges::equal(one.constants, whole.constants));
            CHECK(std::ranges::equal(one.record, whole.record.bytes));
            CHECK(std::ranges::equal(one.relocations, whole.record.relocations, [](auto& p, auto& q) {
                return p.at == q.at && p.resource == q.resource && p.offset == q.offset;
            }));
            CHECK(std::ranges::equal(one.accesses, whole.record.accesses, [](auto& p, auto& q) {
                return p.resource == q.resource && p.begin == q.begin && p.end == q.end && p.write == q.write;
            }));
            CHECK(one.groups == whole.groups);
            CHECK(one.flops == whole.flops);
            CHECK(one.bytes == whole.bytes);
        }
        REQUIRE(kept.resources.size() == lowering.resources.size());
        for (ResourceId id = 0; id < kept.resources.size(); ++id) {
            CHECK(kept.resources[id].name == lowering.resources[id].name);
            CHECK(kept.resources[id].kind == lowering.resources[id].kind);
            CHECK(kept.resources[id].bytes == lowering.resources[id].bytes);
        }
        CHECK(std::ranges::equal(kept.choices, lowering.choices,
                                 [](auto& p, auto& q) { return p.first == q.first && p.second == q.second; }));
        CHECK(std::ranges::equal(kept.ignored_inputs, lowering.ignored_inputs));
        REQUIRE(kept.output("sum") != nullptr);
        CHECK(kept.output("sum")->view.shape == graph::Shape{5});
        CHECK(kept.output("x") == nullptr);
        CHECK(memory.live() > 0);
    }
    CHECK(memory.live() == 0);
}

} // namespace kept_lowering_test
