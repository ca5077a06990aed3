#include "described.hpp"
#include "graph/output.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "infer/open/model.hpp"
#include "model/folder.hpp"
#include "plugin/composition/named_model.hpp"
#include "text/tokenizer_trainer.hpp"
#include "train/recipe/tokenizer_choice.hpp"
#include "train/run/run_data.hpp"
#include "train/start/model_spec.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Returns the run's tokenizer if it exists, else the one that a new run would start with. Null if the recipe specifies
// the number of ids, since then no tokenizer is needed.
Result<std::unique_ptr<text::Tokenizer>> tokenizer_of(const plugin::Registry& registry, const train::Recipe& recipe,
                                                      const train::RunData& data, const Log& log) {
    std::error_code problem;
    const fs::path run = recipe.output.dir;
    if (fs::exists(run / "tokenizer.json", problem)) return text::load_tokenizer(run);
    if (recipe.tokenizer.kind == "from") {
        const std::string from = !recipe.tokenizer.from.empty() ? recipe.tokenizer.from
                                 : !recipe.model.from.empty()   ? recipe.model.from
                                                                : recipe.teacher.from;
        HK_ASSIGN(std::unique_ptr<text::Tokenizer> stored, text::load_tokenizer(from));
        return train::with_added_tokens(std::move(stored), recipe.tokenizer);
    }
    if (recipe.model.config.contains("vocab_size")) return std::unique_ptr<text::Tokenizer>();
    log.info("making the recipe's tokenizer from its data, to know the vocabulary");
    HK_ASSIGN(const plugin::Registry::Entry objective, registry.find(HK_OBJECTIVE_INTERFACE, recipe.objective.id));
    const std::unique_ptr<text::TokenizerTrainer> trainer =
        train::tokenizer_trainer(recipe.tokenizer, objective.provided->roles);
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> trained, data.train_tokenizer(*trainer));
    return train::with_added_tokens(std::move(trained), recipe.tokenizer);
}

// Without a tokenizer: from the recipe alone.
plugin::CompositionSpec plain_spec(const train::Recipe& recipe) {
    plugin::CompositionSpec spec;
    spec.architecture = recipe.model.architecture;
    spec.config = recipe.model.config;
    spec.head = recipe.head.id;
    spec.head_config = recipe.head.config;
    spec.objective = recipe.objective.id;
    spec.objective_config = train::objective_before_data(recipe);
    return spec;
}

uint64_t arena_bytes(const graph::Graph& graph) {
    constexpr uint64_t kElements = 256; // alignment of the tensors in a store
    uint64_t elements = 0;
    for (const program::ParameterEntry& entry : program::parameter_table(graph))
        elements += (static_cast<uint64_t>(entry.shape.elements()) + kElements - 1) / kElements * kElements;
    return elements * sizeof(float);
}

} // namespace

Result<Described> describe_recipe(const plugin::Registry& registry, const train::Recipe& recipe, const Log& log) {
    Described d;
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(registry, recipe.objective.id, train::objective_before_data(recipe)));
    // Tables determine the number of classes, and the tokenizer may be trained on them.
    train::RunData data;
    const bool alone = recipe.model.config.contains("vocab_size") && recipe.model.from.empty();
    if (!alone) { HK_ASSIGN(data, train::RunData::read(recipe, needs)); }
    HK_ASSIGN(d.tokenizer, tokenizer_of(registry, recipe, data, log));
    plugin::CompositionSpec spec = plain_spec(recipe);
    if (d.tokenizer != nullptr) {
        train::DataFacts facts = data.facts();
        if (alone) // the data was not read; the objective's fields are known
            facts.numbers = std::ranges::any_of(
                needs, [](const plugin::ColumnNeed& need) { return need.target && need.kind == HK_COLUMN_NUMBERS; });
        HK_ASSIGN(spec, train::model_spec(recipe, registry, *d.tokenizer, facts));
    }
    spec.recompute = recipe.train.gradient_checkpointing;
    HK_ASSIGN(d.composition, plugin::Composition::create(registry, spec, d.tokenizer.get(), log));
    HK_ASSIGN(d.fields,
              d.composition->training_fields(recipe.train.per_device_train_batch_size, recipe.train.context_length));
    HK_ASSIGN(d.graph, d.composition->build(HK_MODE_TRAIN, d.fields));
    return d;
}

