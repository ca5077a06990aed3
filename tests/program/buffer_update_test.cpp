// Buffers that a training step writes: batch normalization as PyTorch trains it, a teacher of averaged weights,
// micro-batches, and skipped steps.
#include "graph/gradient.hpp"
#include "graph/operations/buffer_update.hpp"
#include "program/harness.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include <limits>

namespace buffer_update_test {

using namespace hekla;
using namespace hekla::test;

namespace {

using Ints = std::vector<int64_t>;
using Fields = std::map<std::string, std::vector<std::byte>>;

std::vector<float> numbers_of_wave(const Shape& shape, double start, double scale = 1.0, double shift = 0.0) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < shape.elements(); ++i)
        numbers.push_back(static_cast<float>(scale * std::sin(start + 0.7 * static_cast<double>(i)) + shift));
    return numbers;
}

// The model and its optimizer, SGD, as a training run compiles them.
class Trained {
public:
    Trained(program::Runtime& runtime, const Graph& described) {
        auto graph = graph::differentiate(described);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        auto store =
            program::ParameterStore::create(runtime, program::parameter_table(graph.value()), {.gradients = true});
        REQUIRE_MESSAGE(store.ok(), store.message());
        store_ = store.take();
        program::CompileOptions options;
        options.outputs = {"loss"};
        options.state_outputs = {{"loss", "test.loss"}};
        options.gradients = program::Gradients::accumulate;
        program::OptimizerPlan plan;
        plan.kind = program::OptimizerKind::sgd;
        plan.groups = {{1, 0}};
        plan.group_of.assign(store_->table().size(), 0);
        plan.loss_state = "test.loss";
        for (const graph::BufferUpdate& update : graph::buffer_updates(described)) {
            options.state_sums[update.output] = program::buffer_sum_state(update.buffer);
            plan.buffers.push_back({update.buffer, update.shape});
        }
        auto step = program::Program::compile(runtime, graph.value(), *store_, options);
        REQUIRE_MESSAGE(step.ok(), step.message());
        step_ = step.take();
        const auto lowering = program::lower_optimizer(plan, store_->table(), store_->chunks(), runtime.limits());
        REQUIRE_MESSAGE(lowering.ok(), lowering.message());
        auto update = program::Program::compile(runtime, lowering.value(), *store_);
        REQUIRE_MESSAGE(update.ok(), update.message());
        update_ = update.take();
    }

    program::ParameterStore& store() { return *store_; }

    void set_parameter(const std::string& name, const std::vector<float>& values) {
        REQUIRE(store_->upload(name, values).ok());
    }
    std::vector<float> parameter(const std::string& name) {
        auto values = store_->download(name);
        REQUIRE(values.ok());
        return {values.value().begin(), values.value().end()};
    }
    std::vector<float> buffer(const std::string& name) {
        auto bytes = store_->download_state(program::buffer_state(name));
        REQUIRE_MESSAGE(bytes.ok(), bytes.message());
        std::vector<float> values(bytes.value().size() / 4);
        std::memcpy(values.data(), bytes.value().data(), values.size() * 4);
        return values;
    }

    // One step over the micro-batches: their fields by name. Returns the loss of the last one.
    float step(const std::vector<Fields>& micro, float learning_rate) {
        for (std::size_t i = 0; i < micro.size(); ++i) {
            for (const auto& [name, bytes] : micro[i]) REQUIRE(step_->set_input(name, bytes).ok());
            program::RunScalars scalars;
            scalars.accumulate = i > 0;
            REQUIRE(step_->run(scalars).ok());
        }
        REQUIRE(update_->set_scalar(program::kLearningRate, learning_rate).ok());
        REQUIRE(update_->set_scalar(program::kMicroBatchShare, 1.0f / static_cast<float>(micro.size())).ok());
        REQUIRE(update_->run().ok());
        for (auto* program : {step_.get(), update_.get()}) {
            const Status ordered = program->check_ordering();
            CHECK_MESSAGE(ordered.ok(), ordered.message());
        }
        const auto loss = step_->read_scalar_output("loss");
        REQUIRE(loss.ok());
        return loss.value();
    }

private:
    std::unique_ptr<program::ParameterStore> store_;
    std::unique_ptr<program::Program> step_, update_;
};

