// Gradients of every operation against finite differences, and against PyTorch's conventions at ties and kinks.
#include "gradient_cases.hpp"

#include "graph/operations/loop.hpp"

#include <set>

namespace hekla::test {

namespace {

using Values = std::span<const ValueId>;
using Attributes = std::vector<NamedAttribute>;

// One operation applied to all variables.
GradientCase case_of(Op op, std::string name, std::vector<Variable> variables, Attributes attributes = {}) {
    return {info(op).name + std::string(" ") + name, std::move(variables),
            [=](Builder& b, Values x) { return b.emit(op, x, attributes); }};
}

} // namespace

std::vector<GradientCase> pointwise_cases() {
    std::vector<GradientCase> cases;
    const std::vector<std::pair<Shape, Shape>> shapes = {{{3, 5}, {3, 5}}, {{3, 5}, {5}},       {{3, 1}, {1, 5}},
                                                         {{}, {2, 3}},     {{2, 1, 7}, {3, 1}}, {{1}, {1}},
                                                         {{1, 1}, {7}}};
    for (const auto& [a, b] : shapes)
        for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::pow, Op::minimum, Op::maximum})
            for (const bool swapped : {false, true}) {
                const bool positive = op == Op::div || op == Op::pow;
                const double low = positive ? 0.5 : -1, high = positive ? 2 : 1;
                cases.push_back(
                    case_of(op, a.text() + b.text(), {{swapped ? b : a, low, high}, {swapped ? a : b, low, high}}));
            }
    for (const auto& [a, b] : shapes) {
        cases.push_back({"where " + a.text() + b.text(), {{a}, {b}}, [shape = a](Builder& g, Values x) {
                             std::vector<double> condition(static_cast<std::size_t>(shape.elements()));
                             for (std::size_t i = 0; i < condition.size(); ++i) condition[i] = i % 3 == 0 ? 1 : 0;
                             return std::vector{g(Op::where, {g.constant(Kind::int32, shape, condition), x[0], x[1]})};
                         }});
    }
    for (const double exponent : {2.0, 3.0, 0.5, -1.0, 0.0})
        cases.push_back({fmt::format("pow to {}", exponent), {{{5}, 0.5, 2}}, [=](Builder& b, Values x) {
                             return std::vector{b(Op::pow, {x[0], b.scalar(exponent)})};
                         }});
    cases.push_back({"a value with itself", {{{3}, 0.5, 2}}, [](Builder& b, Values x) {
                         return std::vector{b(Op::mul, {x[0], x[0]}), b(Op::div, {x[0], x[0]}),
                                            b(Op::pow, {x[0], x[0]}), b(Op::sub, {x[0], x[0]})};
                     }});
    for (const Op op : {Op::neg, Op::exp, Op::sin, Op::cos, Op::erf, Op::tanh, Op::sigmoid, Op::softplus,
                        Op::log_sigmoid, Op::silu, Op::gelu}) {
        cases.push_back(case_of(op, "wide", {{{3, 7}, -3, 3}}));
        cases.push_back(case_of(op, "scalar", {{{}, -3, 3}}));
    }
    cases.push_back(case_of(Op::gelu, "tanh", {{{11}, -3, 3}}, {{"tanh_approximation", int64_t{1}}}));
    for (const Op op : {Op::log, Op::log1p, Op::sqrt, Op::rsqrt})
        cases.push_back(case_of(op, "positive", {{{11}, 0.5, 3}}));
    // inputs away from the kinks
    for (const Op op : {Op::abs, Op::relu})
        cases.push_back(case_of(op, "both sides", {{{4}, 0, 0, {-1.5, -0.25, 0.25, 2}}}));
    cases.push_back(
        case_of(Op::clamp, "three sides", {{{4}, 0, 0, {-1.5, -0.25, 0.25, 2}}}, {{"low", -0.5}, {"high", 1.0}}));
    cases.push_back(case_of(Op::cast, "to float32", {{{3}}}, {{"kind", int64_t{1}}}));
    for (const Shape& shape : {Shape{3, 5}, Shape{7}, Shape{}, Shape{1, 2, 3}})
        cases.push_back(case_of(Op::dropout, shape.text(), {{shape}}, {{"probability", 0.4}}));
    return cases;
}