namespace {

Result<Described> describe_spec(const plugin::Registry& registry, const plugin::CompositionSpec& spec, int64_t batch,
                                int64_t length, const Log& log) {
    Described d;
    HK_ASSIGN(d.composition, plugin::Composition::create(registry, spec, nullptr, log));
    if (spec.objective.empty()) {
        d.fields = {{"input_ids", graph::Kind::int32, {batch, length}}};
    } else {
        HK_ASSIGN(d.fields, d.composition->batch_fields(batch, length));
    }
    HK_ASSIGN(d.graph, d.composition->build(HK_MODE_EVALUATE, d.fields));
    return d;
}

} // namespace

Result<Described> describe_folder(const plugin::Registry& registry, const fs::path& folder, int64_t batch,
                                  int64_t length, const Log& log) {
    HK_ASSIGN(const model::ModelFolder opened, model::ModelFolder::open(folder));
    HK_ASSIGN(plugin::CompositionSpec spec, infer::stored_spec(registry, opened, {.objective = true}));
    Result<Described> own = describe_spec(registry, spec, batch, length, log);
    if (own.ok() || spec.objective.empty()) return own;
    // Objectives of preferences, rollouts and distillation read models that the folder does not contain.
    const std::string trained_with = std::exchange(spec.objective, "");
    spec.objective_config = json::object();
    HK_ASSIGN(const plugin::NamedModel named, plugin::named_model(registry, spec.config, spec.file));
    if (named.reference != nullptr && named.reference->objective != trained_with) {
        spec.objective = named.reference->objective;
        spec.objective_config = named.reference->objective_config.parse();
    }
    Result<Described> published = describe_spec(registry, spec, batch, length, log);
    if (!published.ok()) return own;
    log.info(fmt::format("described {}: the objective it was trained with, {}, reads more than the folder contains",
                         spec.objective.empty() ? "without an objective"
                                                : fmt::format("with the objective {}", spec.objective),
                         trained_with));
    return published;
}

Result<Planned> plan_of(const program::Runtime& runtime, const graph::Graph& graph) {
    program::CompileOptions options;
    bool gradients = false;
    for (const auto& [name, value] : graph.outputs) {
        if (graph::output_of(graph::OutputKind::gradient, name))
            gradients = true;
        else
            options.outputs.push_back(name);
    }
    if (gradients) options.outputs = {"loss"}; // other outputs are only for reports; a training step does not keep them
    options.gradients = gradients ? program::Gradients::overwrite : program::Gradients::ignore;
    if (options.outputs.empty())
        for (std::size_t i = 0; i < graph.losses.size(); ++i)
            options.outputs.push_back(graph::output_name(graph::OutputKind::loss_sum, i));
    HK_ASSIGN(const program::Lowering lowering, program::lower(graph, runtime.limits(), options));
    Planned planned;
    for (const program::Dispatch& dispatch : lowering.dispatches) planned.flops += dispatch.flops;
    HK_ASSIGN(planned.memory, program::plan_memory(lowering, runtime.options().max_block_bytes));
    program::MemoryPlan& plan = planned.memory;
    plan.parameters = arena_bytes(graph);
    plan.gradients = gradients ? plan.parameters : 0;
    plan.moments = gradients ? 2 * plan.parameters : 0;
    for (const program::Resource& resource : lowering.resources)
        if (resource.kind == program::ResourceKind::state) plan.states += resource.bytes;
    return planned;
}

std::string elide_lists(const std::string& graph_text) {
    constexpr std::ptrdiff_t kShown = 8, kLongest = 64;
    std::string out;
    std::size_t at = 0;
    while (at < graph_text.size()) {
        const std::size_t open = graph_text.find("=[", at);
        const std::size_t close = open == std::string::npos ? open : graph_text.find(']', open);
        if (close == std::string::npos) break;
        const auto begin = graph_text.begin() + static_cast<std::ptrdiff_t>(open),
                   end = graph_text.begin() + static_cast<std::ptrdiff_t>(close);
        const std::ptrdiff_t count = std::count(begin, end, ',') + 1;
        std::size_t shown = close;
        if (count > kLongest) {
            shown = open;
            for (std::ptrdiff_t i = 0; i < kShown; ++i) shown = graph_text.find(',', shown + 1);
        }
        out += graph_text.substr(at, shown - at);
        if (count > kLongest) out += fmt::format(", ... {} numbers", count);
        at = close;
    }
    return out + graph_text.substr(at);
}

int64_t parameter_count(const graph::Graph& graph) {
    int64_t count = 0;
    for (const auto& [name, value] : graph.parameters()) count += graph.shape(value).elements();
    return count;
}

} // namespace hekla::app
