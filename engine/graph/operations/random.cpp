#include "graph/operations/random.hpp"

#include "base/philox.hpp"
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/truncated_normal.hpp"

#include <cmath>
#include <numbers>

namespace hekla::graph {
namespace {

// The first dimension is the example; a scalar is element 0 of example 0.
template<class F>
void for_each_element(const Shape& shape, F f) {
    const int64_t examples = shape.rank() == 0 ? 1 : shape[0];
    if (examples == 0) return;
    const int64_t size = shape.elements() / examples;
    for (int64_t b = 0; b < examples; ++b)
        for (int64_t e = 0; e < size; ++e) f(b * size + e, b, e);
}

std::array<uint32_t, 4> random_block(const Feeds& feeds, int64_t stream, int64_t example, int64_t block) {
    return philox({static_cast<uint32_t>(block),
                   static_cast<uint32_t>(feeds.first_example + static_cast<uint64_t>(example)),
                   static_cast<uint32_t>(feeds.step), static_cast<uint32_t>(stream)},
                  {static_cast<uint32_t>(feeds.seed), static_cast<uint32_t>(feeds.seed >> 32)});
}

} // namespace

uint32_t random_word(const Feeds& feeds, int64_t stream, int64_t example, int64_t element) {
    return random_block(feeds, stream, example, element / 4)[at(element % 4)];
}

double dropout_factor(const Feeds& feeds, int64_t stream, double probability, int64_t example, int64_t element) {
    if (probability <= 0) return 1;
    const bool kept = random_word(feeds, stream, example, element) >= probability * 0x1p32;
    return kept ? 1 / (1 - probability) : 0;
}

namespace {

Result<Outputs> dropout_outputs(const Rule& r) {
    const double p = r.node.real("probability");
    if (!(p >= 0.0 && p < 1.0)) return r.error("probability {} is outside [0, 1)", p);
    return one(r.kind(0), r.shape(0));
}

void dropout_gradient(Backward& b) {
    const Node& node = b.node();
    b.give(0, b.builder()(Op::dropout, {b.dy()},
                          {{"probability", node.real("probability")}, {"stream", node.integer("stream")}}));
}

Status run_dropout(const Call& call) {
    const double probability = call.node.real("probability");
    const int64_t stream = call.node.integer("stream");
    const double* x = call.data(0);
    double* y = call.out().data.data();
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        const double factor = dropout_factor(call.feeds, stream, probability, example, element);
        y[i] = factor == 0 ? 0 : x[i] * factor; // dropped elements are 0 even where x is not finite
    });
    return {};
}

Result<Outputs> random_outputs(const Rule& r) {
    HK_TRY(sizes_ok(r, r.node.ints("shape")));
    return one(Kind::float_, Shape(r.node.ints("shape")));
}

Status run_random_uniform(const Call& call) {
    const int64_t stream = call.node.integer("stream");
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        call.out().data[at(i)] = random_word(call.feeds, stream, example, element) * 0x1p-32;
    });
    return {};
}

double random_normal(const Feeds& feeds, int64_t stream, int64_t example, int64_t element) {
    const auto words = random_block(feeds, stream, example, element / 2);
    const std::size_t first = element % 2 == 0 ? 0 : 2;
    const double u = (words[first] + 1.0) * 0x1p-32; // (0, 1]: the logarithm stays finite
    const double v = words[first + 1] * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Status run_random_normal(const Call& call) {
    const int64_t stream = call.node.integer("stream");
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        call.out().data[at(i)] = random_normal(call.feeds, stream, example, element);
    });
    return {};
}

// Kernels have the probabilities of the bounds in float32.
Result<Outputs> truncated_normal_outputs(const Rule& r) {
    constexpr double kLeast = 1e-30;
    const double low = r.node.real("low"), high = r.node.real("high");
    if (!(low < high)) return r.error("low is {} and high is {}; expected low below high", low, high);
    const double inside = TruncatedNormal(low, high).inside();
    if (inside < kLeast)
        return r.error(
            "a normal number is within [{}, {}] with a probability of {}; expected at least {}: choose bounds "
            "that are nearer to 0 or farther apart",
            low, high, inside, kLeast);
    return random_outputs(r);
}

Status run_truncated_normal(const Call& call) {
    const int64_t stream = call.node.integer("stream");
    const TruncatedNormal distribution(call.node.real("low"), call.node.real("high"));
    for_each_element(call.out().shape, [&](int64_t i, int64_t example, int64_t element) {
        call.out().data[at(i)] = distribution.number_of(random_word(call.feeds, stream, example, element));
    });
    return {};
}

} // namespace

const OperationRules dropout_rules{dropout_outputs, dropout_gradient, run_dropout};
const OperationRules random_uniform_rules{random_outputs, nullptr, run_random_uniform};
const OperationRules random_normal_rules{random_outputs, nullptr, run_random_normal};
const OperationRules truncated_normal_rules{truncated_normal_outputs, nullptr, run_truncated_normal};

} // namespace hekla::graph
