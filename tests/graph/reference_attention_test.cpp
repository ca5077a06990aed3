// The interpreter's attention against PyTorch, against a second implementation of its definition, and over a cache.
#include "base/philox.hpp"
#include "support.hpp"

#include <functional>

namespace hekla::test::reference_attention_test {

namespace {

using Attributes = std::vector<NamedAttribute>;

constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kQueries = 3, kKeys = 5, kWidth = 3, kValueWidth = 2;

struct Place {
    int64_t b, h, i, j;
};

Inputs plain_inputs() {
    Inputs inputs(18);
    inputs[0] = wave({kBatch, kHeads, kQueries, kWidth}, 0.1);
    inputs[1] = wave({kBatch, kKeyHeads, kKeys, kWidth}, 0.2);
    inputs[2] = wave({kBatch, kKeyHeads, kKeys, kValueWidth}, 0.3);
    return inputs;
}

// Of expected().
struct Softmax {
    double cap = 0;                // 0: none
    const Tensor* sinks = nullptr; // null: none
    bool zero_empty = false;
};

double element(const Tensor& x, std::initializer_list<int64_t> index) {
    int64_t place = 0;
    int axis = 0;
    for (const int64_t i : index) {
        place = place * x.shape[axis] + (x.shape[axis] == 1 ? 0 : i);
        ++axis;
    }
    return x.data[static_cast<std::size_t>(place)];
}

// Computes y by the definition: softmax over the allowed keys, and a sink, of scale q.k, which may be capped, + `term`;
// the mean of v if no key is allowed.
std::vector<double> expected(const Inputs& inputs, double scale, const std::function<bool(const Place&)>& allowed,
                             const std::function<double(const Place&)>& term, const Softmax& o = {}) {
    std::vector<double> y;
    for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t h = 0; h < kHeads; ++h)
            for (int64_t i = 0; i < kQueries; ++i) {
                const int64_t g = h / 2;
                std::vector<double> weight(kKeys);
                double total = o.sinks != nullptr ? std::exp(element(*o.sinks, {h})) : 0;
                bool any = o.sinks != nullptr;
                for (int64_t j = 0; j < kKeys; ++j) {
                    if (!allowed({b, h, i, j})) continue;
                    double score = 0;
                    for (int64_t d = 0; d < kWidth; ++d)
                        score += element(*inputs[0], {b, h, i, d}) * element(*inputs[1], {b, g, j, d});
                    any = true;
                    const double s = o.cap > 0 ? o.cap * std::tanh(scale * score / o.cap) : scale * score;
                    total += weight[static_cast<std::size_t>(j)] = std::exp(s + term({b, h, i, j}));
                }
                for (double& w : weight) w = any ? w / total : o.zero_empty ? 0 : 1.0 / kKeys;
                for (int64_t d = 0; d < kValueWidth; ++d) {
                    double sum = 0;
                    for (int64_t j = 0; j < kKeys; ++j)
                        sum += weight[static_cast<std::size_t>(j)] * element(*inputs[2], {b, g, j, d});
                    y.push_back(sum);
                }
            }
    return y;
}

const double kScale = 1 / std::sqrt(3.0);
bool always(const Place&) { return true; }
double nothing(const Place&) { return 0; }

Tensor flags(const Shape& shape, int64_t every) { // 0 at every n-th
    Tensor result{Kind::int32, shape, {}};
    for (int64_t i = 0; i < shape.elements(); ++i) result.data.push_back(i % every == 1 ? 0 : 1);
    return result;
}

} // namespace

TEST_CASE("causal attention with shared key heads equals PyTorch's") {
    const auto y = run(Op::attention, {wave({1, 4, 3, 2}, 0.1), wave({1, 2, 3, 2}, 0.2), wave({1, 2, 3, 2}, 0.3)},
                       {{"causal", int64_t{1}}});
    check_tensor(y[0], {1, 4, 3, 2},
                 {0.29552020666134,   0.841470984807897,   0.735903059634364,  0.736454024170351,  0.412523074083622,
                  0.194471934786669,  0.29552020666134,    0.841470984807897,  0.589225505639201,  0.771431841336327,
                  0.620086990062931,  0.560442962744247,   -0.977530117665097, -0.883454655720154, -0.803294042688108,
                  -0.538535869905908, -0.63506041362346,   -0.365913563818121, -0.977530117665097, -0.883454655720154,
                  -0.53860209319322,  -0.0145500888520143, -0.279838190409386, 0.00668214667700217});
    CHECK(y[1].shape.text() == "[1, 4, 3, 2]");
}

