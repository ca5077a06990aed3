// Helpers for the tests of the room graph: tensors from numbers, running one operation in the interpreter, comparisons.
#pragma once

#include "graph/builder.hpp"
#include "graph/check.hpp"
#include "graph/reference.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <vector>

namespace hekla::test {

using namespace graph;

inline Tensor floats(const Shape& shape, std::vector<double> data) { return {Kind::float_, shape, std::move(data)}; }
inline Tensor ints(const Shape& shape, std::vector<double> data) { return {Kind::int32, shape, std::move(data)}; }

// sin(start + 0.7 i): numbers that are easy to reproduce elsewhere.
inline Tensor wave(const Shape& shape, double start) {
    Tensor result{Kind::float_, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
    for (std::size_t i = 0; i < result.data.size(); ++i)
        result.data[i] = std::sin(start + 0.7 * static_cast<double>(i));
    return result;
}

using Inputs = std::vector<std::optional<Tensor>>; // empty: omitted

inline Result<std::vector<Tensor>> try_run(Op op, const Inputs& inputs, std::vector<NamedAttribute> attributes = {},
                                           Feeds feeds = {}, std::map<std::string, Tensor>* caches = nullptr) {
    Builder builder;
    std::vector<ValueId> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i]) {
            values.push_back(kNone);
            continue;
        }
        const std::string name = fmt::format("x{}", i);
        values.push_back(builder.input(name, inputs[i]->kind, inputs[i]->shape));
        feeds.fields[name] = *inputs[i];
    }
    const std::vector<ValueId> outputs = builder.emit(op, values, attributes);
    HK_ASSIGN(const Graph graph, builder.finish());
    HK_TRY(check(graph));
    return evaluate(graph, feeds, outputs, caches);
}

// Returns all outputs of one operation; on an error none, and the check fails.
inline std::vector<Tensor> run(Op op, const Inputs& inputs, std::vector<NamedAttribute> attributes = {},
                               Feeds feeds = {}, std::map<std::string, Tensor>* caches = nullptr) {
    auto result = try_run(op, inputs, std::move(attributes), std::move(feeds), caches);
    CAPTURE(info(op).name);
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

inline Tensor run1(Op op, const Inputs& inputs, std::vector<NamedAttribute> attributes = {}, Feeds feeds = {}) {
    return run(op, inputs, std::move(attributes), std::move(feeds))[0];
}

// Returns the largest difference of elements; infinite if the counts differ or only one is NaN.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return INFINITY;
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
        const double d = std::abs(a[i] - b[i]);
        most = std::max(most, std::isnan(d) ? INFINITY : d);
    }
    return most;
}

inline void check_values(const Tensor& tensor, const std::vector<double>& expected, double tolerance = 1e-12) {
    CAPTURE(fmt::format("{}", fmt::join(tensor.data, ", ")));
    CAPTURE(fmt::format("{}", fmt::join(expected, ", ")));
    CHECK(distance(tensor.data, expected) <= tolerance);
}

inline void check_tensor(const Tensor& tensor, const Shape& shape, const std::vector<double>& expected,
                         double tolerance = 1e-12) {
    CHECK(tensor.shape.text() == shape.text());
    check_values(tensor, expected, tolerance);
}

} // namespace hekla::test
