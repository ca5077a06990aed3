// Optimizers as plugins: what they describe, in this process and in another one, and what they must not do.
#include "adapter_case.hpp"

#include "plugin/instances/optimizers.hpp"

namespace optimizer_plugin_test {

using namespace adapter_case;

namespace {

const OptimizedParameter kMatrix{{3, 5}, HK_OPTIMIZED_DECAYS};

Result<UpdateGraph> described(const Registry& registry, const std::string& id, const json& config = json::object(),
                              const OptimizedParameter& parameter = kMatrix) {
    HK_ASSIGN(const auto optimizers, Optimizers::create(registry, {{id, config}}));
    HK_ASSIGN(const UpdateGraph* update, optimizers->update(id, parameter));
    return *update;
}

std::vector<std::string> state_names(const UpdateGraph& update) {
    std::vector<std::string> names;
    for (const UpdateState& state : update.states) names.push_back(state.name + " " + state.shape.text());
    return names;
}

} // namespace

TEST_CASE("optimizers: an update has fields, states with initial values, and outputs") {
    const Registry registry = adapters();
    const auto update = described(registry, "heavy-ball");
    REQUIRE_MESSAGE(update.ok(), update.message());
    REQUIRE(update->states.size() == 1);
    CHECK(update->states[0].name == "velocity");
    CHECK(update->states[0].shape == graph::Shape{3, 5});
    CHECK(update->states[0].initial == 0.25);
    graph::Feeds feeds;
    const auto give = [&](const char* name, const graph::Shape& shape, double value) {
        feeds.fields[name] = {graph::Kind::float32, shape,
                              std::vector<double>(static_cast<std::size_t>(shape.elements()), value)};
    };
    give(kUpdateParameter, {3, 5}, 1.0);
    give(kUpdateGradient, {3, 5}, 2.0);
    give(kUpdateLearningRate, {}, 0.125);
    give("state.velocity", {3, 5}, 4.0);
    const std::vector<graph::ValueId> wanted{update->graph.outputs.at(kUpdateParameter),
                                             update->graph.outputs.at("state.velocity")};
    const auto values = graph::evaluate(update->graph, feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    CHECK(values.value()[0].data[7] == 1.0 - 0.125 * 4.0);
    CHECK(values.value()[1].data[7] == 4.0);
}

TEST_CASE("optimizers: the built-in ones keep what their papers say, and take what they should") {
    const Registry registry = adapters();
    const std::pair<const char*, std::vector<std::string>> kept[] = {
        {"adamw", {"exp_avg [3, 5]", "exp_avg_sq [3, 5]"}},  {"lion", {"exp_avg [3, 5]"}},         {"sgd", {}},
        {"adafactor", {"row_var [3, 1]", "col_var [1, 5]"}}, {"muon", {"momentum_buffer [3, 5]"}},
    };
    for (const auto& [id, states] : kept) {
        CAPTURE(id);
        const auto update = described(registry, id);
        REQUIRE_MESSAGE(update.ok(), update.message());
        CHECK(state_names(update.value()) == states);
    }
    const auto vector = described(registry, "adafactor", json::object(), {{7}, 0});
    REQUIRE_MESSAGE(vector.ok(), vector.message());
    CHECK(state_names(vector.value()) == std::vector<std::string>{"variance [7]"});
    const auto optimizers = Optimizers::create(registry, {{"muon", json::object()}, {"lion", json::object()}});
    REQUIRE_MESSAGE(optimizers.ok(), optimizers.message());
    const auto takes = [&](const char* id, const OptimizedParameter& parameter) {
        const auto taken = optimizers.value()->takes(id, parameter);
        REQUIRE_MESSAGE(taken.ok(), taken.message());
        return taken.value();
    };
    CHECK(takes("muon", kMatrix));
    CHECK(!takes("muon", {{3, 5}, HK_OPTIMIZED_TABLE}));
    CHECK(!takes("muon", {{3}, 0}));
    CHECK(takes("lion", {{3}, 0}));
}

TEST_CASE("optimizers: described in another process, an update is the same") {
    const Registry here = adapters(), apart = adapters(Processes::Describe::child);
    for (const char* id : {"muon", "adafactor", "heavy-ball"}) {
        CAPTURE(id);
        const auto first = described(here, id), second = described(apart, id);
        REQUIRE_MESSAGE(first.ok(), first.message());
        REQUIRE_MESSAGE(second.ok(), second.message());
        CHECK(graph::print(first->graph) == graph::print(second->graph));
        CHECK(state_names(first.value()) == state_names(second.value()));
        CHECK(first->states[0].initial == second->states[0].initial);
    }
    const auto optimizers = Optimizers::create(apart, {{"muon", json::object()}});
    REQUIRE_MESSAGE(optimizers.ok(), optimizers.message());
    CHECK(!optimizers.value()->takes("muon", {{3}, 0}).value());
}

TEST_CASE("optimizers: what one must not do is one clear error") {
    const std::pair<const char*, const char*> faults[] = {
        {"throws_in_create", "optimizer 'heavy-ball': it does not want to"},
        {"refuses", "no update for this one"},
        {"no_value", "build() for a parameter [3, 5]: it gives no value"},
        {"odd_shape", "build() for a parameter [3, 5]: it gives float [15, 1], expected float [3, 5]"},
        {"another_kind", "it gives int32 [3, 5], expected float [3, 5]"},
        {"foreign_value", "a value of another graph was passed"},
        {"another_parameter",
         "it reads the parameter 'wte.weight': an update sees the values of its own parameter alone"},
        {"a_field", "the batch has no field 'input_ids'"},
        {"a_scalar", "it reads the step_scalar 'warmth'"},
        {"random", "it uses random_normal"},
        {"truncated", "it uses truncated_normal"},
        {"offers", "it offers a port or adds a loss or metric"},
        {"open_scope", "a scope or region is still open after it"},
        {"not_declared", "the state 'velocity' is written and was not declared before"},
        {"bad_name", "a state is named 'a.b'; expected 1 to 64 letters, digits and _"},
        {"declared_twice", "the state 'velocity' is declared twice"},
        {"never_written", "the state 'velocity' is never written"},
        {"written_twice", "the state 'velocity' is written twice"},
        {"another_initial", "the initial value of the state 'gradient' is the result of input; expected a fill"},
        {"state_shape", "the state 'velocity' is declared with the shape [3, 5], and [15, 1] is written to it"},
        {"throws", "an exception"},
    };
    for (const Processes::Describe how : {Processes::Describe::in_process, Processes::Describe::child}) {
        const Registry registry = adapters(how);
        for (const auto& [name, message] : faults) {
            if (how == Processes::Describe::child && std::string_view(name) == "throws") continue; // disables it
            CAPTURE(name);
            const Fault fault(name);
            const auto update = described(registry, "heavy-ball");
            REQUIRE(!update.ok());
            CAPTURE(update.message());
            CHECK(update.message().find(message) != std::string::npos);
        }
    }
    const Registry registry = adapters();
    const Fault fault("throws_in_takes");
    const auto optimizers = Optimizers::create(registry, {{"heavy-ball", json::object()}});
    REQUIRE_MESSAGE(optimizers.ok(), optimizers.message());
    CHECK(optimizers.value()->takes("heavy-ball", kMatrix).message().find("it does not know such parameters") !=
          std::string::npos);
}

TEST_CASE("optimizers: configurations that do not fit are refused") {
    const Registry registry = adapters();
    CHECK(described(registry, "heavy-ball", {{"momentum", 2}}).message() ==
          "optimizer 'heavy-ball': momentum is 2, expected from 0 to 1");
    CHECK(described(registry, "lion", {{"beta", 2}}).message() ==
          "optimizer 'lion' does not know the key 'beta'; did you mean 'betas'?");
    CHECK(described(registry, "lion", {{"betas", {0.9}}}).message().find("betas has 1 numbers, expected 2") !=
          std::string::npos);
    CHECK(described(registry, "sgd", {{"nesterov", true}}).message().find("needs a momentum above 0") !=
          std::string::npos);
    CHECK(described(registry, "lyon").message().find("lion") != std::string::npos);
}

} // namespace optimizer_plugin_test
