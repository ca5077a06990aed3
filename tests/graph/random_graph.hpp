// Random graphs for the tests of passes: every family of operations, at small odd shapes, with values of moderate size.
#pragma once

#include "base/philox.hpp"
#include "support.hpp"

namespace hekla::test {

using namespace graph;

struct RandomGraph {
    Graph graph;
    Feeds feeds;
};

struct RandomGraphOptions {
    int operations = 30;
    bool stops = true; // stop_gradient and no_gradient_id, which differences of the loss do not see
    bool regions = true;
    bool dropout = true;
};

class RandomGraphMaker {
public:
    RandomGraphMaker(uint64_t seed, const RandomGraphOptions& options) : random_(seed, 77), options_(options) {}

    Result<RandomGraph> make() {
        const ValueId field = b_.input("x", Kind::float_, Shape{2, 3, 4});
        feeds_.fields["x"] = random_tensor(Shape{2, 3, 4});
        const ValueId ids = b_.input("ids", Kind::int32, Shape{2, 3});
        Tensor& id_tensor = feeds_.fields["ids"] = {Kind::int32, Shape{2, 3}, std::vector<double>(6)};
        for (double& id : id_tensor.data) id = static_cast<double>(random_.next_below(5));
        pool_.push_back(field);
        pool_.push_back(b_(Op::embedding, {parameter(Shape{5, 4}), ids}));
        pool_.push_back(parameter(Shape{2, 3, 4}));
        for (int i = 0; i < options_.operations && b_.ok(); ++i) {
            scopes();
            grow(ids);
        }
        if (in_region_) b_.recompute_end();
        while (depth_-- > 0) b_.scope_end();
        ValueId total = b_.scalar(0);
        for (std::size_t i = 0; i < pool_.size() && b_.ok(); i += 1 + random_.next_below(3))
            total = b_(Op::add, {total, all_of(pool_[i])});
        total = b_(Op::add, {total, all_of(pool_.back())});
        b_.loss("first", total, b_.scalar(3), 0.5);
        const ValueId rows = b_(Op::cross_entropy, {linear(any(), 5), random_ids(5)});
        if (b_.ok()) b_.loss("second", all_of(rows), b_.scalar(6), 1.25);
        b_.metric("total", total, b_.scalar(1));
        b_.output("last", pool_.back());
        b_.output("middle", pool_[pool_.size() / 2]);
        HK_ASSIGN(Graph graph, b_.finish());
        feeds_.seed = random_.next_u32();
        feeds_.step = 5;
        return RandomGraph{std::move(graph), std::move(feeds_)};
    }

private:
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.next_below(static_cast<uint32_t>(n))); }
    bool chance(double p) { return random_.next_unit() < p; }
    ValueId any() { return pool_[below(pool_.size())]; }
    int64_t axis_of(ValueId x) { return static_cast<int64_t>(below(static_cast<std::size_t>(b_.shape(x).rank()))); }

    Tensor random_tensor(const Shape& shape) {
        Tensor tensor{Kind::float_, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
        for (double& value : tensor.data) value = 2 * random_.next_unit() - 1;
        return tensor;
    }
    ValueId parameter(const Shape& shape) {
        // Sometimes an existing one, whose gradients add up.
        if (chance(0.25))
            for (const auto& [name, tensor] : feeds_.parameters)
                if (tensor.shape == shape) return b_.parameter(name, shape, 1, 0, 0.02, 0);
        const std::string name = fmt::format("p.{}", feeds_.parameters.size());
        feeds_.parameters[name] = random_tensor(shape);
        return b_.parameter(name, shape, 1, 0, 0.02, 0);
    }
    ValueId all_of(ValueId x) {
        std::vector<int64_t> axes;
        for (int64_t axis = 0; axis < b_.shape(x).rank(); ++axis) axes.push_back(axis);
        return b_(Op::mean, {b_(Op::tanh, {x})}, {{"axes", axes}});
    }
    ValueId linear(ValueId x, int64_t out) {
        if (b_.shape(x).rank() == 0) x = b_(Op::reshape, {x}, {{"shape", std::vector<int64_t>{1}}});
        const bool input_first = chance(0.5);
        const int64_t in = b_.shape(x)[-1];
        const ValueId weight = parameter(input_first ? Shape{in, out} : Shape{out, in});
        last_rows_ = b_.shape(x);
        last_rows_.erase(-1);
        return b_(Op::linear, {x, weight, chance(0.5) ? parameter(Shape{out}) : kNone},
                  {{"input_first", int64_t{input_first}}});
    }
    ValueId random_ids(int64_t below_this) { // in the shape of the last linear's rows
        std::vector<double> values(static_cast<std::size_t>(last_rows_.elements()));
        for (double& value : values) value = static_cast<double>(below(static_cast<std::size_t>(below_this)));
        if (!values.empty() && chance(0.5)) values[0] = -100;
        return b_.constant(Kind::int32, last_rows_, std::move(values));
    }
    // [2, 3, 4], for operations on batch, time and width.
    ValueId sequence() {
        for (int i = 0; i < 20; ++i) {
            const ValueId x = any();
            if (b_.shape(x) == Shape{2, 3, 4}) return x;
        }
        return pool_[0];
    }
    ValueId heads(ValueId x) { // [2, 3, 4] -> [2, 2, 3, 2]
        return b_(Op::transpose, {b_(Op::reshape, {x}, {{"shape", std::vector<int64_t>{2, 3, 2, -1}}})},
                  {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
    }

    void scopes() {
        if (chance(0.15) && depth_ < 3) {
            ++depth_;
            b_.scope_begin(chance(0.3) ? "a \"b\"/c\n" : fmt::format("block.{}", below(2)));
        } else if (chance(0.1) && depth_ > 0) {
            --depth_;
            b_.scope_end();
        }
        if (options_.regions && chance(0.15)) {
            if (in_region_)
                b_.recompute_end();
            else
                b_.recompute_begin();
            in_region_ = !in_region_;
        }
    }

    void keep(ValueId x) {
        if (x != kNone && b_.ok() && is_float(b_.kind(x)) && b_.shape(x).elements() > 0) pool_.push_back(x);
    }

    void grow(ValueId ids) {
        switch (below(12)) {
        case 0:
        case 1:
        case 2: return unary();
        case 3:
        case 4: return binary();
        case 5:
        case 6: return view();
        case 7: return reduction();
        case 8: return keep(linear(any(), 1 + static_cast<int64_t>(below(5))));
        case 9: return norm();
        case 10: return layer(ids);
        default: return oddity();
        }
    }

    void unary() {
        const ValueId x = any();
        constexpr Op smooth[] = {Op::neg,  Op::sin,      Op::cos,      Op::erf,         Op::tanh, Op::sigmoid, Op::silu,
                                 Op::gelu, Op::softplus, Op::softplus, Op::log_sigmoid, Op::relu, Op::abs};
        const Op op = smooth[below(std::size(smooth))];
        ValueId y = b_(op, {x});
        if (op == Op::softplus && chance(0.5)) {
            const ValueId positive = b_(Op::add, {y, b_.scalar(0.5)});
            constexpr Op of_positive[] = {Op::log, Op::log1p, Op::sqrt, Op::rsqrt};
            y = b_(of_positive[below(4)], {positive});
        }
        if (op == Op::tanh && chance(0.5)) y = b_(Op::exp, {y});
        keep(y);
    }

    void binary() {
        const ValueId x = any();
        ValueId other = any();
        for (int i = 0; i < 10 && !broadcast_shapes(b_.shape(x), b_.shape(other)); ++i) other = any();
        if (!broadcast_shapes(b_.shape(x), b_.shape(other))) other = b_.scalar(random_.next_unit());
        constexpr Op ops[] = {Op::add, Op::sub, Op::mul, Op::minimum, Op::maximum};
        switch (below(8)) {
        case 0: return keep(b_(Op::div, {x, b_(Op::add, {b_(Op::mul, {other, other}), b_.scalar(1.0)})}));
        case 1: return keep(b_(Op::pow, {b_(Op::add, {b_(Op::softplus, {x}), b_.scalar(0.5)}), b_(Op::tanh, {other})}));
        case 2: {
            const ValueId condition = b_(Op::compare, {x, other}, {{"relation", static_cast<int64_t>(below(6))}});
            return keep(b_(Op::where, {condition, x, other}));
        }
        case 3: return keep(b_(Op::add, {x, b_.scalar(chance(0.5) ? 0.0 : 1.0)}));
        case 4: return keep(b_(Op::mul, {b_.scalar(chance(0.5) ? 1.0 : 0.5), x}));
        default: return keep(b_(ops[below(5)], {x, other}));
        }
    }

    void view() {
        const ValueId x = any();
        const Shape shape = b_.shape(x);
        if (shape.rank() == 0) return;
        const int64_t axis = axis_of(x), length = shape[static_cast<int>(axis)];
        switch (below(7)) {
        case 0: return keep(b_(Op::reshape, {x}, {{"shape", std::vector<int64_t>{-1, length}}}));
        case 1: {
            std::vector<int64_t> permutation;
            for (int64_t i = 0; i < shape.rank(); ++i)
                permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(below(permutation.size() + 1)), i);
            return keep(b_(Op::transpose, {x}, {{"permutation", permutation}}));
        }
        case 2: {
            const int64_t start = static_cast<int64_t>(below(static_cast<std::size_t>(length)));
            const int64_t stride = 1 + static_cast<int64_t>(below(2));
            return keep(b_(Op::slice, {x},
                           {{"axis", axis},
                            {"start", start},
                            {"length", (length - start + stride - 1) / stride},
                            {"stride", stride}}));
        }
        case 3: return keep(b_(Op::concat, {x, b_(Op::tanh, {x})}, {{"axis", axis}}));
        case 4:
            return keep(
                b_(Op::pad, {x}, {{"axis", axis}, {"before", static_cast<int64_t>(below(2))}, {"after", int64_t{1}}}));
        case 5: {
            Shape wider = shape;
            if (wider.rank() < 4) wider.insert(0, 2);
            return keep(b_(Op::broadcast, {x}, {{"shape", wider.vector()}}));
        }
        default: return keep(b_(Op::flip, {x}, {{"axis", axis}}));
        }
    }

    void reduction() {
        const ValueId x = any();
        if (b_.shape(x).rank() == 0) return;
        const int64_t axis = axis_of(x), from_end = axis - b_.shape(x).rank();
        constexpr Op ops[] = {Op::sum, Op::mean, Op::max, Op::logsumexp};
        switch (below(8)) {
        case 0: {
            constexpr Op scans[] = {Op::cumsum, Op::cumprod, Op::cummax, Op::logcumsumexp};
            return keep(b_(scans[below(4)], {x}, {{"axis", from_end}, {"reverse", int64_t{chance(0.5)}}}));
        }
        case 1: return keep(b_(Op::top_k, {x}, {{"k", int64_t{1}}}));
        case 2: return keep(b_(Op::softmax, {x}, {{"axis", from_end}}));
        case 3: return keep(b_(Op::log_softmax, {x}, {{"axis", axis}}));
        default:
            return keep(b_(ops[below(4)], {x}, {{"axes", std::vector<int64_t>{axis}}, {"keep", int64_t{chance(0.7)}}}));
        }
    }

    void norm() {
        const ValueId x = any();
        if (b_.shape(x).rank() == 0 || b_.shape(x)[-1] < 2) return;
        const Shape row{b_.shape(x)[-1]};
        if (chance(0.5))
            return keep(b_(Op::layer_norm,
                           {x, chance(0.5) ? parameter(row) : kNone, chance(0.5) ? parameter(row) : kNone},
                           {{"epsilon", 1e-2}}));
        keep(b_(Op::rms_norm, {x, chance(0.5) ? parameter(row) : kNone}, {{"epsilon", 1e-2}}));
    }

    void layer(ValueId ids) {
        const ValueId x = sequence();
        switch (below(6)) {
        case 0: {
            const ValueId mask = b_.constant(Kind::int32, Shape{2, 3}, {1, 1, 0, 1, 1, 1});
            std::vector<ValueId> inputs(11, kNone);
            for (std::size_t i = 0; i < 3; ++i) inputs[i] = heads(linear(x, 4));
            if (chance(0.5)) inputs[10] = mask;
            if (chance(0.5)) inputs[3] = parameter(Shape{1, 2, 3, 3});
            const NamedAttribute attributes[] = {{"causal", int64_t{chance(0.5)}},
                                                 {"dropout", options_.dropout && chance(0.3) ? 0.25 : 0.0}};
            const std::vector<ValueId> y = b_.emit(Op::attention, inputs, attributes);
            if (y.empty()) return;
            return keep(b_(Op::reshape,
                           {b_(Op::transpose, {y[0]}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}})},
                           {{"shape", std::vector<int64_t>{2, 3, 4}}}));
        }
        case 1:
        case 2: {
            const bool lstm = chance(0.5);
            const int64_t gates = lstm ? 4 : 3;
            const ValueId inputs[] = {x, parameter(Shape{gates * 2, 4}), parameter(Shape{gates * 2, 2}),
                                      parameter(Shape{gates * 2}), parameter(Shape{gates * 2})};
            const std::vector<ValueId> y = b_.emit(lstm ? Op::lstm : Op::gru, inputs);
            if (y.empty()) return;
            keep(y[0]);
            if (chance(0.5)) keep(y[1]);
            return;
        }
        case 3: {
            const ValueId left = linear(x, 2);
            return keep(b_(Op::matmul, {left, x}, {{"transpose_a", int64_t{1}}}));
        }
        case 4:
            return keep(b_(Op::embedding, {parameter(Shape{5, 4}), ids},
                           {{"no_gradient_id", int64_t{options_.stops ? 1 : -1}}}));
        default: {
            const ValueId table = b_.constant(Kind::float_, Shape{3, 1}, {0.2, 0.5, -0.7});
            return keep(b_(Op::rotary, {heads(x), b_(Op::cos, {table}), b_(Op::sin, {table})}));
        }
        }
    }

    void oddity() {
        const ValueId x = any();
        switch (below(8)) {
        case 0: return keep(b_(Op::site, {x}, {{"name", fmt::format("site {}", below(100))}}));
        case 1: return keep(b_(Op::once, {x}, {{"name", "n"}}));
        case 2: return keep(options_.stops ? b_(Op::stop_gradient, {x}) : b_(Op::neg, {x}));
        case 3: return keep(b_(Op::cast, {b_(Op::cast, {x}, {{"kind", int64_t{1}}})}, {{"kind", int64_t{0}}}));
        case 4: return keep(b_(Op::dropout, {x}, {{"probability", options_.dropout && chance(0.7) ? 0.25 : 0.0}}));
        case 5: return keep(b_(Op::clamp, {x}, {{"low", -0.5}, {"high", 0.75}}));
        case 6: {
            if (b_.shape(x).rank() == 0) return;
            const ValueId rows = b_.iota(2, 0, static_cast<int64_t>(b_.shape(x)[0] > 1));
            const ValueId found = b_(Op::gather, {x, rows});
            return keep(chance(0.5) ? found : b_(Op::scatter_add, {x, rows, found}));
        }
        default: return keep(b_(Op::mul, {x, b_(Op::random_normal, {}, {{"shape", b_.shape(x).vector()}})}));
        }
    }

    Builder b_;
    RandomStream random_;
    RandomGraphOptions options_;
    Feeds feeds_;
    std::vector<ValueId> pool_;
    Shape last_rows_;
    int depth_ = 0;
    bool in_region_ = false;
};

