// Convolutions and pools: the device against the interpreter, and a small network against PyTorch.
#include "program/kernel_case.hpp"
#include "program/parameter_store.hpp"

#include <numeric>

namespace convolution_test {

using namespace hekla;
using namespace hekla::test;

namespace {

using Ints = std::vector<int64_t>;
using Attributes = std::vector<graph::NamedAttribute>;

struct Case {
    Op op;
    Shape x, weight; // a weight of rank 0: a pool
    Attributes attributes;
};

std::vector<Case> cases() {
    const auto same = [](int64_t n, int64_t groups = 1) {
        return Attributes{{"padding", Ints{n}}, {"groups", groups}};
    };
    const auto pool = [](Ints kernel, Ints stride, Ints padding) {
        return Attributes{
            {"kernel", std::move(kernel)}, {"stride", std::move(stride)}, {"padding", std::move(padding)}};
    };
    return {
        {Op::conv2d, {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
        {Op::conv2d, {1, 3, 3, 1}, {1, 1, 3, 3}, {}},
        {Op::conv2d, {2, 7, 5, 3}, {5, 3, 3, 3}, same(1)},
        {Op::conv2d, {2, 11, 13, 8}, {7, 8, 3, 5}, {{"stride", Ints{2, 3}}, {"padding", Ints{2, 1}}}},
        {Op::conv2d, {1, 13, 11, 4}, {6, 2, 3, 2}, {{"dilation", Ints{2, 3}}, {"groups", int64_t{2}}}},
        {Op::conv2d, {3, 5, 7, 24}, {9, 8, 3, 3}, same(1, 3)},
        {Op::conv2d, {2, 7, 7, 12}, {12, 1, 3, 3}, same(1, 12)},
        {Op::conv2d, {2, 5, 5, 3}, {6, 1, 3, 3}, same(2, 3)},
        {Op::conv2d, {2, 17, 19, 3}, {5, 3, 4, 4}, {{"stride", Ints{4}}}},
        {Op::conv2d, {2, 9, 7, 2}, {3, 2, 1, 2}, {{"stride", Ints{3, 5}}}}, // rows of x that no window reads
        {Op::conv2d, {2, 3, 5, 16}, {33, 16, 1, 1}, {}},
        {Op::conv2d, {1, 31, 29, 16}, {16, 16, 3, 3}, same(1)},
        {Op::conv1d, {1, 1, 1}, {1, 1, 1}, {}},
        {Op::conv1d, {2, 37, 5}, {3, 5, 7}, {{"stride", Ints{2}}, {"padding", Ints{3}}}},
        {Op::conv1d, {3, 23, 8}, {8, 1, 4}, {{"padding", Ints{6}}, {"dilation", Ints{2}}, {"groups", int64_t{8}}}},
        {Op::max_pool2d, {1, 1, 1, 1}, {}, pool({1}, {}, {})},
        {Op::max_pool2d, {2, 7, 5, 3}, {}, pool({3, 2}, {2}, {1})},
        {Op::max_pool2d, {2, 11, 13, 8}, {}, {{"kernel", Ints{3}}, {"stride", Ints{1}}, {"dilation", Ints{2, 3}}}},
        {Op::max_pool2d, {3, 9, 8, 5}, {}, pool({2}, {3, 5}, {})},
        {Op::max_pool1d, {3, 41, 7}, {}, pool({5}, {2}, {2})},
        {Op::avg_pool2d, {2, 7, 5, 3}, {}, pool({3, 2}, {2}, {1})},
        {Op::avg_pool2d, {3, 9, 8, 5}, {}, pool({2}, {3, 5}, {})},
        {Op::avg_pool2d,
         {2, 11, 13, 8},
         {},
         {{"kernel", Ints{5, 3}}, {"stride", Ints{2, 1}}, {"padding", Ints{2, 1}}, {"count_padding", int64_t{0}}}},
        {Op::avg_pool1d, {3, 41, 7}, {}, pool({4}, {3}, {2})},
    };
}

// x, the weight and the bias are results of other operations, and the result has a reader.
Graph in_the_middle(const Case& c, bool bias) {
    Builder b;
    std::vector<ValueId> inputs{b(Op::mul, {b.parameter("x", c.x, 0, 0, 0, 0), b.scalar(1.25)})};
    if (c.weight.rank() > 0) {
        inputs.push_back(b(Op::mul, {b.parameter("weight", c.weight, 0, 0, 0, 0), b.scalar(0.75)}));
        if (bias) inputs.push_back(b(Op::mul, {b.parameter("bias", {c.weight[0]}, 0, 0, 0, 0), b.scalar(0.5)}));
    }
    const std::vector<ValueId> y = b.emit(c.op, inputs, c.attributes);
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    return with_gradients(std::move(b), b(Op::mul, {y[0], b.scalar(1.5)}));
}

void check_case(Bench& bench, const Case& c, bool bias) {
    CAPTURE(graph::info(c.op).name);
    CAPTURE(c.x.text());
    CAPTURE(c.weight.text());
    CAPTURE(bias);
    check_kernel(bench, in_the_middle(c, bias), 3e-6);
}

} // namespace

TEST_CASE("convolutions and pools in the middle of a graph, and their gradients") {
    Bench bench;
    for (const Case& c : cases()) {
        check_case(bench, c, false);
        if (c.weight.rank() > 0) check_case(bench, c, true);
    }
}

TEST_CASE("convolutions with the kernels of GPUs, which move four channels at a time") {
    GpuKernelsBench bench;
    for (const Case& c : cases())
        if (c.weight.rank() > 0 && c.x[-1] % 4 == 0) check_case(bench, c, true);
}

TEST_CASE("convolutions whose patches are computed for some rows of the batch at a time") {
    Bench bench;
    check_case(bench, {Op::conv2d, {3, 67, 61, 40}, {2, 40, 3, 3}, {{"padding", Ints{1}}}}, true);
    check_case(bench, {Op::conv2d, {3, 67, 61, 40}, {40, 1, 3, 3}, {{"groups", int64_t{40}}}}, false);
}

TEST_CASE("convolutions and pools of views") {
    Bench bench;
    GpuKernelsBench on_gpus;
    for (Bench* each : {&bench, static_cast<Bench*>(&on_gpus)}) {
        Builder b;
        // PyTorch's [B, C, H, W], and a part of it.
        const ValueId x = b.parameter("x", {2, 8, 9, 7}, 0, 0, 0, 0);
        const ValueId last = b(Op::transpose, {x}, {{"permutation", Ints{0, 2, 3, 1}}});
        const ValueId part =
            b(Op::slice, {last}, {{"axis", int64_t{1}}, {"start", int64_t{2}}, {"length", int64_t{6}}});
        const ValueId weight = b.parameter("weight", {8, 8, 3, 3}, 0, 0, 0, 0);
        const ValueId convolved = b(Op::conv2d, {part, weight}, {{"padding", Ints{1}}});
        const ValueId largest =
            b(Op::max_pool2d, {part}, {{"kernel", Ints{3}}, {"stride", Ints{1}}, {"padding", Ints{1}}});
        const ValueId mean =
            b(Op::avg_pool2d, {part}, {{"kernel", Ints{3}}, {"stride", Ints{1}}, {"padding", Ints{1}}});
        check_kernel(*each, with_gradients(std::move(b), b(Op::add, {b(Op::add, {convolved, largest}), mean})), 3e-6);
    }
}

TEST_CASE("max_pool2d at ties, at infinities and at NaN is exact") {
    Bench bench;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {1, 3, 7, 1});
    const std::vector<ValueId> y =
        b.emit(Op::max_pool2d, std::vector{x}, Attributes{{"kernel", Ints{2}}, {"stride", Ints{1}}});
    b.output("y", y[0]);
    b.output("places", y[1]);
    b.output("far", b(Op::max_pool2d, {x}, {{"kernel", Ints{2}}, {"padding", Ints{3}}, {"dilation", Ints{6, 6}}}));
    const Graph graph = finished(std::move(b));
    graph::Feeds feeds;
    feeds.fields["x"] = {Kind::float_, {1, 3, 7, 1}, {0, 0,   1, NAN, 2, -INFINITY, -INFINITY, 0, 0, 1,        1,
                                                      1, NAN, 3, 3,   1, 1,         INFINITY,  0, 0, -INFINITY}};
    const Outcome got = run_on_device(*bench, graph, feeds, {}), expected = run_in_interpreter(graph, feeds);
    CHECK(worst_error(got, expected) == 0);
}

TEST_CASE("a convolution in 16 bits") {
    Bench bench;
    if (!bench->limits().storage16) return;
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16}) {
        Builder b;
        const ValueId x = b(Op::tanh, {b.parameter("x", {2, 9, 7, 8}, 0, 0, 0, 0)});
        const ValueId hidden =
            b(Op::gelu, {b(Op::conv2d, {x, b.parameter("first", {12, 8, 3, 3}, 0, 0, 0, 0)}, {{"padding", Ints{1}}})});
        const ValueId y =
            b(Op::conv2d, {hidden, b.parameter("second", {6, 4, 3, 3}, 0, 0, 0, 0)}, {{"groups", int64_t{3}}});
        const Graph graph = with_gradients(std::move(b), y);
        Random random(3);
        const graph::Feeds feeds = kernel_feeds(graph, random);
        RunOptions options;
        options.compile.precision = storage;
        Outcome expected = run_in_interpreter(graph, feeds);
        std::erase_if(expected, [](const auto& output) { return output.first.starts_with("loss"); });
        const double error = worst_error(run_on_device(*bench, graph, feeds, options), expected);
        CHECK(error <= (storage == program::Storage::f16 ? 0x1p-8 : 0x1p-5));
        CHECK(error > 1e-6);
    }
}

