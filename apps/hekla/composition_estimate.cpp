#include "composition_estimate.hpp"

#include "generate/decoder_program.hpp"
#include "plugin/composition/compose.hpp"
#include "program/estimate.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"
#include "train/recipe/recipe.hpp"
#include "train/step/training_graph.hpp"
#include "train/update/optimizer.hpp"

namespace hekla::app {

std::set<std::string, std::less<>> parameters_without_adapters(const graph::Graph& described) {
    std::set<std::string, std::less<>> names;
    for (const auto& [name, value] : described.parameters())
        if (!name.starts_with(plugin::kAdapter)) names.insert(name);
    return names;
}

Result<program::Estimate> estimate_step(const plugin::Composition& composition, const program::Target& target,
                                        const StepEstimate& step, const train::TrainSection& optimizer) {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(step.rows, step.context));
    HK_ASSIGN(const graph::Graph described, composition.build(HK_MODE_TRAIN, fields));
    std::set<std::string, std::less<>> frozen;
    if (step.adapters_only) frozen = parameters_without_adapters(described);
    HK_ASSIGN(const graph::Graph differentiated, train::training_graph(described, frozen));
    program::Estimator estimator(target);
    std::vector<program::ParameterEntry> table = program::parameter_table(described);
    program::keep_readable_in_16_bits(table, differentiated);
    HK_TRY(estimator.add_store(
        std::move(table),
        {.gradients = true, .moments = program::kAdamMoments, .weights = step.frozen_weights, .frozen = frozen}));
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.state_outputs = {{"loss", train::kLossState}};
    options.precision = step.precision;
    HK_ASSIGN(const program::Lowering lowering, estimator.add(differentiated, options, 1.0));
    HK_TRY(train::Optimizer::estimate(estimator, lowering, optimizer, {.no_decay = train::without_decay(described)}));
    return estimator.finish();
}

Result<program::Estimate> estimate_token(const plugin::Composition& composition, const program::Target& target,
                                         program::Storage weights, const generate::DecodeBatch& batch) {
    const std::vector<plugin::BatchField> fields{{"input_ids", graph::Kind::int32, {1, 1}},
                                                 {"next_ids", graph::Kind::int32, {1, 1}}};
    HK_ASSIGN(const graph::Graph described, composition.build(HK_MODE_EVALUATE, fields));
    program::Estimator estimator(target);
    HK_TRY(estimator.add_store(program::parameter_table(described), {.weights = weights}));
    HK_TRY(generate::estimate_decoder(estimator, composition, batch));
    return estimator.finish();
}

} // namespace hekla::app