inline RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {}) {
    Result<RandomGraph> made = RandomGraphMaker(seed, options).make();
    REQUIRE_MESSAGE(made.ok(), made.message());
    const Status valid = check(made->graph);
    REQUIRE_MESSAGE(valid.ok(), valid.message());
    return made.take();
}

// Returns all outputs of a graph, by name.
inline std::map<std::string, Tensor> results(const Graph& graph, const Feeds& feeds) {
    std::vector<std::string> names;
    std::vector<ValueId> values;
    const auto want = [&](std::string name, ValueId value) {
        names.push_back(std::move(name));
        values.push_back(value);
    };
    for (const auto& [name, value] : graph.outputs) want("output " + name, value);
    for (std::size_t i = 0; i < graph.losses.size(); ++i) {
        want(fmt::format("loss {} sum", i), graph.losses[i].sum);
        want(fmt::format("loss {} count", i), graph.losses[i].count);
    }
    for (std::size_t i = 0; i < graph.metrics.size(); ++i) want(fmt::format("metric {}", i), graph.metrics[i].sum);
    const auto evaluated = evaluate(graph, feeds, values);
    REQUIRE_MESSAGE(evaluated.ok(), evaluated.message());
    std::map<std::string, Tensor> result;
    for (std::size_t i = 0; i < names.size(); ++i) result[names[i]] = evaluated.value()[i];
    return result;
}

// Checks that both graphs compute the same, to the bit (-0 counts as 0) unless a tolerance is given.
inline void check_same_results(const Graph& before, const Graph& after, const Feeds& feeds, double tolerance = 0.0) {
    const auto expected = results(before, feeds), got = results(after, feeds);
    REQUIRE(expected.size() == got.size());
    for (const auto& [name, tensor] : expected) {
        CAPTURE(name);
        const auto found = got.find(name);
        REQUIRE(found != got.end());
        CHECK(found->second.kind == tensor.kind);
        CHECK(found->second.shape.text() == tensor.shape.text());
        CHECK(distance(found->second.data, tensor.data) <= tolerance);
    }
}

} // namespace hekla::test
