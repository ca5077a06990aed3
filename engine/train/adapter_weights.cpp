#include "train/adapter_weights.hpp"

#include "base/nearest_name.hpp"
#include "infer/base_model.hpp"
#include "infer/model_tensors.hpp"
#include "model/finite.hpp"
#include "plugin/model_names.hpp"
#include "train/recipe_adapters.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

// Loads one adapter after the other.
class Loader {
public:
    Loader(const Recipe& recipe, const plugin::Composition& composition, const graph::Graph& described,
           program::ParameterStore& store)
        : recipe_(recipe), composition_(composition), store_(store) {
        for (const plugin::ModelTensor& tensor : plugin::model_tensors(described)) model_.emplace(tensor.name, tensor);
    }

    // Returns the tensors that are not used.
    Result<std::vector<std::string>> load(RecipeAdapter& adapter) {
        infer::StoredAdapter& from = *adapter.from;
        HK_TRY(check_body(from));
        if (body_.empty()) {
            HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                      composition_.batch_fields(1, recipe_.train.context_length));
            HK_ASSIGN(body_, composition_.body_parameters(fields));
        }
        if (from.foreign) {
            HK_ASSIGN(const std::vector<plugin::Site>* sites, this->sites());
            HK_TRY(from.name_tensors(*sites));
        }
        const std::string where = from.path.string(), own = prefix(adapter);
        const bool alone = adapter.spec.name.empty();
        std::vector<std::string> unused;
        for (const model::TensorView& tensor : from.tensors()) {
            const bool of_adapter = tensor.name.starts_with(plugin::kAdapter);
            if (!alone && !of_adapter && body_.contains(tensor.name))
                return unsupported(fmt::format("{}: contains '{}' of the body, which was trained with the adapter; "
                                               "several adapters cannot have a body each: use it alone, as [adapter]",
                                               where, tensor.name));
            const std::string name =
                of_adapter ? own + tensor.name.substr(std::string_view(plugin::kAdapter).size()) : tensor.name;
            const auto found = model_.find(name);
            const bool fits = found != model_.end() && found->second.shape.vector() == tensor.dims;
            if (!of_adapter && (!alone || !fits)) { // another task's head
                unused.push_back(tensor.name);
                continue;
            }
            if (found == model_.end())
                return corrupt(fmt::format("{}: tensor {} belongs to no module that the adapter acts at{}", where,
                                           model::in_quotes(tensor.name), nearest(name)));
            if (!fits)
                return corrupt(fmt::format("{}: {} is {}, expected {}: the adapter is of another size or body", where,
                                           tensor.name, model::format_dims(tensor.dims), found->second.shape.text()));
            HK_TRY(model::check_finite(tensor).with_context(where));
            HK_TRY(infer::upload(store_, {found->second, &tensor}));
            loaded_.insert(name);
        }
        for (const auto& [name, tensor] : model_)
            if (name.starts_with(own) && !loaded_.contains(name))
                return corrupt(fmt::format("{}: has no tensor '{}{}', which the adapter's configuration means", where,
                                           plugin::kAdapter, name.substr(own.size())));
        return unused;
    }

    std::set<std::string> take_loaded() { return std::move(loaded_); }

private:
    static std::string prefix(const RecipeAdapter& adapter) {
        return plugin::kAdapter + (adapter.spec.name.empty() ? std::string() : adapter.spec.name + ".");
    }
    std::string nearest(const std::string& name) const {
        std::vector<std::string> names;
        for (const auto& [known, tensor] : model_) names.push_back(known);
        const std::string_view near = nearest_name(name, names);
        return near.empty() ? "" : fmt::format("; the nearest is '{}'", near);
    }
    Status check_body(const infer::StoredAdapter& from) {
        if (from.weights.empty()) return {};
        if (weights_.empty()) {
            HK_ASSIGN(const nlohmann::ordered_json base, infer::base_of(recipe_.model.from));
            weights_ = base.at("weights").get<std::string>();
        }
        if (weights_ == from.weights) return {};
        return failed_precondition(fmt::format("{}: was trained with another body (hash {}) than model.from = {} "
                                               "contains (hash {}): name the body that it was trained with",
                                               from.path.string(), from.weights, recipe_.model.from, weights_));
    }
    Result<const std::vector<plugin::Site>*> sites() {
        if (!sites_) {
            plugin::BuildRequest request;
            request.mode = HK_MODE_EVALUATE;
            HK_ASSIGN(request.fields, composition_.batch_fields(1, recipe_.train.context_length));
            HK_ASSIGN(plugin::Described described, composition_.describe(request));
            sites_ = std::move(described.sites);
        }
        return &*sites_;
    }

    const Recipe& recipe_;
    const plugin::Composition& composition_;
    program::ParameterStore& store_;
    std::map<std::string, plugin::ModelTensor> model_;
    std::string weights_; // hash of the body's
    std::optional<std::vector<plugin::Site>> sites_;
    std::set<std::string> body_; // its parameters
    std::set<std::string> loaded_;
};

} // namespace

Result<std::set<std::string>> load_adapters(const Recipe& recipe, const plugin::Composition& composition,
                                            const graph::Graph& described, program::ParameterStore& store,
                                            const std::function<void(const std::string&)>& message) {
    HK_ASSIGN(std::vector<RecipeAdapter> adapters, read_adapters(recipe));
    Loader loader(recipe, composition, described, store);
    for (RecipeAdapter& adapter : adapters) {
        if (!adapter.from) continue;
        Result<std::vector<std::string>> unused = loader.load(adapter);
        if (!unused.ok()) return unused.status().with_context(adapter.key + ".from");
        const std::string rest = unused->empty() ? "" : fmt::format("; not used: {}", fmt::join(unused.value(), ", "));
        message(fmt::format("{}: {} tensors of the adapter loaded{}", adapter.from->path.string(),
                            adapter.from->tensors().size() - unused->size(), rest));
    }
    return loader.take_loaded();
}

} // namespace hekla::train
