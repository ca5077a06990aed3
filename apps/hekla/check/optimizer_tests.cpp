// Optimizers: what they describe for parameters of many shapes, and its numbers in float64.
#include "check/tests.hpp"

#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "plugin/instances/optimizers.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <random>

namespace hekla::check {
namespace {

using plugin::OptimizedParameter;
using plugin::UpdateGraph;

// Vectors, matrices of all proportions, more dimensions, and one element.
std::vector<OptimizedParameter> parameters() {
    std::vector<OptimizedParameter> all;
    for (const graph::Shape& shape :
         {graph::Shape{}, graph::Shape{1}, graph::Shape{7}, graph::Shape{1, 1}, graph::Shape{5, 3}, graph::Shape{3, 5},
          graph::Shape{1, 11}, graph::Shape{4, 4}, graph::Shape{2, 3, 5}})
        for (const uint32_t flags : {0u, HK_OPTIMIZED_DECAYS, HK_OPTIMIZED_DECAYS | HK_OPTIMIZED_TABLE})
            if (shape.rank() >= 2 || flags == 0) all.push_back({shape, flags});
    return all;
}

std::string text_of(const OptimizedParameter& parameter) {
    return fmt::format("a parameter {}{}{}", parameter.shape.text(),
                       (parameter.flags & HK_OPTIMIZED_DECAYS) != 0 ? " that decays" : "",
                       (parameter.flags & HK_OPTIMIZED_TABLE) != 0 ? ", the table of an embedding" : "");
}

Result<std::unique_ptr<plugin::Optimizers>> open(const Trial& trial, const plugin::Provided& provided) {
    const nlohmann::json config = provided.check.parse().value("config", nlohmann::json::object());
    return plugin::Optimizers::create(trial.registry(), {{std::string(provided.id), config}});
}

// Calls f(parameter, update) for every parameter that the optimizer takes.
template<class F>
Status for_each_update(Trial& trial, const plugin::Provided& provided, F&& f) {
    const std::string id(provided.id);
    HK_ASSIGN(const auto optimizers, open(trial, provided));
    std::size_t taken = 0;
    for (const OptimizedParameter& parameter : parameters()) {
        trial.doing(fmt::format("{}: {}", name_of(provided), text_of(parameter)));
        HK_ASSIGN(const bool takes, optimizers->takes(id, parameter));
        if (!takes) continue;
        ++taken;
        const Result<const UpdateGraph*> update = optimizers->update(id, parameter);
        if (!update.ok())
            trial.fail(fmt::format("{}: takes() accepts {}, and build() does not: {}", name_of(provided),
                                   text_of(parameter), update.message()));
        else
            HK_TRY(f(parameter, *update.value()));
    }
    if (taken == 0)
        trial.fail(fmt::format("{}: takes() accepts no parameter: neither a vector nor a matrix", name_of(provided)));
    return {};
}

// A parameter and its states, which steps of an update change in float64.
class Stepped {
public:
    Stepped(const OptimizedParameter& parameter, const UpdateGraph& update, std::vector<double> values)
        : shape_(parameter.shape), update_(&update) {
        add(plugin::kUpdateParameter, shape_, std::move(values));
        for (const plugin::UpdateState& state : update.states)
            add(plugin::kUpdateState + state.name, state.shape,
                std::vector<double>(static_cast<std::size_t>(state.shape.elements()), state.initial));
    }

    Status step(const std::vector<double>& gradient, double learning_rate) {
        set(plugin::kUpdateGradient, shape_, gradient);
        set(plugin::kUpdateLearningRate, {}, {learning_rate});
        set(plugin::kUpdateStep, {}, {static_cast<double>(++steps_)});
        HK_ASSIGN(std::vector<graph::Tensor> after, graph::evaluate(update_->graph, feeds_, wanted_));
        for (std::size_t i = 0; i < names_.size(); ++i) feeds_.fields[names_[i]].data = std::move(after[i].data);
        return {};
    }
    const std::vector<double>& values() const { return feeds_.fields.at(plugin::kUpdateParameter).data; }

    // Returns the first value that float32 cannot hold, or "".
    std::string first_not_finite() const {
        for (const std::string& name : names_) {
            const std::vector<double>& data = feeds_.fields.at(name).data;
            for (std::size_t at = 0; at < data.size(); ++at)
                if (!(std::abs(data[at]) <= static_cast<double>(std::numeric_limits<float>::max())))
                    return fmt::format("{} has {:.6g} at element {} after step {}", name, data[at], at, steps_);
        }
        return {};
    }

private:
    void add(const std::string& field, const graph::Shape& shape, std::vector<double> data) {
        names_.push_back(field);
        wanted_.push_back(update_->graph.outputs.at(field));
        set(field, shape, std::move(data));
    }
    void set(const std::string& field, const graph::Shape& shape, std::vector<double> data) {
        feeds_.fields[field] = {graph::Kind::float_, shape, std::move(data)};
    }

    graph::Shape shape_;
    const UpdateGraph* update_;
    std::vector<std::string> names_; // of the parameter and its states: fields, and outputs of the graph
    std::vector<graph::ValueId> wanted_;
    graph::Feeds feeds_;
    int steps_ = 0;
};

// Draws numbers from -size to size.
std::vector<double> drawn(std::mt19937_64& bits, const OptimizedParameter& parameter, double size) {
    std::vector<double> numbers(static_cast<std::size_t>(parameter.shape.elements()));
    for (double& one : numbers) one = size * (static_cast<double>(bits() >> 11) / 4503599627370496.0 - 1.0);
    return numbers;
}

} // namespace

Status test_optimizer_shapes(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides)
        HK_TRY(
            for_each_update(trial, provided, [](const OptimizedParameter&, const UpdateGraph&) { return Status(); }));
    return {};
}