std::vector<GradientCase> shape_cases() {
    std::vector<GradientCase> cases;
    const auto ints_of = [](std::initializer_list<int64_t> x) { return std::vector<int64_t>(x); };
    cases.push_back(case_of(Op::reshape, "", {{{2, 3, 5}}}, {{"shape", ints_of({5, -1})}}));
    cases.push_back(case_of(Op::transpose, "", {{{2, 3, 5}}}, {{"permutation", ints_of({1, 2, 0})}}));
    cases.push_back(case_of(Op::transpose, "same", {{{2, 3}}}, {{"permutation", ints_of({0, 1})}}));
    for (const int64_t axis : {int64_t{0}, int64_t{1}, int64_t{-1}}) {
        cases.push_back(
            case_of(Op::slice, "", {{{5, 7, 5}}},
                    {{"axis", axis}, {"start", int64_t{1}}, {"length", int64_t{2}}, {"stride", int64_t{3}}}));
        cases.push_back(case_of(Op::pad, "", {{{2, 3, 1}}},
                                {{"axis", axis}, {"before", int64_t{2}}, {"after", int64_t{1}}, {"value", 4.0}}));
        cases.push_back(case_of(Op::flip, "", {{{2, 3, 5}}}, {{"axis", axis}}));
        cases.push_back(case_of(Op::concat, "", {{{2, 3, 2}}, {{2, 3, 2}}}, {{"axis", axis}}));
    }
    cases.push_back(case_of(Op::concat, "unequal", {{{2, 3}}, {{2, 1}}, {{2, 0}}, {{2, 7}}}, {{"axis", int64_t{-1}}}));
    cases.push_back({"concat of one value twice", {{{2, 3}}}, [](Builder& b, Values x) {
                         return std::vector{b(Op::concat, {x[0], x[0]}, {{"axis", int64_t{0}}})};
                     }});
    cases.push_back(case_of(Op::broadcast, "", {{{3, 1}}}, {{"shape", ints_of({2, 3, 5})}}));
    cases.push_back(case_of(Op::broadcast, "scalar", {{{}}}, {{"shape", ints_of({2, 3})}}));
    for (const Op op : {Op::once, Op::state_read, Op::state_write, Op::site, Op::tap})
        cases.push_back(case_of(op, "", {{{3}}}, {{"name", std::string("n")}}));
    return cases;
}