TEST_CASE("every option of attention follows its definition") {
    Inputs in = plain_inputs();
    check_values(run(Op::attention, in)[0], expected(in, kScale, always, nothing));
    check_values(run(Op::attention, in, {{"scale", 0.3}})[0], expected(in, 0.3, always, nothing));
    check_values(run(Op::attention, in, {{"causal", int64_t{1}}})[0],
                 expected(
                     in, kScale, [](const Place& p) { return p.j <= p.i; }, nothing));
    check_values(run(Op::attention, in, {{"window", int64_t{2}}})[0],
                 expected(
                     in, kScale, [](const Place& p) { return p.i - p.j < 2; }, nothing));

    for (const Shape& shape : {Shape{2, 4, 3, 5}, Shape{1, 4, 3, 5}, Shape{2, 1, 3, 5}, Shape{1, 1, 3, 5}}) {
        in = plain_inputs();
        in[3] = wave(shape, 0.4);
        check_values(run(Op::attention, in)[0], expected(in, kScale, always, [&](const Place& p) {
                         return element(*in[3], {p.b, p.h, p.i, p.j});
                     }));
        in = plain_inputs();
        in[12] = flags(shape, 4);
        check_values(run(Op::attention, in)[0], expected(
                                                    in, kScale,
                                                    [&](const Place& p) {
                                                        return element(*in[12], {p.b, p.h, p.i, p.j}) != 0;
                                                    },
                                                    nothing));
    }

    const Attributes tables = {{"distance_first", int64_t{-2}},
                               {"distance_table", std::vector<int64_t>{2, 0, 1}},
                               {"key_distance_first", int64_t{-1}},
                               {"key_distance_table", std::vector<int64_t>{1, 3, 0}}};
    const auto t = [](int64_t d) {
        return std::vector<int64_t>{2, 0, 1}[static_cast<std::size_t>(std::clamp<int64_t>(d + 2, 0, 2))];
    };
    const auto u = [](int64_t d) {
        return std::vector<int64_t>{1, 3, 0}[static_cast<std::size_t>(std::clamp<int64_t>(d + 1, 0, 2))];
    };
    in = plain_inputs();
    in[4] = wave({4, 3}, 0.5);
    check_values(run(Op::attention, in, tables)[0], expected(in, kScale, always, [&](const Place& p) {
                     return element(*in[4], {p.h, t(p.i - p.j)});
                 }));
    in[5] = wave({2, 4, 3, 3}, 0.6);
    in[6] = wave({2, 4, 5, 4}, 0.7);
    const auto all_distances = [&](const Place& p, int64_t d) {
        return element(*in[4], {p.h, t(d)}) + element(*in[5], {p.b, p.h, p.i, t(d)}) +
               element(*in[6], {p.b, p.h, p.j, u(-d)});
    };
    check_values(run(Op::attention, in, tables)[0],
                 expected(in, kScale, always, [&](const Place& p) { return all_distances(p, p.i - p.j); }));

    // Positions affect the distances, causal, window and prefix.
    in[15] = ints({2, 3}, {4, 0, 2, 1, 1, 5});
    in[16] = ints({2, 5}, {0, 1, 2, 3, 4, 3, 0, 2, 5, 1});
    in[17] = ints({2}, {0, 3});
    const auto d = [&](const Place& p) {
        return static_cast<int64_t>(element(*in[15], {p.b, p.i}) - element(*in[16], {p.b, p.j}));
    };
    Attributes moved = tables;
    moved.push_back({"causal", int64_t{1}});
    moved.push_back({"window", int64_t{4}});
    check_values(run(Op::attention, in, moved)[0],
                 expected(
                     in, kScale,
                     [&](const Place& p) {
                         const bool in_prefix = element(*in[16], {p.b, p.j}) < element(*in[17], {p.b});
                         return (d(p) >= 0 || in_prefix) && d(p) < 4;
                     },
                     [&](const Place& p) { return all_distances(p, d(p)); }));

    in = plain_inputs();
    in[7] = wave({2, 4, 3, 2}, 0.8);
    in[8] = ints({2, 3}, {0, 1, 7, 7, 0, 0});
    in[9] = ints({2, 5}, {0, 1, 7, 0, 1, 7, 7, 7, 0, 0});
    check_values(run(Op::attention, in)[0], expected(in, kScale, always, [&](const Place& p) {
                     const bool differ = element(*in[8], {p.b, p.i}) != element(*in[9], {p.b, p.j});
                     return element(*in[7], {p.b, p.h, p.i, differ ? 1 : 0});
                 }));

    in = plain_inputs();
    in[10] = flags({2, 5}, 3);
    in[11] = flags({2, 3}, 3);
    in[13] = ints({2, 3}, {0, 1, 2, 0, 0, 9}); // the last matches no key
    in[14] = ints({2, 5}, {0, 0, 1, 1, 2, 0, 1, 1, 0, 2});
    const auto allowed = [&](const Place& p) {
        return element(*in[10], {p.b, p.j}) != 0 && element(*in[11], {p.b, p.i}) != 0 &&
               element(*in[13], {p.b, p.i}) == element(*in[14], {p.b, p.j});
    };
    check_values(run(Op::attention, in)[0], expected(in, kScale, allowed, nothing));
    check_values(run(Op::attention, in, {{"empty_row", int64_t{1}}})[0],
                 expected(in, kScale, allowed, nothing, {.zero_empty = true}));
}

