// attention over a cache: chunks appended one after the other, ragged rows, and reading other rows through cache_row.
#include "program/kernel_case.hpp"
#include "program/parameter_store.hpp"

namespace attention_cached_test {

using namespace hekla;
using namespace hekla::test;

namespace {

struct Case {
    int64_t heads = 4, key_heads = 2, width = 8, value_width = 6, window = 0;
    bool causal = true, distance = false, sinks = false;
    double softcap = 0;
    bool first = false; // the first step is one that begins every row
    program::Storage cache = program::Storage::f32;
    int64_t capacity = 24;
    std::vector<std::vector<double>> counts = {{5, 3, 4}, {1, 1, 1}, {2, 0, 5}, {1, 1, 1}}; // tokens of each step
};

constexpr int64_t kBatch = 3;
const std::vector<std::vector<double>> kLong = {{150, 3, 40}, {1, 1, 1}, {100, 0, 20}, {1, 1, 1}};

Graph chunk_graph(const Case& c, int64_t chunk, bool first) {
    Builder b;
    const ValueId q = b.input("q", Kind::float_, {kBatch, c.heads, chunk, c.width});
    const ValueId k = b.input("k", Kind::float_, {kBatch, c.key_heads, chunk, c.width});
    const ValueId v = b.input("v", Kind::float_, {kBatch, c.key_heads, chunk, c.value_width});
    const ValueId inputs[] = {q,
                              k,
                              v,
                              b.input("start", Kind::int32, {kBatch}),
                              b.input("count", Kind::int32, {kBatch}),
                              b.input("cache_row", Kind::int32, {kBatch, c.capacity}),
                              c.distance ? b.input("distance_bias", Kind::float_, {c.heads, 4}) : graph::kNone,
                              c.sinks ? b.input("sinks", Kind::float_, {c.heads}) : graph::kNone};
    const graph::NamedAttribute attributes[] = {
        {"causal", int64_t{c.causal}},     {"window", c.window},
        {"distance_first", int64_t{-1}},   {"distance_table", std::vector<int64_t>{3, 0, 1, 2, 2}},
        {"first", int64_t{first}},         {"capacity", c.capacity},
        {"cache", std::string("layer.0")}, {"softcap", c.softcap}};
    b.output("y", b.emit(Op::attention_cached, inputs, attributes)[0]);
    return finished(std::move(b));
}

void check_case(Bench& bench, const Case& c) {
    auto store = program::ParameterStore::create(*bench, {}, {});
    REQUIRE_MESSAGE(store.ok(), store.message());
    std::map<std::string, graph::Tensor> caches;
    Random random(11);
    std::vector<double> start{0, 0, 0};
    for (std::size_t turn = 0; turn < c.counts.size(); ++turn) {
        CAPTURE(turn);
        const auto chunk = static_cast<int64_t>(std::ranges::max(c.counts[turn]));
        const bool first = c.first && turn == 0;
        const Graph graph = chunk_graph(c, chunk, first);
        graph::Feeds feeds = kernel_feeds(graph, random);
        feeds.fields["start"].data = start;
        feeds.fields["count"].data = c.counts[turn];
        for (const char* rounded : {"k", "v"}) // so that 16 bits hold them
            for (double& x : feeds.fields[rounded].data) x = std::round(x * 16) / 16;
        for (int64_t b = 0; b < kBatch; ++b)
            for (int64_t j = 0; j < c.capacity; ++j) // row 2 reads what row 0 wrote at its first two positions
                feeds.fields["cache_row"].data[static_cast<std::size_t>(b * c.capacity + j)] =
                    b == 2 && j < 2 && !first ? 0 : static_cast<double>(b);
        auto compiled = program::Program::compile(*bench, graph, *store.value(), {.outputs = {"y"}, .cache = c.cache});
        REQUIRE_MESSAGE(compiled.ok(), compiled.message());
        for (const auto& [name, tensor] : feeds.fields)
            REQUIRE(compiled.value()->set_input(name, to_bytes(tensor)).ok());
        const Status status = compiled.value()->run({});
        REQUIRE_MESSAGE(status.ok(), status.message());
        const Status ordered = compiled.value()->check_ordering();
        CHECK_MESSAGE(ordered.ok(), ordered.message());
        auto got = compiled.value()->read_output("y");
        REQUIRE_MESSAGE(got.ok(), got.message());
        graph::Tensor y = to_tensor(got.value());
        for (std::size_t i = 0; first && i < y.data.size(); ++i) { // what follows a row's tokens is undefined then
            const auto at = static_cast<int64_t>(i);
            const auto b = static_cast<std::size_t>(at / (c.heads * chunk * c.value_width));
            if (static_cast<double>(at / c.value_width % chunk) >= c.counts[turn][b]) y.data[i] = 0;
        }
        const ValueId wanted[] = {graph.outputs.at("y")};
        auto expected = graph::evaluate(graph, feeds, wanted, &caches);
        REQUIRE_MESSAGE(expected.ok(), expected.message());
        std::string where;
        const double error = worst_error({{"y", y}}, {{"y", expected.value()[0]}}, &where);
        CHECK_MESSAGE(error < 4e-6, "error " << error << " at " << where);
        for (std::size_t b = 0; b < start.size(); ++b) start[b] += c.counts[turn][b];
    }
}

void check_cases(Bench& bench) {
    check_case(bench, {});
    check_case(bench, {.heads = 3, .key_heads = 3, .width = 5, .value_width = 7});
    check_case(bench, {.heads = 2, .key_heads = 1, .width = 64, .value_width = 64, .window = 3});
    check_case(bench, {.causal = false, .distance = true});
    check_case(bench, {.sinks = true, .softcap = 0.3});
    check_case(bench, {.heads = 2, .width = 5, .value_width = 7, .window = 3, .sinks = true, .first = true});
    check_case(bench, {.width = 12, .value_width = 20, .distance = true, .softcap = 0.3, .first = true});
    check_case(
        bench,
        {.heads = 6, .width = 12, .value_width = 20, .sinks = true, .softcap = 0.3, .capacity = 300, .counts = kLong});
    check_case(bench, {.first = true});
    check_case(bench, {.heads = 3, .key_heads = 1, .width = 5, .value_width = 7, .window = 2, .first = true});
    check_case(bench, {.heads = 2, .key_heads = 2, .width = 64, .value_width = 64, .distance = true, .first = true});
    check_case(bench, {.heads = 6, .key_heads = 2, .width = 12, .value_width = 20, .capacity = 300, .counts = kLong});
    check_case(bench, {.heads = 2,
                       .key_heads = 2,
                       .width = 80,
                       .value_width = 80,
                       .window = 70,
                       .distance = true,
                       .capacity = 300,
                       .counts = kLong});
    check_case(
        bench,
        {.heads = 12, .key_heads = 1, .width = 8, .value_width = 4, .first = true, .capacity = 256, .counts = kLong});
    if (!bench->limits().storage16) return;
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        check_case(bench, {.cache = storage});
        check_case(
            bench,
            {.heads = 3, .key_heads = 1, .width = 5, .value_width = 7, .window = 2, .first = true, .cache = storage});
        check_case(bench, {.heads = 4,
                           .key_heads = 2,
                           .width = 16,
                           .value_width = 12,
                           .cache = storage,
                           .capacity = 300,
                           .counts = kLong});
    }
}

} // namespace

TEST_CASE("attention over a cache equals the interpreter's") {
    Bench bench;
    check_cases(bench);
}

TEST_CASE("attention over a cache equals the interpreter's, with kernels of GPUs") {
    GpuKernelsBench bench;
    check_cases(bench);
}

} // namespace attention_cached_test
