// The interpreter's matrix products, norms, rotary positions, loss and recurrent layers. Long numbers are PyTorch's, in
// float64, on inputs made by wave().
#include "support.hpp"

namespace hekla::graph::test::reference_layers_test {

namespace {

std::vector<double> scaled(std::vector<double> values, double by) {
    for (double& value : values) value *= by;
    return values;
}

// a [m, k] b [k, n], by the definition.
std::vector<double> product(const double* a, const double* b, int64_t m, int64_t k, int64_t n) {
    std::vector<double> y(static_cast<std::size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
            for (int64_t p = 0; p < k; ++p) y[static_cast<std::size_t>(i * n + j)] += a[i * k + p] * b[p * n + j];
    return y;
}

Tensor swapped(const Tensor& x) { // the last two dimensions
    std::vector<int64_t> permutation;
    for (int64_t axis = 0; axis < x.shape.rank(); ++axis) permutation.push_back(axis);
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
    return run1(Op::transpose, {x}, {{"permutation", permutation}});
}

} // namespace

TEST_CASE("matmul agrees with its definition at every size and flag") {
    const int64_t sizes[][3] = {{1, 1, 1},   {2, 3, 5},   {4, 4, 4},   {5, 256, 7},
                                {3, 257, 4}, {9, 600, 1}, {17, 2, 33}, {3, 0, 2}};
    for (const auto& [m, k, n] : sizes) {
        const Tensor a = wave({m, k}, 0.1), b = wave({k, n}, 0.2);
        const std::vector<double> expected = product(a.data.data(), b.data.data(), m, k, n);
        for (const int64_t ta : {0, 1})
            for (const int64_t tb : {0, 1})
                check_tensor(run1(Op::matmul, {ta != 0 ? swapped(a) : a, tb != 0 ? swapped(b) : b},
                                  {{"transpose_a", ta}, {"transpose_b", tb}}),
                             {m, n}, expected, 1e-11);
    }
}

TEST_CASE("matmul broadcasts its leading dimensions") {
    const Tensor a = wave({2, 1, 3, 4}, 0.1), b = wave({3, 4, 2}, 0.2);
    const Tensor y = run1(Op::matmul, {a, b});
    CHECK(y.shape.text() == "[2, 3, 3, 2]");
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j) {
            const std::vector<double> expected = product(a.data.data() + i * 12, b.data.data() + j * 8, 3, 4, 2);
            const std::vector<double> part(y.data.begin() + static_cast<int64_t>((i * 3 + j) * 6),
                                           y.data.begin() + static_cast<int64_t>((i * 3 + j + 1) * 6));
            CHECK(distance(part, expected) < 1e-13);
        }
    check_tensor(run1(Op::matmul, {wave({0, 2, 3}, 0), wave({3, 2}, 0)}), {0, 2, 2}, {});
}

TEST_CASE("linear reads its weight either way round") {
    const Tensor x = floats({2, 1, 2}, {1, 2, 3, 4}), weight = floats({3, 2}, {1, 0, 0, 1, 1, 1});
    check_tensor(run1(Op::linear, {x, weight}), {2, 1, 3}, {1, 2, 3, 3, 4, 7});
    check_tensor(run1(Op::linear, {x, weight, floats({3}, {10, 20, 30})}), {2, 1, 3}, {11, 22, 33, 13, 24, 37});
    check_tensor(run1(Op::linear, {x, swapped(weight), floats({3}, {10, 20, 30})}, {{"input_first", int64_t{1}}}),
                 {2, 1, 3}, {11, 22, 33, 13, 24, 37});
}

TEST_CASE("layer_norm and rms_norm") {
    const Tensor x = wave({2, 3}, 0.1), gain = wave({3}, 0.2), bias = wave({3}, 0.3);
    const auto layer = run(Op::layer_norm, {x, gain, bias});
    check_values(layer[0], {0.027954057769993, 1.07638132687177, 2.03812182549301, 0.531222228091884, 0.898919829525837,
                            -0.26754125223172});
    CHECK(layer[1].data[0] == doctest::Approx((x.data[0] + x.data[1] + x.data[2]) / 3));
    CHECK(layer[1].shape.text() == "[2]");
    check_values(run1(Op::rms_norm, {x, gain}), {0.027868118384006, 0.789548330745653, 1.4009620908079,
                                                 0.292165945494827, 0.340890145877149, -0.804579179179468});
    // Without gain: mean 0 and deviation 1, whatever was added and multiplied.
    const Tensor wide = floats({1, 4}, {1e6 + 1, 1e6 + 3, 1e6 - 1, 1e6 + 7});
    const auto plain = run(Op::layer_norm, {wide}, {{"epsilon", 0.0}});
    double mean = 0, square = 0;
    for (const double y : plain[0].data) mean += y / 4, square += y * y / 4;
    CHECK(std::abs(mean) < 1e-9);
    CHECK(std::abs(square - 1) < 1e-9);
    CHECK(plain[2].data[0] == doctest::Approx(1 / std::sqrt(8.75)));
    check_values(run1(Op::rms_norm, {floats({2}, {3, 4})}, {{"epsilon", 0.0}}),
                 {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
    check_values(run1(Op::layer_norm, {floats({2, 1}, {3, 4}), std::nullopt, floats({1}, {5})}), {5, 5});
}

TEST_CASE("softmax and log_softmax along any axis") {
    const Tensor x = floats({2, 2}, {0, std::log(3), 1000, 1000});
    check_values(run1(Op::softmax, {x}), {0.25, 0.75, 0.5, 0.5});
    check_values(run1(Op::log_softmax, {x}), {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)}, 1e-12);
    check_values(run1(Op::softmax, {x}, {{"axis", int64_t{0}}}), {0, 0, 1, 1});
    check_values(run1(Op::softmax, {floats({2}, {-INFINITY, 0})}), {0, 1});
    check_values(run1(Op::softmax_gradient, {floats({2}, {1, 2}), floats({2}, {0.25, 0.75})}, {{"axis", int64_t{0}}}),
                 {0.25 * (1 - 1.75), 0.75 * (2 - 1.75)});
    const Tensor three = wave({3, 4, 5}, 0.1);
    const Tensor y = run1(Op::softmax, {three}, {{"axis", int64_t{1}}});
    const Tensor sums = run1(Op::sum, {y}, {{"axes", std::vector<int64_t>{1}}});
    CHECK(distance(sums.data, std::vector<double>(15, 1.0)) < 1e-14);
    check_values(run1(Op::exp, {run1(Op::log_softmax, {three}, {{"axis", int64_t{1}}})}), y.data, 1e-14);
}

TEST_CASE("rotary turns pairs") {
    const double c0 = 1, s0 = 0, c1 = 0.6, s1 = 0.8;
    const Tensor cosine = floats({2, 1}, {c0, c1}), sine = floats({2, 1}, {s0, s1});
    const Tensor x = floats({1, 1, 2, 3}, {1, 2, 9, 1, 2, 9});
    check_tensor(run1(Op::rotary, {x, cosine, sine}), x.shape, {1, 2, 9, 0.6 - 1.6, 1.2 + 0.8, 9});
    check_tensor(run1(Op::rotary, {x, cosine, sine, ints({1, 2}, {1, 0})}), x.shape, {-1, 2, 9, 1, 2, 9});
    check_tensor(run1(Op::rotary, {x, cosine, sine}, {{"inverse", int64_t{1}}}), x.shape, {1, 2, 9, 2.2, 0.4, 9});
    // Half split pairs (0, 2), (1, 3); interleaved (0, 1), (2, 3).
    const Tensor quarter_cosine = floats({1, 2}, {0, 1}), quarter_sine = floats({1, 2}, {1, 0}); // pair 0 by 90 degrees
    const Tensor four = floats({1, 1, 1, 4}, {1, 2, 3, 4});
    check_values(run1(Op::rotary, {four, quarter_cosine, quarter_sine}), {-3, 2, 1, 4});
    check_values(run1(Op::rotary, {four, quarter_cosine, quarter_sine}, {{"interleaved", int64_t{1}}}), {-2, 1, 3, 4});
    // The product of two turned vectors depends on the distance of their positions alone.
    Tensor table_cosine{Kind::float_, {8, 2}, {}}, table_sine{Kind::float_, {8, 2}, {}};
    for (int position = 0; position < 8; ++position)
        for (const double frequency : {1.0, 0.1}) {
            table_cosine.data.push_back(std::cos(position * frequency));
            table_sine.data.push_back(std::sin(position * frequency));
        }
    const auto turned = [&](double start, double position) {
        return run1(Op::rotary, {wave({1, 1, 1, 4}, start), table_cosine, table_sine, ints({1, 1}, {position})}).data;
    };
    const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
        double sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
        return sum;
    };
    CHECK(dot(turned(0.1, 5), turned(0.9, 2)) == doctest::Approx(dot(turned(0.1, 7), turned(0.9, 4))).epsilon(1e-13));
    CHECK(dot(turned(0.1, 5), turned(0.9, 2)) != doctest::Approx(dot(turned(0.1, 5), turned(0.9, 4))).epsilon(1e-3));
    CHECK(!try_run(Op::rotary, {x, cosine, sine, ints({1, 2}, {0, 2})}).ok());
}

TEST_CASE("cross_entropy with weights, smoothing and ignored rows is PyTorch's") {
    const Tensor logits = floats({4, 3}, scaled(wave({4, 3}, 0.1).data, 2));
    const Tensor labels = ints({4}, {2, -100, 0, 1}), weights = floats({3}, {0.5, 2, 1.25});
    const Tensor dloss = floats({4}, {1, 2, 3, -1});
    struct Expected {
        bool weighted;
        double smoothing;
        std::vector<double> loss, gradient;
    };
    const std::vector<Expected> all = {
        {false,
         0,
         {0.552230980111601, 0, 1.38507189241244, 1.10139218644441},
         {0.0956027092371066, 0.32873320918378, -0.424335918420887, 0, 0, 0, -2.24908258782983, 0.689370594496046,
          1.55971199333378, -0.0976630629931298, 0.667592012479475, -0.569928949486345}},
        {false,
         0.2,
         {0.709271042199836, 0, 1.34204228491402, 1.1471049237813},
         {0.0289360425704399, 0.262066542517114, -0.291002585087553, 0, 0, 0, -1.84908258782983, 0.489370594496046,
          1.35971199333378, -0.0309963963264631, 0.534258679146142, -0.503262282819679}},
        {true,
         0,
         {0.690288725139502, 0, 0.692535946206218, 2.20278437288883},
         {0.119503386546383, 0.410916511479725, -0.530419898026108, 0, 0, 0, -1.12454129391491, 0.344685297248023,
          0.77985599666689, -0.19532612598626, 1.33518402495895, -1.13985789897269}},
        {true,
         0.2,
         {0.824836535324525, 0, 0.85078555448643, 2.03347448306574},
         {0.0861700532130499, 0.277583178146392, -0.363753231359442, 0, 0, 0, -0.811903682089387, 0.0480908864224297,
          0.763812795666957, -0.147343333203957, 1.11837855642036, -0.971035223216406}}};
    for (const Expected& expected : all) {
        std::optional<Tensor> weight;
        if (expected.weighted) weight = weights;
        const auto forward = run(Op::cross_entropy, {logits, labels, weight}, {{"smoothing", expected.smoothing}});
        CHECK(forward[0].kind == Kind::float32);
        check_tensor(forward[0], {4}, expected.loss);
        check_tensor(run1(Op::cross_entropy_gradient, {dloss, logits, labels, forward[1], weight},
                          {{"smoothing", expected.smoothing}}),
                     {4, 3}, expected.gradient);
    }
    check_values(run1(Op::cross_entropy, {floats({1, 2}, {1000, 0}), ints({1}, {1})}), {1000});
    check_values(run1(Op::cross_entropy, {floats({1, 2}, {1000, 0}), ints({1}, {1})}, {{"ignore_index", int64_t{1}}}),
                 {0});
    for (const double bad : {3.0, -1.0}) {
        const auto refused = try_run(Op::cross_entropy, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), ints({2}, {0, bad})});
        CHECK(refused.code() == Code::invalid_argument);
        CHECK_MESSAGE(refused.message().find("of row 1") != std::string::npos, refused.message());
    }
}

