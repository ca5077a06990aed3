// Tests of one operation: the device against the interpreter, alone and differentiated mid-graph.
#pragma once

#include "graph/gradient.hpp"
#include "program/harness.hpp"

#include <functional>

namespace hekla::test {

// Random feeds for every field and parameter of the graph: normal numbers, and integers below `most` (by field name,
// else 7).
inline graph::Feeds kernel_feeds(const Graph& graph, Random& random, const std::map<std::string, int64_t>& most = {}) {
    graph::Feeds feeds;
    for (const graph::Node& node : graph.nodes) {
        const graph::ValueId value = node.outputs.empty() ? 0 : node.outputs[0];
        if (node.op == Op::input) {
            const std::string& name = node.text("field");
            const auto it = most.find(name);
            feeds.fields[name] =
                random.tensor(graph.kind(value), graph.shape(value), 1.0, it == most.end() ? 7 : it->second);
        }
        if (node.op == Op::parameter)
            feeds.parameters[node.text("name")] = random.tensor(Kind::float32, graph.shape(value));
        if (node.op == Op::step_scalar) feeds.step_scalars[node.text("name")] = 1.0;
    }
    feeds.seed = 0xFEDCBA987654321ull;
    feeds.step = 3;
    feeds.first_example = 2;
    return feeds;
}

inline void check_kernel(Bench& bench, const Graph& graph, double tolerance,
                         const std::map<std::string, int64_t>& most = {}, uint64_t seed = 1) {
    Random random(seed);
    const graph::Feeds feeds = kernel_feeds(graph, random, most);
    RunOptions options;
    const Outcome got = run_on_device(*bench, graph, feeds, options);
    Outcome expected = run_in_interpreter(graph, feeds);
    // The terms of a sum may cancel, so a loss is compared relative to the size of its terms.
    if (const auto loss = expected.find("loss"); loss != expected.end()) {
        double size = 0;
        const std::vector<double>& values = expected.at("value").data;
        for (std::size_t i = 0; i < values.size(); ++i)
            size += std::abs(values[i] * feeds.fields.at("coefficients").data[i]);
        CHECK(std::abs(got.at("loss").data[0] - loss->second.data[0]) <= tolerance * size);
        std::erase_if(expected, [](const auto& output) { return output.first.starts_with("loss"); });
    }
    std::string where;
    const double error = worst_error(got, expected, &where);
    CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
    // Addresses are checked in the first run; a second takes as long and uses the same ones.
    if (instrumented()) return;
    options.runs = 2;
    CHECK_MESSAGE(same_bits(got, run_on_device(*bench, graph, feeds, options)), "two runs differ");
}

// Adds the value's gradient: loss = sum(value * coefficients), so that incoming gradients are not all ones; then runs
// the whole graph with the gradients of its parameters but the frozen ones, device against interpreter.
inline Graph with_gradients(Builder b, ValueId value, const std::set<std::string, std::less<>>& frozen = {}) {
    if (!b.ok()) { REQUIRE_MESSAGE(b.ok(), b.status().message()); }
    const ValueId coefficients = b.input("coefficients", Kind::float_, b.shape(value));
    const ValueId product = b(Op::mul, {value, coefficients});
    std::vector<int64_t> axes;
    for (int d = 0; d < b.shape(value).rank(); ++d) axes.push_back(d);
    const ValueId sum =
        b(Op::cast, {axes.empty() ? product : b(Op::sum, {product}, {{"axes", axes}})}, {{"kind", int64_t{1}}});
    b.loss("loss", sum, b(Op::cast, {b.scalar(1.0)}, {{"kind", int64_t{1}}}), 1.0);
    b.output("value", value);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    auto differentiated = graph::differentiate(graph.take(), frozen);
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    return differentiated.take();
}

inline Graph finished(Builder b) {
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

} // namespace hekla::test