template<class T>
std::vector<std::byte> bytes_of_numbers(const std::vector<T>& numbers) {
    std::vector<std::byte> bytes(numbers.size() * sizeof(T));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
}

void check_near(const std::vector<float>& got, const std::vector<double>& expected, double tolerance) {
    REQUIRE(got.size() == expected.size());
    double largest = 0;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(static_cast<double>(got[i]) - expected[i]) <= tolerance * largest);
    }
}

// Batch normalization of x [..., C] as nn.BatchNorm2d: with the batch's statistics, which update the buffers, or with
// those.
ValueId batch_norm(Builder& b, ValueId x, bool training) {
    const Shape shape = b.shape(x), row{shape[-1]};
    const auto filled = [&](double value) { return std::vector<double>(static_cast<std::size_t>(row[0]), value); };
    const ValueId running_mean = b.buffer("bn.running_mean", Kind::float_, row, filled(0)),
                  running_var = b.buffer("bn.running_var", Kind::float_, row, filled(1));
    ValueId mean = running_mean, variance = running_var;
    if (training) {
        Ints axes;
        for (int64_t axis = 0; axis + 1 < shape.rank(); ++axis) axes.push_back(axis);
        const double count = static_cast<double>(shape.elements() / row[0]);
        mean = b(Op::mean, {x}, {{"axes", axes}});
        const ValueId centered = b(Op::sub, {x, mean});
        variance = b(Op::mean, {b(Op::mul, {centered, centered})}, {{"axes", axes}});
        const auto mixed = [&](ValueId old, ValueId now, double factor) {
            return b(Op::add, {b(Op::mul, {old, b.scalar(0.9)}), b(Op::mul, {now, b.scalar(0.1 * factor)})});
        };
        b(Op::buffer_update, {running_mean, mixed(running_mean, mean, 1)});
        b(Op::buffer_update, {running_var, mixed(running_var, variance, count / (count - 1))});
    }
    const ValueId scale = b(Op::rsqrt, {b(Op::add, {variance, b.scalar(1e-5)})});
    const ValueId normalized = b(Op::mul, {b(Op::sub, {x, mean}), scale});
    return b(Op::add, {b(Op::mul, {normalized, b.parameter("bn.weight", row, 0, 1, 0, 0)}),
                       b.parameter("bn.bias", row, 0, 0, 0, 0)});
}

ValueId logits_of_network(Builder& b, bool training) {
    const ValueId x = b.input("x", Kind::float_, {4, 6, 5, 3});
    const ValueId h = b(Op::conv2d, {x, b.parameter("conv.weight", {4, 3, 3, 3}, 0, 0, 0, 0)}, {{"padding", Ints{1}}});
    const ValueId mean = b(Op::mean, {b(Op::tanh, {batch_norm(b, h, training)})}, {{"axes", Ints{1, 2}}});
    return b(Op::linear,
             {mean, b.parameter("head.weight", {3, 4}, 0, 0, 0, 0), b.parameter("head.bias", {3}, 0, 0, 0, 0)});
}

Fields field_images(int step) {
    return Fields{{"x", bytes_of_numbers(numbers_of_wave({4, 6, 5, 3}, 0.3 + step, 1.5 + 0.5 * step / 20, 0.25))},
                  {"labels", bytes_of_numbers(std::vector<int32_t>{0, 2, 1, 2})}};
}

ValueId scalar_one(Builder& b) { return b(Op::cast, {b.scalar(1.0)}, {{"kind", int64_t{1}}}); }

} // namespace