namespace {

Inputs recurrent_inputs(int64_t gates, bool cell) {
    Inputs inputs = {wave({2, 3, 2}, 0.1),   wave({gates * 2, 2}, 0.2), wave({gates * 2, 2}, 0.3),
                     wave({gates * 2}, 0.4), wave({gates * 2}, 0.5),    ints({2}, {3, 2}),
                     wave({2, 2}, 0.6)};
    if (cell) inputs.push_back(wave({2, 2}, 0.7));
    return inputs;
}

} // namespace

TEST_CASE("gru over padded sequences is PyTorch's") {
    const auto forward = run(Op::gru, recurrent_inputs(3, false));
    check_tensor(forward[0], {2, 3, 2},
                 {0.407786205077769, 0.728212473438494, 0.221202604782409, 0.820821215109889, 0.148532032924017,
                  0.229402598921693, 0.799940456172341, 0.194786435941793, 0.662604858887028, -0.133571767295881, 0,
                  0});
    check_tensor(forward[1], {2, 2}, {0.148532032924017, 0.229402598921693, 0.662604858887028, -0.133571767295881});
    const auto backward = run(Op::gru, recurrent_inputs(3, false), {{"reverse", int64_t{1}}});
    check_tensor(backward[0], {2, 3, 2},
                 {0.188793227576368, 0.322498521784366, 0.248229270534253, 0.590939085672181, 0.420304901087334,
                  0.303910597749993, 0.665930496361392, -0.0960375844913681, 0.738087063152129, 0.00809704196333305, 0,
                  0});
    check_tensor(backward[1], {2, 2}, {0.188793227576368, 0.322498521784366, 0.665930496361392, -0.0960375844913681});
}

