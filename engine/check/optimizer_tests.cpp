// Optimizers: what they describe for parameters of many shapes, and its numbers in float64.
#include "check/tests.hpp"

#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "plugin/optimizers.hpp"

#include <cmath>
#include <fmt/format.h>
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

// Runs steps of an update in float64, each with its gradients; returns the first value that is not finite, or "".
Result<std::string> first_not_finite(const OptimizedParameter& parameter, const UpdateGraph& update,
                                     const std::vector<std::vector<double>>& gradients, std::vector<double> values) {
    graph::Feeds feeds;
    const auto set = [&](const std::string& field, const graph::Shape& shape, std::vector<double> data) {
        feeds.fields[field] = {graph::Kind::float_, shape, std::move(data)};
    };
    std::vector<std::string> names{plugin::kUpdateParameter};
    set(plugin::kUpdateParameter, parameter.shape, std::move(values));
    set(plugin::kUpdateLearningRate, {}, {1e-2});
    for (const plugin::UpdateState& state : update.states) {
        names.push_back(plugin::kUpdateState + state.name);
        set(names.back(), state.shape,
            std::vector<double>(static_cast<std::size_t>(state.shape.elements()), state.initial));
    }
    std::vector<graph::ValueId> wanted;
    for (const std::string& name : names) wanted.push_back(update.graph.outputs.at(name));
    for (std::size_t step = 0; step < gradients.size(); ++step) {
        set(plugin::kUpdateGradient, parameter.shape, gradients[step]);
        set(plugin::kUpdateStep, {}, {static_cast<double>(step + 1)});
        HK_ASSIGN(const std::vector<graph::Tensor> after, graph::evaluate(update.graph, feeds, wanted));
        for (std::size_t i = 0; i < names.size(); ++i) {
            for (std::size_t at = 0; at < after[i].data.size(); ++at)
                if (!std::isfinite(after[i].data[at]))
                    return fmt::format("{} has {} at element {} after step {}", names[i], after[i].data[at], at,
                                       step + 1);
            feeds.fields[names[i]].data = after[i].data;
        }
    }
    return std::string();
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
            const auto count = static_cast<std::size_t>(parameter.shape.elements());
            std::mt19937_64 bits(trial.seed());
            const auto numbers = [&](double size) {
                std::vector<double> drawn(count);
                for (double& one : drawn) one = size * (static_cast<double>(bits() >> 11) / 4503599627370496.0 - 1.0);
                return drawn;
            };
            const std::vector<double> zeros(count, 0.0);
            const std::pair<const char*, std::vector<std::vector<double>>> kinds[] = {
                {"random", {numbers(1.0), numbers(1e-3), numbers(10.0)}},
                {"only zeros", {zeros, zeros}},
                {"zeros after the first step", {numbers(1.0), zeros, zeros}},
                {"tiny", {numbers(1e-12), numbers(1e-12)}}};
            for (const auto& [kind, gradients] : kinds)
                for (const std::vector<double>& values : {numbers(0.5), zeros}) {
                    HK_ASSIGN(const std::string found, first_not_finite(parameter, update, gradients, values));
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

} // namespace hekla::check
