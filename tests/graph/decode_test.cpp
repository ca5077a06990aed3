// The graphs of decode_graph and encode_graph compute chunk by chunk what the described graph computes at once.
#include "graph/passes/decode_mode.hpp"
#include "graph/text.hpp"
#include "random_graph.hpp"

namespace hekla::test::decode_test {
namespace {

constexpr int64_t kBatch = 2, kWidth = 4, kHeads = 2, kSource = 3, kCapacity = 8;

Graph checked(Result<Graph> graph) {
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const Status valid = check(graph.value());
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return graph.take();
}

ValueId heads_of(Builder& b, ValueId x, int64_t length) {
    return b(Op::transpose,
             {b(Op::reshape, {x}, {{"shape", std::vector<int64_t>{kBatch, length, kHeads, kWidth / kHeads}}})},
             {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
}

// Describes a decoder with everything that has a decode mode: positions, rotary, distance biases, cached and cross
// attention, dropout, a recurrent state.
Graph describe(int64_t length) {
    Builder b;
    const auto weight = [&](const std::string& name, Shape shape) { return b.parameter(name, shape, 1, 0, 0.02, 0); };
    const auto linear = [&](const std::string& name, ValueId x) {
        return b(Op::linear, {x, weight(name, {kWidth, kWidth})});
    };
    const auto merged = [&](ValueId y) {
        return b(Op::reshape, {b(Op::transpose, {y}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}})},
                 {{"shape", std::vector<int64_t>{kBatch, length, kWidth}}});
    };
    const ValueId ids = b.input("ids", Kind::int32, {kBatch, length});
    const ValueId source = b.input("source", Kind::float_, {kBatch, kSource, kWidth});
    b.scope_begin("decoder");
    ValueId x = b(Op::add, {b(Op::embedding, {weight("tokens", {9, kWidth}), ids}),
                            b(Op::embedding, {weight("places", {kCapacity, kWidth}), b.positions(kBatch, length)})});
    x = b(Op::dropout, {x}, {{"probability", 0.5}});
    const ValueId cosine = weight("cosine", {kCapacity, 1}), sine = weight("sine", {kCapacity, 1});
    const auto turned = [&](const std::string& name) {
        return b(Op::rotary, {heads_of(b, linear(name, x), length), cosine, sine});
    };
    std::vector<ValueId> inputs{turned("q"), turned("k"), heads_of(b, linear("v", x), length), kNone,
                                weight("distances", {kHeads, 3})};
    inputs.resize(19, kNone);
    inputs[15] = inputs[16] = b.positions(kBatch, length); // the default, given explicitly
    inputs[18] = weight("sinks", {kHeads});
    const NamedAttribute attributes[] = {{"causal", int64_t{1}},
                                         {"distance_first", int64_t{0}},
                                         {"distance_table", std::vector<int64_t>{0, 1, 1, 2}},
                                         {"softcap", 0.7},
                                         {"cache", "self"}};
    x = b(Op::add, {x, merged(b.emit(Op::attention, inputs, attributes)[0])});
    b.scope_begin("cross");
    const auto from_source = [&](const std::string& name) {
        const ValueId encoded = b(Op::dropout, {linear(name, source)}, {{"probability", 0.5}});
        return b(Op::once, {heads_of(b, encoded, kSource)}, {{"name", name}});
    };
    const ValueId cross[] = {heads_of(b, linear("cross.q", x), length), from_source("cross.k"), from_source("cross.v")};
    x = b(Op::add, {x, merged(b.emit(Op::attention, cross)[0])});
    b.scope_end();
    const ValueId begin = b(Op::mean, {linear("begin", source)}, {{"axes", std::vector<int64_t>{1}}});
    const ValueId before = b(Op::state_read, {begin}, {{"name", "cell"}});
    const ValueId gru[] = {x,
                           weight("gru.input", {3 * kWidth, kWidth}),
                           weight("gru.hidden", {3 * kWidth, kWidth}),
                           weight("gru.input_bias", {3 * kWidth}),
                           weight("gru.hidden_bias", {3 * kWidth}),
                           kNone,
                           before};
    const std::vector<ValueId> cell = b.emit(Op::gru, gru);
    b(Op::state_write, {cell[1]}, {{"name", "cell"}});
    b.scope_end();
    b.output("hidden", cell[0]);
    return checked(b.finish());
}

// Returns the graph as it is outside of training.
Graph without_dropout(Graph graph) {
    for (Node& node : graph.nodes)
        if (node.op == Op::dropout) node.set("probability", 0.0);
    return graph;
}

Feeds feeds_of(const Graph& graph) {
    Feeds feeds;
    for (const Node& node : graph.nodes)
        if (node.op == Op::parameter)
            feeds.parameters[node.text("name")] =
                wave(graph.shape(node.outputs[0]), static_cast<double>(feeds.parameters.size()));
    feeds.fields["source"] = wave({kBatch, kSource, kWidth}, 0.1);
    return feeds;
}

Tensor numbers(Shape shape, const std::function<int64_t(int64_t, int64_t)>& at) { // [B, n]
    Tensor tensor{Kind::int32, shape, {}};
    for (int64_t i = 0; i < shape[0]; ++i)
        for (int64_t j = 0; j < shape[1]; ++j) tensor.data.push_back(static_cast<double>(at(i, j)));
    return tensor;
}

} // namespace

TEST_CASE("encode, then decode in chunks, equals the whole") {
    constexpr int64_t kTokens = 6;
    const auto id = [](int64_t row, int64_t j) { return (3 * j + 5 * row) % 9; };
    const Graph whole = without_dropout(describe(kTokens));
    Feeds feeds = feeds_of(whole);
    feeds.fields["ids"] = numbers({kBatch, kTokens}, id);
    const Tensor expected = results(whole, feeds).at("output hidden");

    for (const int64_t chunk : {int64_t{1}, int64_t{2}, int64_t{3}}) {
        CAPTURE(chunk);
        const Graph described = describe(chunk);
        const Graph encode = checked(encode_graph(described));
        CHECK(encode.find_leaf(Op::input, "ids") == kNone); // no node of the decoder is left
        Feeds encoding = feeds;
        std::map<std::string, Tensor> encoded = results(encode, encoding);
        CHECK(encoded.size() == 3);

        const Graph decode = checked(decode_graph(described, kCapacity));
        CHECK(decode.find_leaf(Op::input, "source") == kNone);
        for (const Node& node : decode.nodes) CHECK(node.op != Op::dropout);
        Feeds decoding = feeds;
        decoding.fields["once.cross.k"] = encoded.at("output once.cross.k");
        decoding.fields["once.cross.v"] = encoded.at("output once.cross.v");
        decoding.fields["state.cell"] = encoded.at("output state.cell");
        decoding.fields["decode.cache_row"] = numbers({kBatch, kCapacity}, [](int64_t row, int64_t) { return row; });
        std::map<std::string, Tensor> caches;
        const ValueId wanted[] = {decode.outputs.at("hidden"), decode.outputs.at("state.cell")};
        for (int64_t start = 0; start < kTokens; start += chunk) {
            decoding.fields["ids"] =
                numbers({kBatch, chunk}, [&](int64_t row, int64_t j) { return id(row, start + j); });
            decoding.fields["decode.start"] = ints({kBatch}, {static_cast<double>(start), static_cast<double>(start)});
            decoding.fields["decode.count"] = ints({kBatch}, {static_cast<double>(chunk), static_cast<double>(chunk)});
            const auto step = evaluate(decode, decoding, wanted, &caches);
            REQUIRE_MESSAGE(step.ok(), step.message());
            const Tensor& hidden = step.value()[0];
            for (int64_t row = 0; row < kBatch; ++row)
                for (int64_t i = 0; i < chunk * kWidth; ++i)
                    CHECK(hidden.data[static_cast<std::size_t>(row * chunk * kWidth + i)] ==
                          doctest::Approx(expected.data[static_cast<std::size_t>((row * kTokens + start) * kWidth + i)])
                              .epsilon(1e-12));
            decoding.fields["state.cell"] = step.value()[1];
        }
    }
}

TEST_CASE("attention that cannot be cached is rejected with the reason") {
    const auto attention = [](std::size_t option, const Shape& shape, Kind kind) {
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2, 1, 3, 4});
        std::vector<ValueId> inputs{x, x, x};
        inputs.resize(18, kNone);
        if (option != 0) inputs[option] = b.input("option", kind, shape);
        b.scope_begin("block.3");
        const NamedAttribute cache[] = {{"cache", "c"}};
        const ValueId y = b.emit(Op::attention, inputs, cache)[0];
        b.scope_end();
        b.output("y", y);
        return checked(b.finish());
    };
    CHECK(decode_graph(attention(0, {}, Kind::float_), 4).ok());
    const auto says = [&](std::size_t option, const Shape& shape, Kind kind, const std::string& name) {
        const Result<Graph> graph = decode_graph(attention(option, shape, kind), 4);
        REQUIRE(!graph.ok());
        CAPTURE(graph.message());
        CHECK(graph.code() == Code::unsupported);
        CHECK(graph.message().find("attention with cache 'c' has options that cannot be cached: " + name + ";") !=
              std::string::npos);
        CHECK(graph.message().find("in block.3") != std::string::npos);
    };
    says(3, {1, 1, 3, 3}, Kind::float_, "bias");
    says(10, {2, 3}, Kind::int32, "key_padding");
    says(12, {1, 1, 3, 3}, Kind::int32, "mask");
    says(15, {2, 3}, Kind::int32, "q_position");
    says(17, {2}, Kind::int32, "prefix");

    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 1, 3, 4}), y = b.input("y", Kind::float_, {5, 1, 3, 4});
    const auto cached = [&](ValueId v, const std::string& name) {
        const ValueId inputs[] = {v, v, v};
        const NamedAttribute cache[] = {{"cache", name}};
        return b.emit(Op::attention, inputs, cache)[0];
    };
    b.output("a", cached(x, "a"));
    b.output("b", cached(y, "b"));
    const Graph two_batches = checked(b.finish());
    const Result<Graph> refused = decode_graph(two_batches, 4);
    REQUIRE(!refused.ok());
    CHECK(refused.message().find("one batch size: here it is 5, elsewhere 2") != std::string::npos);
}