TEST_CASE("batch normalization in a convolutional network equals nn.BatchNorm2d over 20 steps, and in evaluation") {
    Bench bench;
    Builder b;
    const ValueId losses = b(Op::cross_entropy, {logits_of_network(b, true), b.input("labels", Kind::int32, {4})});
    b.loss("loss", b(Op::sum, {losses}, {{"axes", Ints{0}}}), scalar_one(b), 1.0);
    auto described = b.finish();
    REQUIRE_MESSAGE(described.ok(), described.message());
    Trained trained(*bench, described.value());
    trained.set_parameter("conv.weight", numbers_of_wave({4, 3, 3, 3}, 0.5));
    trained.set_parameter("bn.weight", numbers_of_wave({4}, 0.2, 0.1, 1.0));
    trained.set_parameter("bn.bias", numbers_of_wave({4}, 0.9));
    trained.set_parameter("head.weight", numbers_of_wave({3, 4}, 1.3));
    trained.set_parameter("head.bias", numbers_of_wave({3}, 0.4));
    // torch.nn in float64, SGD with a learning rate of 0.1.
    const std::vector<double> expected_losses = {5.058884419, 4.665909956, 4.502560626, 4.317833642, 4.327422849,
                                                 4.331662393, 4.20745108,  4.258361372, 4.13645071,  4.172109738,
                                                 4.168070333, 4.276230241, 4.107926368, 4.261168907, 4.111331185,
                                                 4.173404394, 4.153176421, 4.260414046, 4.116107343, 4.24772006};
    std::vector<float> got;
    for (int step = 0; step < 20; ++step) got.push_back(trained.step({field_images(step)}, 0.1f));
    check_near(got, expected_losses, 3e-6);
    check_near(trained.buffer("bn.running_mean"), {0.008352330119, -0.004073569047, -0.01765723616, -0.03210285264},
               2e-5);
    check_near(trained.buffer("bn.running_var"), {11.27529255, 11.13738608, 11.17492207, 11.45644582}, 3e-6);
    check_near(trained.parameter("bn.weight"), {1.114266827, 1.214463662, 1.164242927, 1.069636661}, 3e-6);

    // In evaluation another graph reads the same buffers.
    Builder evaluation;
    evaluation.output("logits", logits_of_network(evaluation, false));
    auto graph = evaluation.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    CHECK(graph::buffer_updates(graph.value()).empty());
    program::CompileOptions options;
    options.outputs = {"logits"};
    options.gradients = program::Gradients::ignore;
    auto program = program::Program::compile(*bench, graph.value(), trained.store(), options);
    REQUIRE_MESSAGE(program.ok(), program.message());
    REQUIRE(program.value()->set_input("x", bytes_of_numbers(numbers_of_wave({4, 6, 5, 3}, 0.1))).ok());
    REQUIRE(program.value()->run().ok());
    const auto logits = program.value()->read_output("logits");
    REQUIRE(logits.ok());
    check_near({logits->floats().begin(), logits->floats().end()},
               {1.044512716, 0.4395544772, 1.769815667, 1.049166708, 0.4301946776, 1.785659149, 1.056122275,
                0.4182936858, 1.80467432, 1.063112433, 0.4072106037, 1.821835264},
               5e-6);
}

