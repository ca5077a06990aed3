// attention over a cache: chunks appended one after the other, ragged rows, and reading other rows through cache_row.
#include "program/kernel_case.hpp"

namespace attention_cached_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Case {
    int64_t heads = 4, key_heads = 2, width = 8, value_width = 6, window = 0;
    bool causal = true, distance = false;
};

constexpr int64_t kBatch = 3;
constexpr int64_t kCapacity = 24;

Graph chunk_graph(const Case& c, int64_t chunk) {
    Builder b;
    const ValueId q = b.input("q", Kind::float_, {kBatch, c.heads, chunk, c.width});
    const ValueId k = b.input("k", Kind::float_, {kBatch, c.key_heads, chunk, c.width});
    const ValueId v = b.input("v", Kind::float_, {kBatch, c.key_heads, chunk, c.value_width});
    const ValueId inputs[] = {q,
                              k,
                              v,
                              b.input("start", Kind::int32, {kBatch}),
                              b.input("count", Kind::int32, {kBatch}),
                              b.input("cache_row", Kind::int32, {kBatch, kCapacity}),
                              c.distance ? b.input("distance_bias", Kind::float_, {c.heads, 4}) : graph::kNone};
    const graph::NamedAttribute attributes[] = {
        {"causal", int64_t{c.causal}},   {"window", c.window},
        {"distance_first", int64_t{-1}}, {"distance_table", std::vector<int64_t>{3, 0, 1, 2, 2}},
        {"capacity", kCapacity},         {"cache", std::string("layer.0")}};
    b.output("y", b.emit(Op::attention_cached, inputs, attributes)[0]);
    return finished(std::move(b));
}

void check_case(Bench& bench, const Case& c) {
    auto store = program::ParameterStore::create(*bench, {}, {});
    REQUIRE_MESSAGE(store.ok(), store.message());
    std::map<std::string, graph::Tensor> caches;
    Random random(11);
    std::vector<double> start{0, 0, 0};
    const std::vector<std::vector<double>> counts = {{5, 3, 4}, {1, 1, 1}, {2, 0, 5}, {1, 1, 1}};
    for (std::size_t turn = 0; turn < counts.size(); ++turn) {
        CAPTURE(turn);
        const int64_t chunk = turn % 2 == 0 ? 5 : 1;
        const Graph graph = chunk_graph(c, chunk);
        graph::Feeds feeds = kernel_feeds(graph, random);
        feeds.fields["start"].data = start;
        feeds.fields["count"].data = counts[turn];
        for (int64_t b = 0; b < kBatch; ++b)
            for (int64_t j = 0; j < kCapacity; ++j) // row 2 reads what row 0 wrote at its first two positions
                feeds.fields["cache_row"].data[static_cast<std::size_t>(b * kCapacity + j)] =
                    b == 2 && j < 2 ? 0 : static_cast<double>(b);
        auto compiled = program::Program::compile(*bench, graph, *store.value(), {.outputs = {"y"}});
        REQUIRE_MESSAGE(compiled.ok(), compiled.message());
        for (const auto& [name, tensor] : feeds.fields)
            REQUIRE(compiled.value()->set_input(name, to_bytes(tensor)).ok());
        const Status status = compiled.value()->run({});
        REQUIRE_MESSAGE(status.ok(), status.message());
        const Status ordered = compiled.value()->check_ordering();
        CHECK_MESSAGE(ordered.ok(), ordered.message());
        auto got = compiled.value()->read_output("y");
        REQUIRE_MESSAGE(got.ok(), got.message());
        const ValueId wanted[] = {graph.outputs.at("y")};
        auto expected = graph::evaluate(graph, feeds, wanted, &caches);
        REQUIRE_MESSAGE(expected.ok(), expected.message());
        std::string where;
        const double error = worst_error({{"y", to_tensor(got.value())}}, {{"y", expected.value()[0]}}, &where);
        CHECK_MESSAGE(error < 4e-6, "error " << error << " at " << where);
        for (std::size_t b = 0; b < start.size(); ++b) start[b] += counts[turn][b];
    }
}

} // namespace

TEST_CASE("attention over a cache equals the interpreter's") {
    Bench bench;
    check_case(bench, {});
    check_case(bench, {.heads = 3, .key_heads = 3, .width = 5, .value_width = 7});
    check_case(bench, {.heads = 2, .key_heads = 1, .width = 64, .value_width = 64, .window = 3});
    check_case(bench, {.causal = false, .distance = true});
}

} // namespace attention_cached_test
