#include "train/start/adapter_weights.hpp"

#include "plugin/composition/compose.hpp"

#include "infer/adapters/adapter_use.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/model_tensors.hpp"
#include "plugin/composition/model_names.hpp"
#include "program/parameter_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

Result<LoadedAdapters> load_adapters(const Recipe& recipe, const plugin::Composition& composition,
                                     const graph::Graph& described, program::ParameterStore& store,
                                     const std::function<void(const std::string&)>& message) {
    LoadedAdapters loaded;
    HK_ASSIGN(loaded.adapters, read_adapters(recipe));
    std::erase_if(loaded.adapters, [](const RecipeAdapter& adapter) { return !adapter.from; });
    if (loaded.adapters.empty()) return loaded;
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    HK_ASSIGN(request.fields, composition.batch_fields(1, recipe.train.context_length));
    HK_ASSIGN(plugin::Described evaluated, composition.describe(request));
    infer::AdaptedModelParts parts{
        "model.from = " + recipe.model.from, "", {}, std::move(evaluated.sites), plugin::model_tensors(described)};
    HK_ASSIGN(parts.body, composition.body_parameters(request.fields));
    HK_ASSIGN(const nlohmann::ordered_json base, infer::base_of(recipe.model.from));
    parts.weights = base.at("weights").get<std::string>();
    const bool alone = recipe.adapters.size() <= 1;
    for (RecipeAdapter& adapter : loaded.adapters) {
        parts.takes_head = alone;
        parts.takes_body = alone && (recipe.combine.how.empty() || recipe.combine.how == adapter.spec.name);
        infer::StoredAdapter& from = *adapter.from;
        std::vector<std::string> unused;
        const Result<std::vector<plugin::StoredTensor>> tensors =
            infer::adapter_tensors(from, adapter.spec.name, parts, unused);
        if (!tensors.ok()) return tensors.status().with_context(adapter.key + ".from");
        for (const plugin::StoredTensor& tensor : tensors.value()) {
            HK_TRY(infer::upload(store, tensor));
            loaded.tensors.push_back(tensor);
        }
        const std::string rest = unused.empty() ? "" : fmt::format("; not used: {}", fmt::join(unused, ", "));
        message(fmt::format("{}: {} tensors of the adapter loaded{}", from.path.string(),
                            from.tensors().size() - unused.size(), rest));
    }
    return loaded;
}

} // namespace hekla::train