TEST_CASE("a row without allowed keys gives the mean of v, marks its lse, and has a gradient only for v") {
    Inputs in = plain_inputs();
    in[11] = ints({2, 3}, {1, 0, 1, 1, 1, 1});
    const auto y = run(Op::attention, in, {{"dropout", 0.5}, {"stream", int64_t{3}}}); // dropout keeps the mean
    for (int64_t h = 0; h < kHeads; ++h) {
        CHECK(element(y[1], {0, h, 1, 0}) == 0);
        CHECK(element(y[1], {0, h, 1, 1}) == 1e30);
        CHECK(std::abs(element(y[1], {0, h, 0, 0})) < 10);
        CHECK(std::abs(element(y[1], {0, h, 0, 1})) < 10);
        for (int64_t e = 0; e < kValueWidth; ++e) {
            double mean = 0;
            for (int64_t j = 0; j < kKeys; ++j) mean += element(*in[2], {0, h / 2, j, e}) / kKeys;
            CHECK(element(y[0], {0, h, 1, e}) == doctest::Approx(mean).epsilon(1e-13));
        }
    }
    // A gradient for that row alone: none for q and k, dy / Tk for every head of the group in v.
    Tensor dy = wave(y[0].shape, 0.9);
    for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t h = 0; h < kHeads; ++h)
            for (int64_t i = 0; i < kQueries; ++i)
                for (int64_t e = 0; e < kValueWidth; ++e)
                    if (b != 0 || i != 1)
                        dy.data[static_cast<std::size_t>(((b * kHeads + h) * kQueries + i) * kValueWidth + e)] = 0;
    for (const int64_t empty_row : {0, 1}) {
        Inputs all = {dy, y[0], y[1]};
        all.insert(all.end(), in.begin(), in.end());
        const auto d = run(Op::attention_gradient, all, {{"wanted", int64_t{7}}, {"empty_row", empty_row}});
        CHECK(distance(d[0].data, std::vector<double>(d[0].data.size(), 0.0)) == 0);
        CHECK(distance(d[1].data, std::vector<double>(d[1].data.size(), 0.0)) == 0);
        CHECK(d[3].shape.text() == "[0]"); // not requested
        for (int64_t g = 0; g < kKeyHeads; ++g)
            for (int64_t j = 0; j < kKeys; ++j)
                for (int64_t e = 0; e < kValueWidth; ++e) {
                    const double share = (element(dy, {0, 2 * g, 1, e}) + element(dy, {0, 2 * g + 1, 1, e})) / kKeys;
                    CHECK(std::abs(element(d[2], {0, g, j, e}) - (empty_row != 0 ? 0 : share)) < 1e-15);
                    CHECK(element(d[2], {1, g, j, e}) == 0);
                }
    }
}

TEST_CASE("attention's dropout applies to probabilities by key") {
    // Each column of v selects one probability: Dv = Tk and the identity.
    Inputs in = plain_inputs();
    Tensor identity{Kind::float_, {kBatch, kKeyHeads, kKeys, kKeys}, {}};
    for (int64_t n = 0; n < kBatch * kKeyHeads; ++n)
        for (int64_t i = 0; i < kKeys * kKeys; ++i) identity.data.push_back(i % (kKeys + 1) == 0 ? 1 : 0);
    in[2] = identity;
    Feeds feeds;
    feeds.seed = 5, feeds.step = 6, feeds.first_example = 7;
    const Tensor whole = run(Op::attention, in)[0];
    const Tensor dropped = run(Op::attention, in, {{"dropout", 0.25}, {"stream", int64_t{8}}}, feeds)[0];
    int zeros = 0;
    for (std::size_t n = 0; n < whole.data.size(); ++n) {
        const auto example = static_cast<uint32_t>(n / (kHeads * kQueries * kKeys));
        const auto e = static_cast<uint32_t>(n % (kHeads * kQueries * kKeys)); // (h * Tq + i) * Tk + j
        const bool kept = philox({e / 4, 7 + example, 6, 8}, {5, 0})[e % 4] >= 0.25 * 4294967296.0;
        CHECK(std::abs(dropped.data[n] - (kept ? whole.data[n] / 0.75 : 0)) < 1e-14);
        zeros += kept ? 0 : 1;
    }
    CHECK(zeros > 10);
}