TEST_CASE("lstm over padded sequences is PyTorch's") {
    const auto forward = run(Op::lstm, recurrent_inputs(4, true));
    check_tensor(forward[0], {2, 3, 2},
                 {0.081583397904055, 0.0181934349852215, -0.00886257748611191, 0.0233011577459499, -0.0365133663878229,
                  -0.0754162742316433, 0.0576935139380096, -0.106574163624174, 0.0442387780911639, -0.168987373548459,
                  0, 0});
    check_tensor(forward[1], {2, 2},
                 {-0.0365133663878229, -0.0754162742316433, 0.0442387780911639, -0.168987373548459});
    check_tensor(forward[2], {2, 2}, {-0.282690307654951, -0.377269001577867, 0.558878515346034, -1.15633570460019});
    const auto backward = run(Op::lstm, recurrent_inputs(4, true), {{"reverse", int64_t{1}}});
    check_tensor(backward[0], {2, 3, 2},
                 {-0.028826741132689, -0.0315530223045673, -0.0429367557286339, 0.0133006080870372, 0.0495857062656805,
                  0.014954719921226, 0.0295087581358379, -0.304372766933569, 0.0779543873594396, -0.0232123575601003, 0,
                  0});
    check_tensor(backward[1], {2, 2},
                 {-0.028826741132689, -0.0315530223045673, 0.0295087581358379, -0.304372766933569});
    check_tensor(backward[2], {2, 2}, {-0.21719791655279, -0.37279881573107, 0.528306685335126, -0.832547709012329});
}