TEST_CASE("windows whose numbers leave 32 bits are refused") {
    Bench bench;
    Builder b;
    const int64_t most = (int64_t{1} << 31) - 1;
    b.output("y",
             b(Op::max_pool2d, {b.input("x", Kind::float_, {1, 3, 3, 1})},
               {{"kernel", Ints{2}}, {"stride", Ints{most}}, {"padding", Ints{most / 2}}, {"dilation", Ints{most}}}));
    const Graph graph = finished(std::move(b));
    auto store = program::ParameterStore::create(*bench, program::parameter_table(graph), {});
    REQUIRE(store.ok());
    program::CompileOptions options;
    options.outputs = {"y"};
    const auto compiled = program::Program::compile(*bench, graph, *store.value(), options);
    CHECK(compiled.code() == Code::unsupported);
    CHECK_MESSAGE(compiled.message().find("kernels count to") != std::string::npos, compiled.message());
}

namespace {

// sin(start + 0.7 i), as in the interpreter's tests.
graph::Tensor wave_of(const Shape& shape, double start) {
    graph::Tensor tensor{Kind::float_, shape, {}};
    for (int64_t i = 0; i < shape.elements(); ++i)
        tensor.data.push_back(std::sin(start + 0.7 * static_cast<double>(i)));
    return tensor;
}

} // namespace