TEST_CASE("graphs that decode mode would compute wrongly are rejected, with the node and a remedy") {
    const auto refusal = [](const std::function<void(Builder&, ValueId)>& describe_body) {
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2, 1, 3, 4});
        b.scope_begin("block.3");
        describe_body(b, x);
        b.scope_end();
        const Result<Graph> graph = decode_graph(checked(b.finish()), 4);
        return graph.ok() ? std::string() : graph.message();
    };
    const auto attention = [](Builder& b, ValueId x, int64_t causal) {
        const ValueId inputs[] = {x, x, x};
        const NamedAttribute attributes[] = {{"causal", causal}};
        return b.emit(Op::attention, inputs, attributes)[0];
    };
    const std::string causal = refusal([&](Builder& b, ValueId x) { b.output("y", attention(b, x, 1)); });
    CAPTURE(causal);
    CHECK(causal.starts_with("attention in block.3: causal attention without a cache"));
    CHECK(refusal([&](Builder& b, ValueId x) { b.output("y", attention(b, x, 0)); }).empty());
    CHECK(refusal([&](Builder& b, ValueId x) { // an encoder that is computed once
              b.output("y", b(Op::once, {attention(b, x, 1)}, {{"name", "memory"}}));
          })
              .empty());

    const std::string read = refusal([](Builder& b, ValueId x) {
        b.output("y", b(Op::state_read, {x}, {{"name", "cell"}}));
    });
    CAPTURE(read);
    CHECK(read.starts_with("state_read in block.3: the state 'cell' is read and never written"));
    CHECK(read.find("add state_write('cell')") != std::string::npos);
    const std::string written = refusal([](Builder& b, ValueId x) {
        b.output("y", b(Op::state_write, {x}, {{"name", "cell"}}));
    });
    CAPTURE(written);
    CHECK(written.starts_with("state_write in block.3: the state 'cell' is written and never read"));
    CHECK(refusal([](Builder& b, ValueId x) {
              const ValueId before = b(Op::state_read, {x}, {{"name", "cell"}});
              b.output("y", b(Op::state_write, {b(Op::tanh, {before})}, {{"name", "cell"}}));
          }).empty());
}

