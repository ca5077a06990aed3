// Every built-in optimizer against its twin in PyTorch: twenty steps of a small network. optimizers/make.py computes
// the twins.
#include "base/file.hpp"
#include "graph/builder.hpp"
#include "plugin/registry/registry.hpp"
#include "program/harness.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "train/recipe/recipe_optimizer.hpp"
#include "train/step/training_graph.hpp"
#include "train/update/update_rules.hpp"

#include <algorithm>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace optimizer_twin_test {
namespace {

using nlohmann::json;

const json& twin() {
    static const json kTwin = [] {
        const auto text = read_file(std::string(HEKLA_SOURCE_DIR) + "/tests/train/optimizers/twin.json");
        REQUIRE_MESSAGE(text.ok(), text.message());
        return json::parse(text.value());
    }();
    return kTwin;
}

// The mean of squared errors of a network of two layers.
graph::Graph described() {
    using graph::Op;
    graph::Builder b;
    const auto constant = [&](const char* name, int64_t width) {
        return b.constant(graph::Kind::float32, {16, width}, twin()[name].get<std::vector<double>>());
    };
    const auto parameter = [&](const char* name, const graph::Shape& shape) {
        return b.parameter(name, shape, 0, 0.0, 0.0, 0);
    };
    const graph::ValueId hidden =
        b(Op::tanh, {b(Op::linear, {constant("x", 6), parameter("w1", {12, 6}), parameter("b1", {12})})});
    const graph::ValueId error =
        b(Op::sub, {b(Op::linear, {hidden, parameter("w2", {5, 12}), parameter("b2", {5})}), constant("y", 5)});
    const graph::ValueId sum = b(Op::sum, {b(Op::mul, {error, error})}, {{"axes", std::vector<int64_t>{0, 1}}});
    b.loss("squares", sum, b.fill(graph::Kind::float32, {}, 80.0), 1.0);
    auto made = b.finish();
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

Recipe recipe_of(const json& one) {
    Recipe recipe;
    recipe.train.learning_rate = one["learning_rate"].get<double>();
    recipe.train.weight_decay = one["weight_decay"].get<double>();
    recipe.train.max_grad_norm = 0.0;
    for (const auto& [key, value] : one["optimizer"].items()) {
        if (key == "name")
            recipe.optimizer.name = value.get<std::string>();
        else if (key == "rules")
            recipe.optimizer.rules = value.get<TextMap>();
        else
            recipe.optimizer.options[key] = value;
    }
    return recipe;
}

} // namespace

TEST_CASE("optimizers: twenty steps equal PyTorch's to 1e-5, and two runs give the same bits") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    const graph::Graph network = described();
    const auto differentiated = training_graph(network);
    REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
    for (const json& one : twin()["cases"]) {
        CAPTURE(one["name"].get<std::string>());
        const Recipe recipe = recipe_of(one);
        const Status valid = check_optimizer(recipe);
        REQUIRE_MESSAGE(valid.ok(), valid.message());
        const auto rules = UpdateRules::create(recipe, registry, network, {}, {});
        REQUIRE_MESSAGE(rules.ok(), rules.message());
        std::map<std::string, std::vector<float>> first;
        for (int turn = 0; turn < 2; ++turn) {
            Bench bench;
            const auto store = program::ParameterStore::create(*bench, program::parameter_table(network),
                                                               {.gradients = true, .moments = rules->moments()});
            REQUIRE_MESSAGE(store.ok(), store.message());
            for (const auto& [name, values] : twin()["initial"].items())
                REQUIRE(store.value()->upload(name, values.get<std::vector<float>>()).ok());
            program::CompileOptions options;
            options.outputs = {"loss"};
            options.state_outputs = {{"loss", kLossState}};
            const auto step = program::Program::compile(*bench, differentiated.value(), *store.value(), options);
            REQUIRE_MESSAGE(step.ok(), step.message());
            REQUIRE(step.value()->set_scalar("loss_scale.0", 1.0f / 80.0f).ok());
            const auto optimizer = Optimizer::create(*bench, *store.value(), rules->settings(),
                                                     step.value()->gradient_names(), rules->rules({}));
            REQUIRE_MESSAGE(optimizer.ok(), optimizer.message());
            REQUIRE(optimizer.value()->rehearse().ok());
            for (int i = 0; i < twin()["steps"].get<int>(); ++i) {
                REQUIRE(step.value()->run().ok());
                const auto outcome = optimizer.value()->step(recipe.train.learning_rate);
                REQUIRE_MESSAGE(outcome.ok(), outcome.message());
                CHECK(outcome->applied == static_cast<uint32_t>(i + 1));
            }
            double worst = 0.0;
            for (const auto& [name, values] : one["after"].items()) {
                const auto found = store.value()->download(name);
                REQUIRE_MESSAGE(found.ok(), found.message());
                const auto expected = values.get<std::vector<double>>();
                REQUIRE(found->size() == expected.size());
                for (std::size_t i = 0; i < expected.size(); ++i)
                    worst = std::max(worst, std::abs(static_cast<double>(found.value()[i]) - expected[i]));
                const std::vector<float> bits(found->begin(), found->end());
                if (turn == 0) first[name] = bits;
                CHECK(first[name] == bits);
            }
            CHECK(worst < 1e-5);
            MESSAGE(one["name"].get<std::string>(), ": greatest difference ", worst);
        }
    }
}

} // namespace optimizer_twin_test