std::vector<GradientCase> reduce_cases() {
    std::vector<GradientCase> cases;
    const std::vector<std::vector<int64_t>> axes = {{0}, {1}, {-1}, {0, 2}, {0, 1, 2}, {}};
    for (const Op op : {Op::sum, Op::mean, Op::max, Op::logsumexp})
        for (const auto& a : axes)
            for (const int64_t keep : {0, 1})
                cases.push_back(case_of(op, fmt::format("[{}] keep {}", fmt::join(a, ","), keep), {{{2, 3, 5}, -2, 2}},
                                        {{"axes", a}, {"keep", keep}}));
    for (const int64_t axis : {0, 1, -1}) {
        for (const int64_t reverse : {0, 1})
            for (const Op op : {Op::cumsum, Op::cumprod, Op::cummax, Op::logcumsumexp})
                for (const Shape& shape : {Shape{2, 3, 5}, Shape{1, 7, 1}, Shape{1, 1}})
                    if (axis < shape.rank())
                        cases.push_back(
                            case_of(op, shape.text(), {{shape, -2, 2}}, {{"axis", axis}, {"reverse", reverse}}));
        for (const int64_t reverse : {0, 1}) {
            const std::vector<NamedAttribute> along = {{"axis", axis}, {"reverse", reverse}};
            const Shape lines[] = {{3, 5}, {2, 5}, {2, 3}};
            cases.push_back(case_of(Op::scan_linear, "", {{{2, 3, 5}}, {{2, 3, 5}}}, along));
            cases.push_back(case_of(Op::scan_linear, "from an initial value",
                                    {{{2, 3, 5}}, {{2, 3, 5}}, {lines[axis < 0 ? 2 : axis]}}, along));
            cases.push_back(case_of(Op::scan_linear, "of one", {{{1, 1}}, {{1, 1}}, {{1}}},
                                    {{"axis", axis < 0 ? int64_t{0} : axis}, {"reverse", reverse}}));
        }
        cases.push_back(case_of(Op::softmax, "", {{{3, 2, 7}, -3, 3}}, {{"axis", axis}}));
        cases.push_back(case_of(Op::log_softmax, "", {{{3, 2, 7}, -3, 3}}, {{"axis", axis}}));
        cases.push_back(case_of(Op::softmax, "of one", {{{1}}}, {{"axis", int64_t{0}}}));
    }
    cases.push_back(case_of(Op::cumprod, "of zeros", {{{7}, 0, 0, {2, -1, 0, 3, 0.5, 0, 4}}}, {{"axis", int64_t{0}}}));
    cases.push_back(case_of(Op::logcumsumexp, "of distant numbers", {{{6}, 0, 0, {90, -90, 2, 89, 91, -3}}},
                            {{"axis", int64_t{0}}}));
    cases.push_back(case_of(Op::top_k, "", {{{3, 7}}}, {{"k", int64_t{3}}}));
    cases.push_back(case_of(Op::top_k, "all", {{{5}}}, {{"k", int64_t{5}}}));
    return cases;
}