TEST_CASE("a state that is written with another shape than it is read is refused") {
    const auto refusal = [](const std::function<ValueId(Builder&, ValueId)>& next) {
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2, 3});
        const ValueId before = b(Op::state_read, {x}, {{"name", "cell"}});
        b.output("y", b(Op::state_write, {next(b, before)}, {{"name", "cell"}}));
        return decode_graph(checked(b.finish()), 4).status().message();
    };
    const auto is = [](const std::string& message, const char* what) {
        CHECK_MESSAGE(message.find(what) != std::string::npos, message);
    };
    is(refusal([](Builder& b, ValueId x) {
           return b(Op::reshape, {x}, {{"shape", std::vector<int64_t>{2, 3, 1}}}); // as many elements
       }),
       "state_write: the state 'cell' is read as [2, 3] and written as [2, 3, 1]: a state keeps the shape");
    is(refusal([](Builder& b, ValueId x) {
           return b(Op::concat, {x, x}, {{"axis", int64_t{1}}}); // it grows with every token
       }),
       "written as [2, 6]");
    CHECK(refusal([](Builder& b, ValueId x) { return b(Op::tanh, {x}); }).empty());
}

TEST_CASE("names of caches, states and precomputed values are unique") {
    const auto twice = [](Op op) {
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {2, 1, 3, 4});
        for (int i = 0; i < 2; ++i)
            b(op, {b(op == Op::once || op == Op::state_read ? Op::neg : Op::tanh, {x})}, {{"name", "n"}});
        return checked(b.finish());
    };
    CHECK(!encode_graph(twice(Op::once)).ok());
    CHECK(!encode_graph(twice(Op::state_read)).ok());
    CHECK(!decode_graph(twice(Op::state_write), 4).ok());
    CHECK(decode_graph(twice(Op::once), 4).ok());
}

} // namespace hekla::test::decode_test