TEST_CASE("a recurrent layer cut in two, the state handed on, is the whole") {
    for (const Op op : {Op::gru, Op::lstm}) {
        const bool cell = op == Op::lstm;
        Inputs inputs = recurrent_inputs(cell ? 4 : 3, cell);
        inputs[5] = std::nullopt;
        const auto whole = run(op, inputs);
        const Tensor x = *inputs[0];
        const auto part = [&](int64_t start, int64_t length) {
            return run1(Op::slice, {x}, {{"axis", int64_t{1}}, {"start", start}, {"length", length}});
        };
        inputs[0] = part(0, 2);
        const auto first = run(op, inputs);
        inputs[0] = part(2, 1);
        inputs[6] = first[1];
        if (cell) inputs[7] = first[2];
        const auto second = run(op, inputs);
        const Tensor joined = run1(Op::concat, {first[0], second[0]}, {{"axis", int64_t{1}}});
        check_values(joined, whole[0].data, 1e-15);
        check_values(second[1], whole[1].data, 1e-15);
    }
    Inputs inputs = recurrent_inputs(3, false);
    inputs[5] = ints({2}, {0, 3});
    const Tensor last = run(Op::gru, inputs)[1]; // a row without a token keeps its state
    inputs[5] = std::nullopt;
    const Tensor whole = run(Op::gru, inputs)[1];
    check_values(last, {inputs[6]->data[0], inputs[6]->data[1], whole.data[2], whole.data[3]});
    inputs[5] = ints({2}, {4, 0});
    CHECK(!try_run(Op::gru, inputs).ok());
}

} // namespace hekla::graph::test::reference_layers_test
