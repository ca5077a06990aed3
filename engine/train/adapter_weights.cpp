#include "train/adapter_weights.hpp"

#include "infer/adapter_use.hpp"
#include "infer/base_model.hpp"
#include "infer/model_tensors.hpp"
#include "train/recipe_adapters.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

Status check_body(const Recipe& recipe, const infer::StoredAdapter& from) {
    if (from.weights.empty()) return {};
    HK_ASSIGN(const nlohmann::ordered_json base, infer::base_of(recipe.model.from));
    if (const auto found = base.at("weights").get<std::string>(); found != from.weights)
        return failed_precondition(fmt::format("{}: was trained with another body (hash {}) than model.from = {} "
                                               "contains (hash {}): name the body that it was trained with",
                                               from.path.string(), from.weights, recipe.model.from, found));
    return {};
}

} // namespace

Result<std::set<std::string>> load_adapters(const Recipe& recipe, const plugin::Composition& composition,
                                            const graph::Graph& described, program::ParameterStore& store,
                                            const std::function<void(const std::string&)>& message) {
    HK_ASSIGN(std::vector<RecipeAdapter> adapters, read_adapters(recipe));
    std::erase_if(adapters, [](const RecipeAdapter& adapter) { return !adapter.from; });
    std::set<std::string> loaded;
    if (adapters.empty()) return loaded;
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    HK_ASSIGN(request.fields, composition.batch_fields(1, recipe.train.context_length));
    HK_ASSIGN(const plugin::Described sites, composition.describe(request));
    HK_ASSIGN(const std::set<std::string> body, composition.body_parameters(request.fields));
    const std::vector<plugin::ModelTensor> model = plugin::model_tensors(described);
    for (RecipeAdapter& adapter : adapters) {
        infer::StoredAdapter& from = *adapter.from;
        std::vector<std::string> unused;
        const auto load = [&]() -> Status {
            HK_TRY(check_body(recipe, from));
            HK_TRY(from.name_tensors(sites.sites));
            HK_ASSIGN(const std::vector<plugin::StoredTensor> tensors,
                      infer::adapter_tensors(from, adapter.spec.name, model, body, unused));
            for (const plugin::StoredTensor& tensor : tensors) {
                HK_TRY(infer::upload(store, tensor));
                loaded.insert(tensor.tensor.name);
            }
            return {};
        };
        HK_TRY(load().with_context(adapter.key + ".from"));
        const std::string rest = unused.empty() ? "" : fmt::format("; not used: {}", fmt::join(unused, ", "));
        message(fmt::format("{}: {} tensors of the adapter loaded{}", from.path.string(),
                            from.tensors().size() - unused.size(), rest));
    }
    return loaded;
}

} // namespace hekla::train
