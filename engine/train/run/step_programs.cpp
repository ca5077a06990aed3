#include "train/run/step_programs.hpp"

#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/run/described_training.hpp"
#include "train/run/kernel_record.hpp"
#include "train/update/alternation.hpp"

namespace hekla::train {

Result<StepPrograms> StepPrograms::compile(program::Runtime& runtime, program::ParameterStore& store,
                                           const DescribedTraining& training, const graph::Graph& longest,
                                           std::map<std::string, std::string>& choices) {
    StepPrograms programs;
    program::CompileOptions options = training.step_options(choices);
    const int64_t full = training.by_length.rbegin()->first;
    for (const Alternation::Turn& turn : training.alternation.turns()) {
        auto& of_turn = programs.turns_.emplace_back();
        if (programs.turns_.size() == 1) {
            HK_ASSIGN(of_turn[full], program::Program::compile(runtime, longest, store, options));
            // Equal products use equal kernels, even if only one of several programs was measured.
            for (const std::string& choice : of_turn[full]->kernel_choices()) add_choice(choice, choices);
            options.kernel_choices = choices;
        } else {
            HK_ASSIGN(const graph::Graph graph, training.differentiated(full, turn));
            HK_ASSIGN(of_turn[full], program::Program::compile(runtime, graph, store, options));
        }
        for (const auto& [length, described] : training.by_length) {
            if (length == full) continue;
            HK_ASSIGN(const graph::Graph graph, training.differentiated(described, turn));
            HK_ASSIGN(of_turn[length], program::Program::compile(runtime, graph, store, options));
        }
    }
    return programs;
}

int64_t StepPrograms::fitting(int64_t tokens) const {
    const auto found = turns_.front().lower_bound(tokens);
    return found != turns_.front().end() ? found->first : longest_length();
}

void StepPrograms::for_each(const std::function<void(int64_t length, program::Program&)>& use) const {
    for (const auto& of_turn : turns_)
        for (const auto& [length, program] : of_turn) use(length, *program);
}

} // namespace hekla::train
