#include "train/rollouts/reference_model.hpp"

#include "infer/open/open_model.hpp"

#include "infer/open/model_tensors.hpp"
#include "program/parameter_store.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/start/initial_weights.hpp"

#include <fmt/format.h>

namespace hekla::train {
namespace {

enum class ReferenceKind { folder, base, as_it_began };

ReferenceKind reference_kind(const Recipe& recipe) {
    if (!recipe.reference.from.empty() && recipe.reference.from != "base") return ReferenceKind::folder;
    return has_adapters(recipe) ? ReferenceKind::base : ReferenceKind::as_it_began;
}

// The parameters of the model itself, without a value function of its own.
std::vector<program::ParameterEntry> own_table(const graph::Graph& described) {
    std::vector<program::ParameterEntry> table = program::parameter_table(described);
    std::erase_if(table, [](const program::ParameterEntry& entry) { return plugin::is_of_other_network(entry.name); });
    return table;
}

Result<std::string> hash_of_store(program::ParameterStore& store) {
    std::string state;
    for (const program::ParameterEntry& entry : store.table()) {
        HK_ASSIGN(const ResourceArray<float> values, store.download(entry.name));
        state += entry.name + to_hex(hash128(std::as_bytes(std::span(values))));
    }
    return to_hex(hash128(state));
}

} // namespace

Result<std::unique_ptr<ReferenceModel>> ReferenceModel::create(const TrainedModel& t, const Log& log) {
    std::unique_ptr<ReferenceModel> made(new ReferenceModel());
    made->runtime_ = t.runtime;
    if (reference_kind(t.recipe) == ReferenceKind::folder) {
        Result<infer::Model> opened = infer::open_model(t.registry, t.runtime, t.recipe.reference.from, {}, log);
        if (!opened.ok()) return opened.status().with_context("reference.from");
        made->opened_ = opened.take();
        if (made->opened_.tokenizer->hash() != t.tokenizer.hash())
            return invalid_argument(fmt::format("reference.from = {}: the reference has another tokenizer than this "
                                                "run, so their tokens cannot be compared: set tokenizer.from to that "
                                                "folder, or choose another reference",
                                                t.recipe.reference.from));
        HK_ASSIGN(made->hash_, hash_of_store(*made->opened_.store));
        return made;
    }
    plugin::CompositionSpec spec = t.spec;
    if (const auto names = plugin::head_names(t.spec.head); !names.empty())
        spec.head = names.front(); // values are not compared
    spec.value.reset();
    spec.adapters.clear();
    spec.combination.clear();
    spec.combination_config = nlohmann::json::object();
    HK_ASSIGN(made->composition_, plugin::Composition::create(t.registry, spec, &t.tokenizer, log));
    if (reference_kind(t.recipe) == ReferenceKind::base) {
        made->shared_ = t.store;
        return made;
    }
    HK_ASSIGN(made->store_, program::ParameterStore::create(*t.runtime, own_table(t.described), {}));
    HK_TRY(infer::upload_described_buffers(*made->store_, t.described));
    HK_TRY(start_parameters(t.recipe, t.registry, t.composition, t.described, *made->store_, [](const std::string&) {
           }).status());
    HK_ASSIGN(made->hash_, hash_of_store(*made->store_));
    return made;
}

infer::Network ReferenceModel::network() const {
    if (composition_ == nullptr) return infer::network_of(opened_);
    return {composition_.get(), runtime_, shared_ != nullptr ? shared_ : store_.get(), nullptr};
}

Result<std::vector<program::ParameterEntry>> ReferenceModel::own_parameters(const Recipe& recipe,
                                                                            const plugin::Registry& registry,
                                                                            const graph::Graph& described,
                                                                            const Log& log) {
    if (reference_kind(recipe) == ReferenceKind::base) return std::vector<program::ParameterEntry>();
    if (reference_kind(recipe) == ReferenceKind::as_it_began) return own_table(described);
    infer::ModelOptions options;
    options.describe_only = true;
    Result<infer::Model> opened = infer::open_model(registry, {}, recipe.reference.from, options, log);
    if (!opened.ok()) return opened.status().with_context("reference.from");
    return opened->table;
}

} // namespace hekla::train