Status test_optimizer_same(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const auto others, open(trial, provided));
        const std::string id(provided.id);
        HK_TRY(for_each_update(trial, provided, [&](const OptimizedParameter& parameter, const UpdateGraph& first) {
            HK_ASSIGN(const auto fresh, open(trial, provided));
            for (plugin::Optimizers* again : {others.get(), fresh.get()}) {
                HK_ASSIGN(const UpdateGraph* second, again->update(id, parameter));
                if (graph::print(first.graph) == graph::print(second->graph)) continue;
                trial.fail(fmt::format("{}: two descriptions of the update of {} differ: it depends on more than its "
                                       "configuration and the parameter",
                                       name_of(provided), text_of(parameter)));
                break;
            }
            return Status();
        }));
    }
    return {};
}

Status test_optimizer_finite(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_TRY(for_each_update(trial, provided, [&](const OptimizedParameter& parameter, const UpdateGraph& update) {
            std::mt19937_64 bits(trial.seed());
            const auto numbers = [&](double size) { return drawn(bits, parameter, size); };
            const std::vector<double> zeros(static_cast<std::size_t>(parameter.shape.elements()), 0.0);
            const std::pair<const char*, std::vector<std::vector<double>>> kinds[] = {
                {"random", {numbers(1.0), numbers(1e-3), numbers(10.0)}},
                {"only zeros", {zeros, zeros}},
                {"zeros after the first step", {numbers(1.0), zeros, zeros}},
                {"tiny", {numbers(1e-12), numbers(1e-12)}},
                {"up to a million", {numbers(1e6), numbers(1e6)}}};
            for (const auto& [kind, gradients] : kinds)
                for (const std::vector<double>& values : {numbers(0.5), zeros}) {
                    Stepped stepped(parameter, update, values);
                    std::string found;
                    for (const std::vector<double>& gradient : gradients) {
                        HK_TRY(stepped.step(gradient, 1e-2));
                        if (found = stepped.first_not_finite(); !found.empty()) break;
                    }
                    if (found.empty()) continue;
                    trial.fail(
                        fmt::format("{}: {}, gradients {}: {}", name_of(provided), text_of(parameter), kind, found));
                    return Status();
                }
            return Status();
        }));
    }
    return {};
}

Status test_optimizer_still(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_TRY(for_each_update(trial, provided, [&](const OptimizedParameter& parameter, const UpdateGraph& update) {
            std::mt19937_64 bits(trial.seed());
            const std::vector<double> values = drawn(bits, parameter, 0.5);
            const std::vector<double> zeros(values.size(), 0.0);
            const auto try_steps = [&](const char* what, const std::vector<double>& gradient, double rate) -> Status {
                Stepped stepped(parameter, update, values);
                for (int i = 0; i < 2; ++i) HK_TRY(stepped.step(gradient, rate));
                for (std::size_t at = 0; at < values.size(); ++at)
                    if (stepped.values()[at] != values[at]) {
                        trial.fail(fmt::format("{}: {}, {}: element {} changes from {:.6g} to {:.6g}",
                                               name_of(provided), text_of(parameter), what, at, values[at],
                                               stepped.values()[at]));
                        break;
                    }
                return {};
            };
            HK_TRY(try_steps("a learning rate of 0", drawn(bits, parameter, 1.0), 0.0));
            // A state that does not begin with zeros may move a parameter on its own.
            const bool at_rest = std::ranges::all_of(
                update.states, [](const plugin::UpdateState& state) { return state.initial == 0.0; });
            if (at_rest && (parameter.flags & HK_OPTIMIZED_DECAYS) == 0)
                HK_TRY(try_steps("which does not decay, gradients of 0", zeros, 1e-2));
            return Status();
        }));
    }
    return {};
}

Status test_optimizer_descends(Trial& trial) {
    constexpr int kSteps = 100;
    for (const plugin::Provided& provided : trial.manifest().provides) {
        const double rate = provided.check.parse().value("learning_rate", 2e-2);
        HK_TRY(for_each_update(trial, provided, [&](const OptimizedParameter& parameter, const UpdateGraph& update) {
            std::mt19937_64 bits(trial.seed());
            std::vector<double> values = drawn(bits, parameter, 0.5);
            for (double& value : values) value += value < 0.0 ? -0.5 : 0.5;
            const auto loss = [](const std::vector<double>& of) {
                return 0.5 * std::inner_product(of.begin(), of.end(), of.begin(), 0.0);
            };
            Stepped stepped(parameter, update, values);
            for (int i = 0; i < kSteps; ++i) HK_TRY(stepped.step(std::vector<double>(stepped.values()), rate));
            if (const double before = loss(values), after = loss(stepped.values()); !(after < 0.9 * before))
                trial.fail(fmt::format("{}: {}: {} steps on half the sum of its squares, with the learning rate {:g}, "
                                       "bring it from {:.4g} to {:.4g}",
                                       name_of(provided), text_of(parameter), kSteps, rate, before, after));
            return Status();
        }));
    }
    return {};
}

} // namespace hekla::check