namespace {

// Gradients of one value with respect to its parameters, without a prelude: for exact comparisons at kinks.
std::vector<Tensor> gradients_at(const std::vector<Tensor>& points,
                                 const std::function<ValueId(Builder&, Values)>& describe) {
    Builder b;
    Feeds feeds;
    std::vector<ValueId> parameters;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const std::string name = fmt::format("p{}", i);
        parameters.push_back(b.parameter(name, points[i].shape, 0, 0, 0, 0));
        feeds.parameters[name] = points[i];
    }
    const ValueId y = describe(b, parameters);
    std::vector<int64_t> axes;
    for (int64_t axis = 0; b.ok() && axis < b.shape(y).rank(); ++axis) axes.push_back(axis);
    b.loss("loss", b(Op::sum, {y}, {{"axes", axes}}), b.scalar(1), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    auto graph = differentiate(described.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    std::vector<ValueId> wanted;
    for (std::size_t i = 0; i < points.size(); ++i) wanted.push_back(graph->outputs.at(fmt::format("grad.p{}", i)));
    auto result = evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

Tensor points(std::vector<double> data) {
    const Shape shape{static_cast<int64_t>(data.size())};
    return floats(shape, std::move(data));
}

void check_all(const std::vector<GradientCase>& cases) {
    for (const GradientCase& c : cases) check_gradients(c);
}

} // namespace

TEST_CASE("gradients agree with finite differences: pointwise") { check_all(pointwise_cases()); }
TEST_CASE("gradients agree with finite differences: shape") { check_all(shape_cases()); }
TEST_CASE("gradients agree with finite differences: reductions") { check_all(reduce_cases()); }
TEST_CASE("gradients agree with finite differences: layers") { check_all(layer_cases()); }
TEST_CASE("gradients agree with finite differences: recurrent layers") { check_all(recurrent_cases()); }
TEST_CASE("gradients agree with finite differences: attention") { check_all(attention_cases()); }

TEST_CASE("every operation that has a gradient has a case") {
    std::set<Op> covered;
    for (const auto& family : {pointwise_cases(), shape_cases(), reduce_cases(), layer_cases(), recurrent_cases(),
                               attention_cases(), window_cases(), loop_cases()})
        for (const GradientCase& c : family) {
            const auto made = differentiate_case(c);
            REQUIRE_MESSAGE(made.ok(), c.name << ": " << made.message());
            for (const Node& node : made.value().graph.nodes)
                if (made.value().graph.scope_path(node.scope) == "middle") covered.insert(node.op);
        }
    // These have no gradient by definition.
    covered.insert({Op::sign, Op::floor, Op::round, Op::compare, Op::argmax, Op::stop_gradient, Op::random_uniform,
                    Op::random_normal, Op::truncated_normal, Op::one_hot, Op::incoming_gradient, Op::with_gradient});
    covered.insert(Op::for_parameters); // loss_parameters_test.cpp: it is the sum of a loss, not inside of a graph
    for (const OperationInfo& o : operation_table())
        if (!o.internal && !is_expanded(o.op) && !is_loop_operation(o.op))
            CHECK_MESSAGE(covered.contains(o.op), o.name);
    // The operations that differentiate() emits were checked too.
    for (const Op op :
         {Op::unslice, Op::gelu_gradient, Op::layer_norm_gradient, Op::rms_norm_gradient, Op::softmax_gradient,
          Op::row_linear_gradient, Op::embedding_gradient, Op::cross_entropy_gradient, Op::linear_cross_entropy,
          Op::linear_cross_entropy_gradient, Op::attention_gradient, Op::gru_gradient, Op::lstm_gradient, Op::patches,
          Op::patches_gradient, Op::max_pool2d_gradient, Op::avg_pool2d_gradient})
        CHECK_MESSAGE(covered.contains(op), info(op).name);
}

TEST_CASE("a wrong gradient is detected") {
    // Tests the check itself: a value that depends on p, with its gradient cut off.
    GradientCase c{"cut", {{{3}}}, [](Builder& b, Values x) {
                       return std::vector{b(Op::mul, {x[0], b(Op::stop_gradient, {x[0]})})};
                   }};
    const auto made = differentiate_case(c);
    REQUIRE(made.ok());
    const ValueId gradient = made.value().graph.outputs.at("grad.p0");
    const auto value = evaluate(made.value().graph, made.value().feeds, {&gradient, 1});
    REQUIRE(value.ok());
    const auto measured = difference(made.value(), "p0", {1, 0, 0});
    REQUIRE(measured.ok());
    CHECK(std::abs(value.value()[0].data[0] - measured.value()) > 1e-3);
}

TEST_CASE("gradients at ties and kinks equal PyTorch's") {
    const auto unary = [](Op op, std::vector<NamedAttribute> attributes = {}) {
        return [=](Builder& b, Values x) { return b.emit(op, x, attributes).at(0); };
    };
    const Tensor a = points({1, 2, 3}), c = points({1, 3, 2});
    auto d = gradients_at({a, c}, unary(Op::maximum));
    check_values(d[0], {0.5, 0, 1});
    check_values(d[1], {0.5, 1, 0});
    d = gradients_at({a, c}, unary(Op::minimum));
    check_values(d[0], {0.5, 1, 0});
    check_values(d[1], {0.5, 0, 1});
    check_values(gradients_at({points({-1, 0, 1})}, unary(Op::relu))[0], {0, 0, 1});
    check_values(gradients_at({points({-1, 0, 1})}, unary(Op::abs))[0], {-1, 0, 1});
    check_values(gradients_at({points({-2, -1, 0, 1, 2})}, unary(Op::clamp, {{"low", -1.0}, {"high", 1.0}}))[0],
                 {0, 0, 1, 0, 0});
    check_values(
        gradients_at({floats({2, 3}, {1, 3, 3, 2, 2, 2})}, unary(Op::max, {{"axes", std::vector<int64_t>{1}}}))[0],
        {0, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3});
    check_values(gradients_at({points({1, 3, 2, 3})}, unary(Op::top_k, {{"k", int64_t{2}}}))[0], {0, 1, 0, 1});
    const std::vector<NamedAttribute> first = {{"axis", int64_t{0}}};
    check_values(gradients_at({points({1, 3, 2, 3, 3, 5, 5})}, unary(Op::cummax, first))[0], {1, 2, 0, 1, 1, 1, 1});
    check_values(gradients_at({points({2, 0, 3, 0, 4})}, unary(Op::cumprod, first))[0], {1, 8, 0, 0, 0});
    // PyTorch 2.14 has NaN for the first two.
    check_values(gradients_at({points({-INFINITY, -INFINITY, 1, 1})}, unary(Op::logcumsumexp, first))[0],
                 {0, 0, 1.5, 0.5});
    check_values(gradients_at({points({0, 4})}, unary(Op::sqrt))[0], {INFINITY, 0.25});
    check_values(gradients_at({points({-40, 0, 40})}, unary(Op::softplus))[0], {4.248354255291589e-18, 0.5, 1}, 1e-15);
    check_values(gradients_at({points({-40, 0, 40})}, unary(Op::log_sigmoid))[0], {1, 0.5, 4.248354255291589e-18},
                 1e-15);
    check_values(
        gradients_at({floats({2, 2}, {0, 0, 1000, 0})}, unary(Op::logsumexp, {{"axes", std::vector<int64_t>{1}}}))[0],
        {0.5, 0.5, 1, 0});
    d = gradients_at({points({0, 0, 0, 2, -2, 0}), points({0, 1, 2, 3, 2, 0.5})}, unary(Op::pow));
    check_values(d[0], {0, 1, 0, 12, -4, INFINITY});
    check_values(d[1], {0, 0, 0, 5.545177444479562, NAN, 0});
    const auto power = [](double exponent) {
        return [=](Builder& b, Values x) { return b(Op::pow, {x[0], b.scalar(exponent)}); };
    };
    check_values(gradients_at({points({0, -1})}, power(2))[0], {0, -2});
    check_values(gradients_at({points({0, 1})}, power(0))[0], {0, 0});
    check_values(gradients_at({points({0, 1})}, power(0.5))[0], {INFINITY, 0.5});
}

TEST_CASE("scans and scatters of waves, and their gradients, equal PyTorch's") {
    struct Expected {
        Op op;
        std::vector<double> y, dx, dvalues;
    };
    const Expected all[] = {
        {Op::cumprod,
         {0.2955202067, 0.2486716793, 0.2465989537, 0.1665685136, 0.006926029137, -0.6118578909, 0.5981095161,
          -0.5284026367, 0.1975574155, 0.06154730659, 0.8504366206, 0.8413864838, 0.5578133494, 0.01382006305,
          -0.008638515781},
         {2.16104996, 0.4459620764, 0.1342145253, -0.02144718347, -0.1145601869, -0.6425489694, 0.2197876266,
          -0.3202632425, -0.3618684433, 0.1775464487, 1.498027817, 0.4539790344, -0.06484994596, -0.0433179455,
          -0.01375699179},
         {}},
        {Op::cummax,
         {0.2955202067, 0.8414709848, 0.9916648105, 0.9916648105, 0.9916648105, -0.6118578909, -0.6118578909,
          -0.6118578909, -0.3738766648, 0.3115413635, 0.8504366206, 0.9893582466, 0.9893582466, 0.9893582466,
          0.9893582466},
         {0.8912073601, 0.9738476309, -0.1476681585, 0, 0, -2.105373944, 0, 0, 0.4048499206, 0.8987080958, 0.9698898108,
          -1.185544868, 0, 0, 0},
         {}},
        {Op::logcumsumexp,
         {0.2955202067, 1.298446835, 1.849921558, 2.11917457, 2.237163067, -0.6118578909, -0.08492460483, 0.286632014,
          0.7030954119, 1.219508703, 0.8504366206, 1.615455079, 1.941718841, 2.078917296, 2.143710192},
         {1.266789485, 0.6483482235, 0.03685141323, -0.1580582319, -0.07654405753, -1.346180941, -0.2445328975,
          0.1058577067, 0.3205523594, 0.3624878453, 0.7388337388, -0.2654912924, -0.4172083028, -0.2093370773,
          -0.0624521239},
         {}},
        {Op::scatter_add,
         {0.7229000869, 0.8414709848, 1.645421135, 0.6754631806, 0.04158066243, -0.6118578909, -2.791971838,
          -0.8834546557, -0.3738766648, -0.3939989621, 0.7673472178, 1.957277919, 0.6629692301, 0.6032151898,
          -0.6250706489},
         {0.8912073601, 0.9738476309, 0.5984721441, -0.05837414343, -0.6877661592, -0.9936910036, -0.8322674422,
          -0.2794154982, 0.4048499206, 0.8987080958, 0.9698898108, 0.5849171929, -0.07515112046, -0.6998746876,
          -0.9954362533},
         {0.5984721441, 0.8912073601, 0.5984721441, -0.8322674422, -0.8322674422, 0.8987080958, 0.9698898108,
          -0.6998746876, 0.5849171929}},
        {Op::scatter,
         {0.4273798802, -0.255541102, 0.9092974268, 0.6754631806, 0.04158066243, -0.6118578909, -0.9961646088,
          -0.8834546557, -0.8182771111, -0.7055403256, -0.08308940282, 0.967919672, 0.6629692301, 0.5784397644,
          -0.6250706489},
         {0, 0, 0, -0.05837414343, -0.6877661592, -0.9936910036, 0, -0.2794154982, 0, 0, 0, 0, -0.07515112046, 0,
          -0.9954362533},
         {0.5984721441, 0.8912073601, 0.9738476309, 0.4048499206, -0.8322674422, 0.8987080958, 0.9698898108,
          -0.6998746876, 0.5849171929}}};
    const Tensor x = wave({3, 5}, 0.3), dy = wave({3, 5}, 1.1), values = wave({3, 3}, 2.0);
    for (const auto& [op, y, dx, dvalues] : all) {
        CAPTURE(info(op).name);
        const bool scatters = !dvalues.empty();
        const Tensor places = ints({3, 3}, op == Op::scatter ? std::vector<double>{2, 0, 1, 3, 1, 4, 0, 3, 1}
                                                             : std::vector<double>{2, 0, 2, 1, 1, 4, 0, 3, 1});
        const std::vector<NamedAttribute> attributes = {{scatters ? "batch_dimensions" : "axis", int64_t{1}}};
        check_values(scatters ? run1(op, {x, places, values}, attributes) : run1(op, {x}, attributes), y, 1e-9);
        std::vector<Tensor> parameters{x};
        if (scatters) parameters.push_back(values);
        const std::vector<Tensor> d = gradients_at(parameters, [&](Builder& b, Values p) {
            std::vector<ValueId> inputs(p.begin(), p.end());
            if (scatters) inputs.insert(inputs.begin() + 1, b.constant(Kind::int32, {3, 3}, places.data));
            return b(Op::mul, {b.emit(op, inputs, attributes).at(0), b.constant(Kind::float_, {3, 5}, dy.data)});
        });
        check_values(d[0], dx, 2e-9);
        if (scatters) check_values(d[1], dvalues, 2e-9);
    }
}

TEST_CASE("a dropped or unselected branch passes no gradient on, even if it is not finite") {
    const Tensor x = points({0, 4});
    const auto d = gradients_at({x}, [](Builder& b, Values p) {
        const ValueId positive = b(Op::compare, {p[0], b.scalar(0)}, {{"relation", int64_t{4}}});
        const ValueId safe = b(Op::where, {positive, p[0], b.scalar(1)});
        return b(Op::where, {positive, b(Op::sqrt, {safe}), b.scalar(0)});
    });
    check_values(d[0], {0, 0.25});
}

TEST_CASE("the padding row of an embedding gets no gradient from the lookup") {
    const auto d = gradients_at({floats({3, 2}, {1, 1, 1, 1, 1, 1})}, [](Builder& b, Values x) {
        const ValueId ids = b.constant(Kind::int32, {4}, {1, 0, 1, 2});
        return b(Op::embedding, {x[0], ids}, {{"no_gradient_id", int64_t{0}}});
    });
    check_values(d[0], {0, 0, 2, 2, 1, 1});
}

} // namespace hekla::test