TEST_CASE("a small convolutional network equals PyTorch's") {
    const std::map<std::string, std::pair<Shape, double>> weights = {
        {"stem.weight", {{5, 3, 3, 3}, 0.5}},   {"stem.bias", {{5}, 1.0}},   {"depth.weight", {{5, 1, 3, 3}, 1.5}},
        {"group.weight", {{10, 1, 3, 1}, 2.5}}, {"group.bias", {{10}, 0.2}}, {"head.weight", {{4, 10}, 0.7}}};
    Builder b;
    const auto parameter = [&](const char* name) { return b.parameter(name, weights.at(name).first, 0, 0, 0, 0); };
    ValueId h =
        b(Op::conv2d, {b.input("x", Kind::float_, {2, 9, 7, 3}), parameter("stem.weight"), parameter("stem.bias")},
          {{"stride", Ints{2, 1}}, {"padding", Ints{1}}});
    h = b(Op::max_pool2d, {b(Op::gelu, {h})}, {{"kernel", Ints{3}}, {"stride", Ints{2}}, {"padding", Ints{1}}});
    h = b(Op::silu, {b(Op::conv2d, {h, parameter("depth.weight")}, {{"padding", Ints{1}}, {"groups", int64_t{5}}})});
    h = b(Op::conv2d, {h, parameter("group.weight"), parameter("group.bias")},
          {{"padding", Ints{1, 0}}, {"groups", int64_t{5}}});
    h = b(Op::mean, {b(Op::avg_pool2d, {h}, {{"kernel", Ints{2}}, {"stride", Ints{1}}})}, {{"axes", Ints{1, 2}}});
    const ValueId y = b(Op::linear, {h, parameter("head.weight")});
    const ValueId losses = b(Op::cross_entropy, {y, b.input("labels", Kind::int32, {2})});
    b.loss("loss", b(Op::sum, {losses}, {{"axes", Ints{0}}}), b(Op::cast, {b.scalar(1.0)}, {{"kind", int64_t{1}}}),
           1.0);
    b.output("y", y);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    const auto graph = graph::differentiate(described.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    graph::Feeds feeds;
    feeds.fields["x"] = wave_of({2, 9, 7, 3}, 0.3);
    feeds.fields["labels"] = {Kind::int32, {2}, {1, 3}};
    for (const auto& [name, weight] : weights) feeds.parameters[name] = wave_of(weight.first, weight.second);
    for (const graph::Node& node : graph->nodes)
        if (node.op == Op::step_scalar) feeds.step_scalars[node.text("name")] = 1.0;

    // torch.nn.functional in float64. Of larger gradients: the sum with the weights of a wave, and the sum of squares.
    const std::vector<double> expected_y = {3.91426746185, 1.49873605914, -1.65446647454, -3.99334806893,
                                            3.79686929742, 1.33888188375, -1.77809715649, -4.0199047932};
    constexpr double kLoss = 10.407687543;
    const std::map<std::string, std::vector<double>> gradients = {
        {"stem.weight", {0.327531678392, 4.48143791896}},
        {"stem.bias", {-0.0005626165772, 0.01251944848, -0.008472686414, 0.003270705951, 0.02061547861}},
        {"depth.weight", {0.514127384801, 184.618219559}},
        {"group.weight", {-0.0746024609385, 2.31061621356}},
        {"group.bias",
         {0.06947955331, 1.487158018, 2.205402829, 1.88641223, 0.6802124824, -0.845901824, -1.974175285, -2.173963262,
          -1.351302348, 0.1068971751}},
        {"head.weight", {-2.90830473838, 24.5579188277}}};
    Bench bench;
    GpuKernelsBench on_gpus;
    for (Bench* each : {&bench, static_cast<Bench*>(&on_gpus)}) {
        const Outcome got = run_on_device(**each, graph.value(), feeds, {});
        Outcome expected{{"y", {Kind::float_, {2, 4}, expected_y}}};
        CHECK(worst_error(got, expected) <= 1e-6);
        CHECK(std::abs(got.at("loss").data[0] - kLoss) <= 1e-6 * kLoss);
        const auto largest = [&](const std::string& parameter) {
            double most = 0;
            for (const double x : got.at("grad." + parameter).data) most = std::max(most, std::abs(x));
            return most;
        };
        for (const auto& [name, numbers] : gradients) {
            CAPTURE(name);
            const std::vector<double>& gradient = got.at("grad." + name).data;
            if (numbers.size() == gradient.size()) {
                // A bias sums terms of the weight's gradient, which may cancel.
                const double scale = largest(name.substr(0, name.find('.')) + ".weight");
                for (std::size_t i = 0; i < gradient.size(); ++i)
                    CHECK(std::abs(gradient[i] - numbers[i]) <= 3e-6 * scale);
                continue;
            }
            const std::vector<double> wave = wave_of({static_cast<int64_t>(gradient.size())}, 2.7).data;
            const double sum = std::inner_product(gradient.begin(), gradient.end(), wave.begin(), 0.0);
            const double squares = std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0);
            CHECK(std::abs(sum - numbers[0]) <= 3e-6 * std::sqrt(squares));
            CHECK(std::abs(squares - numbers[1]) <= 6e-6 * squares);
        }
    }
}

} // namespace convolution_test