TEST_CASE("attention with -1e30 in its bias ignores those keys, and a row of it gives the mean") {
    Inputs in = plain_inputs();
    in[3] = floats({1, 1, 3, 5}, {0, -1e30, 0, 0, -1e30, -1e30, -1e30, -1e30, -1e30, -1e30, 0, 0, 0, 0, 0});
    Inputs masked = plain_inputs();
    masked[12] = ints({1, 1, 3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
    check_values(run(Op::attention, in)[0], run(Op::attention, masked)[0].data, 1e-13);
    // The two parts of its log-sum-exp are stored separately, so its gradient is exact too.
    const auto y = run(Op::attention, in);
    CHECK(element(y[1], {0, 0, 1, 0}) == -1e30);
    CHECK(element(y[1], {0, 0, 1, 1}) == doctest::Approx(std::log(5.0)));
    Inputs all = {wave(y[0].shape, 0.9), y[0], y[1]};
    all.insert(all.end(), in.begin(), in.end());
    const auto d = run(Op::attention_gradient, all, {{"wanted", int64_t{15}}});
    for (const Tensor& gradient : d)
        for (const double g : gradient.data) CHECK_UNARY(std::abs(g) < 100);
}

namespace {

Tensor part(const Tensor& x, int64_t start, int64_t length) {
    return run1(Op::slice, {x}, {{"axis", int64_t{2}}, {"start", start}, {"length", length}});
}

// Rows of `cache` belong to the positions in order, unless specified otherwise.
Tensor own_rows(int64_t batch, int64_t capacity) {
    Tensor rows{Kind::int32, {batch, capacity}, {}};
    for (int64_t i = 0; i < batch * capacity; ++i) rows.data.push_back(static_cast<double>(i / capacity));
    return rows;
}

} // namespace

TEST_CASE("capped scores, sinks and windows on both sides follow the definition of attention") {
    Inputs in = plain_inputs();
    check_values(run(Op::attention, in, {{"softcap", 0.3}})[0], expected(in, kScale, always, nothing, {.cap = 0.3}));
    check_values(run(Op::attention, in, {{"window", int64_t{2}}, {"window_after", int64_t{3}}})[0],
                 expected(
                     in, kScale, [](const Place& p) { return p.i - p.j < 2 && p.j - p.i < 3; }, nothing));
    check_values(run(Op::attention, in, {{"window_after", int64_t{1}}})[0],
                 run(Op::attention, in, {{"causal", int64_t{1}}})[0].data);
    in[3] = wave({1, 4, 3, 5}, 0.4); // is added to the capped score
    in.resize(19);
    in[18] = wave({4}, 0.7);
    const auto bias = [&](const Place& p) { return element(*in[3], {p.b, p.h, p.i, p.j}); };
    check_values(run(Op::attention, in, {{"softcap", 0.2}})[0],
                 expected(in, kScale, always, bias, {.cap = 0.2, .sinks = &*in[18]}));
    in[12] = flags({2, 1, 3, 5}, 4);
    for (std::size_t j = 0; j < 5; ++j) in[12]->data[j] = 0; // nothing but the sink
    const auto allowed = [&](const Place& p) { return element(*in[12], {p.b, p.h, p.i, p.j}) != 0; };
    const Tensor y = run(Op::attention, in)[0];
    check_values(y, expected(in, kScale, allowed, bias, {.sinks = &*in[18]}));
    CHECK(y.data[0] == 0);
    CHECK(try_run(Op::attention, in, {{"softcap", -1.0}}).code() == Code::invalid_argument);
    in[18] = wave({3}, 0.7);
    CHECK(try_run(Op::attention, in).code() == Code::invalid_argument);
}

TEST_CASE("attention over a cache, in chunks of any size, equals attention over everything") {
    const int64_t length = 7, capacity = 8;
    const Tensor q = wave({2, 4, length, 3}, 0.1), k = wave({2, 2, length, 3}, 0.2), v = wave({2, 2, length, 2}, 0.3);
    const Tensor distance_bias = wave({4, 3}, 0.4);
    const Tensor sinks = wave({4}, 0.6);
    for (const int64_t window : {0, 3})
        for (const bool biased : {false, true}) {
            Attributes attributes = {{"causal", int64_t{1}}, {"window", window}, {"softcap", biased ? 0.4 : 0.0}};
            Inputs whole = {q, k, v};
            if (biased) {
                whole.resize(19);
                whole[4] = distance_bias;
                whole[18] = sinks;
                attributes.push_back({"distance_first", int64_t{0}});
                attributes.push_back({"distance_table", std::vector<int64_t>{0, 2, 1}});
            }
            const Tensor expected_y = run(Op::attention, whole, attributes)[0];
            attributes.push_back({"capacity", capacity});
            attributes.push_back({"cache", std::string("layer.0")});
            for (const auto& chunks :
                 {std::vector<int64_t>{7}, std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1}, std::vector<int64_t>{4, 2, 1}}) {
                std::map<std::string, Tensor> caches;
                int64_t start = 0;
                for (const int64_t chunk : chunks) {
                    const double s = static_cast<double>(start), c = static_cast<double>(chunk);
                    Inputs in = {part(q, start, chunk), part(k, start, chunk), part(v, start, chunk),
                                 ints({2}, {s, s}),     ints({2}, {c, c}),     own_rows(2, capacity)};
                    if (biased) in.insert(in.end(), {distance_bias, sinks});
                    const auto y = run(Op::attention_cached, in, attributes, {}, &caches);
                    check_values(y[0], part(expected_y, start, chunk).data, 1e-13);
                    start += chunk;
                }
                CHECK(caches.at("layer.0.k").shape.text() == "[2, 2, 8, 3]");
                CHECK(caches.at("layer.0.v").shape.text() == "[2, 2, 8, 2]");
            }
        }
}

TEST_CASE("rows of a cache have their own lengths, and a row can read another row's keys") {
    const Tensor q = wave({2, 1, 2, 3}, 0.1), k = wave({2, 1, 2, 3}, 0.2), v = wave({2, 1, 2, 2}, 0.3);
    const Attributes attributes = {{"causal", int64_t{1}}, {"capacity", int64_t{4}}, {"cache", std::string("c")}};
    std::map<std::string, Tensor> caches;
    // Row 0 has two tokens, row 1 one.
    const auto y = run(Op::attention_cached, {q, k, v, ints({2}, {0, 0}), ints({2}, {2, 1}), own_rows(2, 4)},
                       attributes, {}, &caches);
    const Tensor full = run(Op::attention, {q, k, v}, {{"causal", int64_t{1}}})[0];
    check_values(y[0], {full.data[0], full.data[1], full.data[2], full.data[3], full.data[4], full.data[5], 0, 0},
                 1e-14);
    // Then row 1 continues from row 0's two tokens, as a beam does; row 0 has no new tokens.
    const Tensor next_q = wave({2, 1, 1, 3}, 0.5), next_k = wave({2, 1, 1, 3}, 0.6), next_v = wave({2, 1, 1, 2}, 0.7);
    const auto next =
        run(Op::attention_cached,
            {next_q, next_k, next_v, ints({2}, {2, 2}), ints({2}, {0, 1}), ints({2, 4}, {0, 0, 0, 0, 0, 0, 1, 1})},
            attributes, {}, &caches);
    const auto row = [](const Tensor& x, int64_t b) {
        return run1(Op::slice, {x}, {{"axis", int64_t{0}}, {"start", b}, {"length", int64_t{1}}});
    };
    const auto joined = [&](const Tensor& old, const Tensor& fresh) {
        return run1(Op::concat, {row(old, 0), row(fresh, 1)}, {{"axis", int64_t{2}}});
    };
    const Tensor beam = run(Op::attention, {row(next_q, 1), joined(k, next_k), joined(v, next_v)})[0];
    check_values(next[0], {0, 0, beam.data[0], beam.data[1]}, 1e-14);

    const auto full_cache =
        try_run(Op::attention_cached, {next_q, next_k, next_v, ints({2}, {4, 2}), ints({2}, {1, 1}), own_rows(2, 4)},
                attributes, {}, &caches);
    CHECK(full_cache.code() == Code::invalid_argument);
    CHECK(!try_run(Op::attention_cached, {next_q, next_k, next_v, ints({2}, {2, 2}), ints({2}, {1, 1}), own_rows(2, 4)},
                   attributes)
               .ok());
}

} // namespace hekla::test::reference_attention_test
