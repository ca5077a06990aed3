#include "train/run/data_origin.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/estimate.hpp"
#include "train/evaluation/evaluate.hpp"

#include "plugin/composition/compose.hpp"

#include "base/number_text.hpp"
#include "program/program.hpp"
#include "train/recipe/recipe_rollouts.hpp"
#include "train/run/described_training.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/validation.hpp"
#include "train/step/dropout.hpp"
#include "train/step/loss_counts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

// The training data as it is.
class DataSource final : public BatchSource {
public:
    DataSource(const PreparedRun& run, const plugin::Composition& composition) : run_(run), composition_(composition) {}

    std::vector<batch::DrawnExample> draw(uint64_t number) const override { return run_.data.train().row(number); }
    Status make_fields(std::span<const batch::DrawnExample> examples, int64_t rows, int64_t length,
                       std::vector<data::Field>& fields, uint64_t step) const override {
        return run_.data.train().make_training_fields(composition_, examples,
                                                      static_cast<uint64_t>(run_.recipe.train.seed), rows, length,
                                                      fields, run_.context.host_memory, step);
    }
    double epochs(int64_t step, double examples_of_step) const override {
        return examples_of_step * static_cast<double>(step) / static_cast<double>(run_.data.train().rows());
    }

private:
    const PreparedRun& run_;
    const plugin::Composition& composition_;
};

} // namespace

std::optional<bool> DataOrigin::disables_dropout(const std::vector<plugin::ColumnNeed>& needs, bool resumes) const {
    return learns_from_preferences(needs) ? std::optional(!resumes) : std::nullopt;
}

Status DataOrigin::choose_columns(const Recipe& recipe, const plugin::Registry& /*registry*/,
                                  std::vector<plugin::ColumnNeed>& /*needs*/) const {
    return check_without_rollouts(recipe);
}

Status DataOrigin::check_labels(const PreparedRun& run, const DescribedTraining& training) const {
    const Recipe& recipe = run.recipe;
    if (recipe.train.max_steps == 0) return {};
    const Split& split = run.data.train();
    const int64_t batch = recipe.train.per_device_train_batch_size, length = recipe.train.context_length;
    for (uint64_t first = 0; first < split.size(); first += static_cast<uint64_t>(batch)) {
        HK_TRY(run.context.events.stop.check("reading data"));
        std::vector<batch::DrawnExample> examples;
        for (uint64_t i = first; i < std::min(split.size(), first + static_cast<uint64_t>(batch)); ++i) {
            examples.push_back(split.at(i));
            examples.back().row = std::ssize(examples) - 1;
        }
        std::vector<data::Field> fields;
        HK_TRY(split.make_training_fields(*training.composition, examples, static_cast<uint64_t>(recipe.train.seed),
                                          batch, length, fields, run.context.host_memory, 0));
        HK_ASSIGN(const std::vector<double> counts, loss_counts(training.graph(), fields));
        if (any_label(counts)) return {};
    }
    return invalid_argument(fmt::format(
        "none of the {} examples of data.train has a label for objective '{}' within train.context_length = {}, so "
        "there is nothing to learn: raise train.context_length if the labels begin after it, or check the data",
        grouped(static_cast<double>(split.size())), recipe.objective.id, length));
}

Status DataOrigin::estimate_evaluations(program::Estimator& estimator, const DescribedTraining& training,
                                        const program::CompileOptions& options) const {
    const PreparedRun& run = training.run;
    if (run.data.valid() == nullptr && run.data.test() == nullptr) return {};
    HK_ASSIGN(const auto programs,
              Evaluator::describe(*training.composition, run.evaluation_batch(), run.evaluation_lengths(),
                                  EvaluatorOptions{options.precision, options.kernel_choices}));
    for (const auto& [length, one] : programs) HK_TRY(estimator.add(one.graph, one.options, 0.0).status());
    return {};
}

// Another rank than 0 evaluates its part of the validation data, if ranks divide it.
Result<ExampleOrigin::Opened> DataOrigin::open(const ValidationContext& context) const {
    const PreparedRun& run = context.training.run;
    const bool has_valid = run.data.valid() != nullptr, has_data = has_valid || run.data.test() != nullptr;
    const bool evaluates = run.purpose == Purpose::join ? has_valid && run.division.divides_evaluations() : has_data;
    Opened opened;
    opened.source = std::make_unique<DataSource>(run, *context.training.composition);
    opened.validation = no_validation();
    if (evaluates) { HK_ASSIGN(opened.validation, validation_of_model(context)); }
    return opened;
}

} // namespace hekla::train
