// Steps that take turns (train.alternate): their programs and optimizers.
#include "train/training_run.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace hekla::train {

Status TrainingRun::describe_alternation() {
    const std::vector<std::string>& cycle = recipe_.train.alternate;
    HK_ASSIGN(alternation_, Alternation::create(cycle, described_, rules_.frozen));
    if (cycle.empty()) return {};
    if (is_sharded() || has_islands())
        return unsupported("train.alternate: several ranks or distributed.parts above 1 update all parameters in every "
                           "step: train on one device without [distributed], or remove the key");
    if (recipe_.train.fp16)
        return unsupported("train.alternate: train.fp16 has one loss scale for all parameters: set train.bf16 instead, "
                           "or remove the key");
    return {};
}

Status TrainingRun::compile_turns(program::CompileOptions options) {
    turn_programs_.clear();
    for (std::size_t turn = 1; turn < alternation_.turns().size(); ++turn) {
        auto& programs = turn_programs_.emplace_back();
        const Alternation::Turn& of = alternation_.turns()[turn];
        HK_ASSIGN(const graph::Graph graph, differentiated(of));
        HK_ASSIGN(programs[recipe_.train.context_length],
                  program::Program::compile(*runtime_, graph, *store_, options));
        for (const auto& [length, shorter] : shorter_) {
            HK_ASSIGN(const graph::Graph short_graph, differentiated(shorter.described, of));
            HK_ASSIGN(programs[length], program::Program::compile(*runtime_, short_graph, *store_, options));
        }
    }
    return {};
}

Status TrainingRun::create_optimizers(const std::vector<std::string>& reached) {
    optimizers_.clear();
    const auto create = [&](const std::vector<std::string>& parameters, const OptimizerRules& rules) -> Status {
        HK_ASSIGN(std::unique_ptr<Optimizer> made,
                  Optimizer::create(*runtime_, *store_, updates_.settings(), parameters, rules));
        optimizers_.push_back(std::move(made));
        return {};
    };
    if (!alternation_.on()) return create(reached, optimizer_rules());
    for (const Alternation::Class& one : alternation_.classes()) {
        std::vector<std::string> parameters;
        std::ranges::copy_if(reached, std::back_inserter(parameters),
                             [&](const std::string& name) { return one.parameters.contains(name); });
        OptimizerRules rules = optimizer_rules();
        rules.state = one.state;
        HK_TRY(create(parameters, rules));
    }
    return {};
}

std::vector<Optimizer*> TrainingRun::optimizers_of(std::size_t turn) const {
    std::vector<Optimizer*> all;
    for (const std::size_t one : alternation_.turns()[turn].classes) all.push_back(optimizers_[one].get());
    return all;
}

std::vector<std::string> TrainingRun::optimizer_states() const {
    if (!alternation_.on()) return Optimizer::states(recipe_.train);
    std::vector<std::string> names;
    for (const Alternation::Class& one : alternation_.classes())
        for (std::string& name : Optimizer::states(recipe_.train, one.state)) names.push_back(std::move(name));
    return names;
}

} // namespace hekla::train