namespace {

// loss = sum of w x; teacher = 0.75 teacher + 0.25 w, and "seen" gets the mean of x.
Graph teacher_graph() {
    Builder b;
    const ValueId w = b.parameter("w", {37}, 0, 0, 0, 0), x = b.input("x", Kind::float_, {37});
    const ValueId teacher = b.buffer("teacher", Kind::float_, {37}, std::vector<double>(37, 1.0));
    b(Op::buffer_update,
      {teacher, b(Op::add, {b(Op::mul, {teacher, b.scalar(0.75)}), b(Op::mul, {w, b.scalar(0.25)})})});
    const ValueId seen = b.buffer("seen", Kind::float_, {}, {7.0});
    b(Op::buffer_update, {seen, b(Op::mean, {x}, {{"axes", Ints{0}}})});
    // Both read the buffers from before the step.
    const ValueId swapped = b.buffer("swapped", Kind::float_, {}, {3.0});
    b(Op::buffer_update, {swapped, seen});
    b.loss("loss", b(Op::sum, {b(Op::mul, {w, x})}, {{"axes", Ints{0}}}), scalar_one(b), 1.0);
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

Fields field_x(double start, double shift = 0.0) {
    return Fields{{"x", bytes_of_numbers(numbers_of_wave({37}, start, 1.0, shift))}};
}

} // namespace

TEST_CASE("a teacher of averaged weights follows the recursion, once a step, whatever the number of micro-batches") {
    Bench bench;
    for (const std::size_t count : {1, 2, 3}) {
        CAPTURE(count);
        Trained trained(*bench, teacher_graph());
        trained.set_parameter("w", numbers_of_wave({37}, 0.5));
        std::vector<double> teacher(37, 1.0);
        for (int step = 0; step < 10; ++step) {
            const std::vector<float> before = trained.parameter("w");
            std::vector<Fields> micro;
            for (std::size_t i = 0; i < count; ++i) micro.push_back(field_x(step + 0.3 * static_cast<double>(i)));
            trained.step(micro, 0.05f);
            for (std::size_t i = 0; i < teacher.size(); ++i)
                teacher[i] = 0.75 * teacher[i] + 0.25 * static_cast<double>(before[i]);
            CHECK(trained.parameter("w") != before);
        }
        check_near(trained.buffer("teacher"), teacher, 1e-6);
    }
}

TEST_CASE("an update is the mean over micro-batches, and reads the buffers from before the step") {
    Bench bench;
    Trained trained(*bench, teacher_graph());
    trained.set_parameter("w", numbers_of_wave({37}, 0.5));
    const auto mean_of = [](double start, double shift) {
        double sum = 0;
        for (const float x : numbers_of_wave({37}, start, 1.0, shift)) sum += static_cast<double>(x);
        return sum / 37;
    };
    trained.step({field_x(0.1, 1), field_x(0.2, 2), field_x(0.3, 6)}, 0.05f);
    const double first = (mean_of(0.1, 1) + mean_of(0.2, 2) + mean_of(0.3, 6)) / 3;
    check_near(trained.buffer("seen"), {first}, 1e-6);
    check_near(trained.buffer("swapped"), {7.0}, 1e-6);
    trained.step({field_x(0.4, 5)}, 0.05f);
    check_near(trained.buffer("seen"), {mean_of(0.4, 5)}, 1e-6);
    check_near(trained.buffer("swapped"), {first}, 1e-6);
}

TEST_CASE("a skipped step changes no buffer") {
    Bench bench;
    Trained trained(*bench, teacher_graph());
    trained.set_parameter("w", numbers_of_wave({37}, 0.5));
    trained.step({field_x(0.1, 1)}, 0.05f);
    const std::vector<float> w = trained.parameter("w"), teacher = trained.buffer("teacher"),
                             seen = trained.buffer("seen");
    std::vector<float> bad = numbers_of_wave({37}, 0.1);
    bad[5] = std::numeric_limits<float>::infinity();
    trained.step({field_x(0.4), Fields{{"x", bytes_of_numbers(bad)}}}, 0.05f);
    CHECK(trained.parameter("w") == w);
    CHECK(trained.buffer("teacher") == teacher);
    CHECK(trained.buffer("seen") == seen);
    trained.step({field_x(0.4)}, 0.05f);
    CHECK(trained.parameter("w") != w);
    CHECK(trained.buffer("teacher") != teacher);
    CHECK(trained.buffer("seen") != seen);
}

} // namespace buffer_update_test
