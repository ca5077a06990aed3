#include "train/start/initial_weights.hpp"

#include "base/json.hpp"
#include "base/name_pattern.hpp"
#include "infer/adapters/combined_parameters.hpp"
#include "infer/open/model_tensors.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/finite.hpp"
#include "model/folder.hpp"
#include "model/stacked_tensors.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/named_model.hpp"
#include "program/parameter_store.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/start/adapter_weights.hpp"
#include "train/start/initialize.hpp"
#include "train/update/parameter_rules.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::train {
namespace {

using nlohmann::json;

// Returns the head of the model in a folder; empty if it is not recorded.
std::string stored_head(const plugin::Registry& registry, const json& config) {
    if (const auto own = config.find("hekla"); own != config.end() && own->is_object()) return own->value("head", "");
    const Result<plugin::NamedModel> named = plugin::named_model(registry, config, "config.json");
    return named.ok() && named->reference != nullptr ? std::string(named->reference->head) : std::string();
}

// Returns whether the model in a folder has the head that the recipe describes, by the keys that the recipe sets.
bool same_head_config(const json& config, const Recipe& recipe) {
    const auto own = config.find("hekla");
    json before = own != config.end() && own->is_object() ? own->value("head_config", json::object()) : json::object();
    json now = recipe.head.config;
    for (json* one : {&before, &now}) one->erase("num_labels"); // depends on the data; shapes show the difference
    return before == now;
}

// Returns whether both configurations have class names and they differ.
bool other_classes(const json& a, const json& b) {
    const auto names = [](const json& config) { return config.value("id2label", json()); };
    return names(a).is_object() && names(b).is_object() && names(a) != names(b);
}

std::string shortened(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 6;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
    if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
    return text;
}

// Returns the tensors of a folder, or those of the layers that the recipe selects, renumbered, with names translated if
// they are those of an ancestor.
Result<std::vector<model::TensorView>> chosen_tensors(const Recipe& recipe, const plugin::Ancestor* ancestor,
                                                      std::vector<model::TensorView> stored) {
    if (ancestor != nullptr) {
        std::erase_if(stored, [&](const model::TensorView& tensor) {
            return std::ranges::any_of(ancestor->ignore,
                                       [&](std::string_view pattern) { return hekla::matches(pattern, tensor.name); });
        });
        for (model::TensorView& tensor : stored)
            for (const auto& [theirs, ours] : ancestor->names)
                if (const std::size_t at = tensor.name.find(theirs); at != std::string::npos)
                    tensor.name.replace(at, theirs.size(), ours);
    }
    if (recipe.model.layers.empty()) return stored;
    std::vector<model::TensorView> chosen;
    std::set<int64_t> there;
    for (const model::TensorView& tensor : stored) {
        const std::optional<LayerNumber> layer = layer_number(tensor.name);
        if (!layer) {
            chosen.push_back(tensor);
            continue;
        }
        there.insert(layer->number);
        for (std::size_t i = 0; i < recipe.model.layers.size(); ++i) {
            if (recipe.model.layers[i] != layer->number) continue;
            model::TensorView& renamed = chosen.emplace_back(tensor);
            renamed.name.replace(layer->at, layer->size, fmt::format("{}", i));
        }
    }
    for (const int64_t layer : recipe.model.layers)
        if (!there.contains(layer))
            return unsupported(fmt::format("model.layers: {} stores no layer {} of its own (layers that share their "
                                           "parameters cannot be chosen)",
                                           recipe.model.from, layer));
    return chosen;
}

// Refuses weights that are not finite. Buffers may hold infinities by design (masks).
Status check_loaded(const plugin::StoredTensor& tensor, const model::ModelFolder& folder) {
    if (tensor.tensor.buffer) return {};
    return model::check_finite(*tensor.stored).with_context(folder.weights().path().string());
}

// Returns the stored values at the start of the axis, followed by initial values.
Result<std::vector<float>> grown_values(const graph::Node& parameter, const plugin::StoredTensor& tensor,
                                        std::size_t axis, uint64_t seed) {
    const std::vector<int64_t>& before = tensor.stored->dims;
    std::size_t outer = 1, inner = 1, elements = 1;
    for (std::size_t i = 0; i < before.size(); ++i) {
        elements *= static_cast<std::size_t>(before[i]);
        if (i != axis) (i < axis ? outer : inner) *= static_cast<std::size_t>(before[i]);
    }
    std::vector<float> stored(elements), values = initial_values(parameter, seed);
    HK_TRY(model::load_float32(*tensor.stored, stored));
    const std::size_t from = static_cast<std::size_t>(before[axis]) * inner,
                      to = static_cast<std::size_t>(tensor.tensor.shape[static_cast<int>(axis)]) * inner;
    for (std::size_t i = 0; i < outer; ++i)
        std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(i * from), from,
                    values.begin() + static_cast<std::ptrdiff_t>(i * to));
    return values;
}

using Parameters = std::map<std::string, const graph::Node*>;

// Returns the parameters of a graph, without those of other networks.
Parameters parameters_of(const graph::Graph& described) {
    Parameters parameters;
    for (const graph::Node& node : described.nodes)
        if (node.op == graph::Op::parameter && !plugin::is_of_other_network(node.text("name")))
            parameters.emplace(node.text("name"), &node);
    return parameters;
}

// What a run takes from the folder of model.from.
struct Initial {
    model::ModelFolder folder;
    std::vector<model::TensorView> stored{}; // in the folder, or stacked of those
    plugin::FoundTensors found{};            // refers to the two above
    model::NameRules rules{};
    const plugin::Ancestor* ancestor = nullptr;
    std::string old_head{};
    bool keeps_head = false;
    int64_t old_vocabulary = 0, vocabulary = 0; // if it has grown
};

Result<Initial> find_initial(const Recipe& recipe, const plugin::Registry& registry,
                             const plugin::Composition& composition, const graph::Graph& described,
                             const Parameters& parameters) {
    HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.model.from));
    HK_ASSIGN(model::ModelFolder opened, model::ModelFolder::open(from));
    Initial initial{std::move(opened)};
    const model::ModelFolder& folder = initial.folder;
    HK_ASSIGN(const json config, parse_json_object(folder.config_json(), (from / "config.json").string()));
    HK_ASSIGN(const std::string written, composition.write_config());
    HK_ASSIGN(const json ours, parse_json_object(written, "the new model's config.json"));

    // The parameters of the body. The rest of the graph is the head, except names with the model's own prefix (BERT's
    // pooler belongs to the model).
    const plugin::NameRules& names = composition.architecture().names;
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, recipe.train.context_length));
    HK_ASSIGN(const std::set<std::string> body, composition.body_parameters(fields));
    initial.old_head = stored_head(registry, config);
    initial.ancestor = composition.architecture().ancestor(folder.model_type());
    HK_ASSIGN(std::vector<model::TensorView> whole,
              model::with_stacks(folder.weights().tensors(), plugin::model_rules(names).stacks,
                                 folder.weights().path().string()));
    HK_ASSIGN(initial.stored, chosen_tensors(recipe, initial.ancestor, std::move(whole)));
    const std::vector<model::TensorView>& stored_tensors = initial.stored;
    const auto find = [&](const std::string& name) -> const model::TensorView* {
        const auto found = std::ranges::find(stored_tensors, name, &model::TensorView::name);
        return found != stored_tensors.end() ? &*found : nullptr;
    };
    for (const char* key : {"vocab_size", "source_vocab_size"}) {
        const json before = config.value(key, json()), now = ours.value(key, json());
        if (before.is_number_integer() && now.is_number_integer() && before < now) {
            initial.old_vocabulary = before.get<int64_t>();
            initial.vocabulary = now.get<int64_t>();
        }
    }
    const auto same_shapes = [&] {
        return std::ranges::all_of(parameters, [&](const auto& parameter) {
            const model::TensorView* stored = find(parameter.first);
            const std::vector<int64_t> wanted = parameter.second->ints("shape");
            return stored == nullptr || body.contains(parameter.first) || stored->dims == wanted ||
                   model::grown_axis(stored->dims, wanted, {initial.old_vocabulary, initial.vocabulary}) >= 0;
        });
    };
    const bool keeps_head = initial.keeps_head = initial.old_head == recipe.head.id &&
                                                 same_head_config(config, recipe) && !other_classes(config, ours) &&
                                                 same_shapes();
    model::NameRules& rules = initial.rules;
    rules = plugin::model_rules(names);
    rules.grown = {initial.old_vocabulary, initial.vocabulary};
    for (const auto& [name, node] : parameters)
        if (!body.contains(name)) rules.may_be_missing.push_back(name);
    // A tensor of the old head must not be used for the new head, even if the names are equal.
    const auto is_fresh = [&](const std::string& name) {
        return !keeps_head && !body.contains(name) && (names.prefix.empty() || !name.starts_with(names.prefix));
    };
    // An alias of a tensor that is also in the file belongs to the old head: a decoder, tied or not.
    const auto has = [&](const std::string& name) {
        return find(name) != nullptr ||
               (name.starts_with(names.prefix) && find(name.substr(names.prefix.size())) != nullptr);
    };
    if (!keeps_head) std::erase_if(rules.ties, [&](const auto& tie) { return has(tie.parameter); });
    if (!keeps_head)
        for (const model::TensorView& tensor : stored_tensors) {
            const std::string& name = tensor.name;
            const bool of_body = body.contains(name) ||
                                 (!names.prefix.empty() &&
                                  (name.starts_with(names.prefix) || body.contains(std::string(names.prefix) + name)));
            const bool tied = std::ranges::any_of(rules.ties, [&](const auto& tie) { return tie.alias == name; });
            if (!of_body && !tied) rules.ignorable.push_back(name);
        }
    HK_ASSIGN(initial.found, plugin::find_some_tensors(described, stored_tensors, folder.weights().path().string(),
                                                       rules, [&](const std::string& name) {
                                                           return !is_fresh(name) && !plugin::is_of_other_network(name);
                                                       }));
    return initial;
}

// Uploads the initial values of parameters that depend on the body, or on trained adapters, and erases them from
// `random`. Those of the adapters' own folders are not there any more.
Status start_from_others(const Recipe& recipe, const plugin::Composition& composition, const Initial& initial,
                         const LoadedAdapters& loaded, Parameters& random, program::ParameterStore& store) {
    if (!has_adapters(recipe)) return {};
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    HK_ASSIGN(request.fields, composition.batch_fields(1, recipe.train.context_length));
    request.initial = true;
    HK_ASSIGN(const plugin::Described described, composition.describe(request));
    std::map<std::string, const model::TensorView*> stored;
    for (const auto* tensors : {&initial.found.tensors, &loaded.tensors})
        for (const plugin::StoredTensor& tensor : *tensors) stored.emplace(tensor.tensor.name, tensor.stored);
    return infer::compute_initial(
        described.graph, stored, [&](const std::string& name) { return random.contains(name); },
        "its initial value needs trained adapters: set adapters.NAME.from",
        [&](const std::string& name, const std::vector<float>& values) -> Status {
            HK_TRY(store.upload(name, values));
            random.erase(name);
            return {};
        });
}

} // namespace

Result<std::set<std::string>> loaded_parameters(const Recipe& recipe, const plugin::Registry& registry,
                                                const plugin::Composition& composition, const graph::Graph& described) {
    HK_ASSIGN(const Initial initial, find_initial(recipe, registry, composition, described, parameters_of(described)));
    std::set<std::string> names;
    for (const plugin::StoredTensor& tensor : initial.found.tensors) names.insert(tensor.tensor.name);
    return names;
}

Result<std::vector<std::string>> start_parameters(const Recipe& recipe, const plugin::Registry& registry,
                                                  const plugin::Composition& composition, const graph::Graph& described,
                                                  program::ParameterStore& store,
                                                  const std::function<void(const std::string&)>& message) {
    Parameters random = parameters_of(described);
    const auto seed = static_cast<uint64_t>(recipe.train.seed);
    if (recipe.model.from.empty()) {
        std::vector<std::string> all;
        for (const auto& [name, node] : random) {
            HK_TRY(store.upload(name, initial_values(*node, seed)));
            all.push_back(name);
        }
        return all;
    }
    HK_ASSIGN(const Initial initial, find_initial(recipe, registry, composition, described, random));
    const auto& [folder, stored, found, rules, ancestor, old_head, keeps_head, old_vocabulary, vocabulary] = initial;
    for (const plugin::StoredTensor& tensor : found.tensors) {
        HK_TRY(check_loaded(tensor, folder));
        const int axis = model::grown_axis(tensor.stored->dims, tensor.tensor.shape.vector(), rules.grown);
        if (axis >= 0 && !tensor.tensor.buffer) {
            HK_ASSIGN(const std::vector<float> values,
                      grown_values(*random.at(tensor.tensor.name), tensor, static_cast<std::size_t>(axis), seed));
            HK_TRY(store.upload(tensor.tensor.name, values));
        } else {
            HK_TRY(infer::upload(store, tensor));
        }
        random.erase(tensor.tensor.name);
    }
    HK_ASSIGN(const LoadedAdapters loaded, load_adapters(recipe, composition, described, store, message));
    for (const plugin::StoredTensor& tensor : loaded.tensors) random.erase(tensor.tensor.name);
    HK_TRY(start_from_others(recipe, composition, initial, loaded, random, store));
    std::vector<std::string> random_names;
    for (const auto& [name, node] : random) {
        random_names.push_back(name);
        HK_TRY(store.upload(name, initial_values(*node, seed)));
    }
    const std::string where = folder.path().string();
    std::vector<std::string> of_head = random_names;
    std::erase_if(of_head, [](const std::string& name) { return name.starts_with(plugin::kAdapter); });
    if (ancestor != nullptr)
        message(fmt::format("{}: a {} begins with the weights of a {}", where, composition.architecture().id,
                            folder.model_type()));
    if (vocabulary > 0)
        message(fmt::format("{}: the vocabulary grows from {} to {} tokens; what belongs to the new ones starts random",
                            where, old_vocabulary, vocabulary));
    if (of_head.empty() && found.ignored.empty()) {
        message(fmt::format("{}: {} tensors loaded", where, found.tensors.size()));
        return random_names;
    }
    std::string text = fmt::format("{}: {} tensors loaded", where, found.tensors.size());
    if (!found.ignored.empty())
        text +=
            fmt::format("; left out{}: {}", old_head.empty() || keeps_head ? "" : fmt::format(" (head '{}')", old_head),
                        shortened(found.ignored));
    if (!of_head.empty()) text += fmt::format("; head '{}' starts random: {}", recipe.head.id, shortened(of_head));
    message(text);
    return random_names;
}

Status draw_again(const Recipe& recipe, const graph::Graph& described, const std::set<std::string, std::less<>>& frozen,
                  program::ParameterStore& store) {
    const uint64_t seed = hash64("reinitialize", static_cast<uint64_t>(recipe.train.seed));
    for (const auto& [name, node] : parameters_of(described))
        if (!frozen.contains(name)) HK_TRY(store.upload(name, initial_values(*node, seed)));
    return {};
}

Result<Hash128> load_teacher(const Recipe& recipe, const plugin::Composition& composition,
                             const graph::Graph& described, program::ParameterStore& store) {
    if (composition.teacher() == nullptr) return Hash128{};
    HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.teacher.from));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
    // The teacher's part of the graph, with the names that its own files use.
    const std::string_view prefix = plugin::kTeacher;
    graph::Graph own = described;
    for (graph::Node& node : own.nodes)
        if (node.op == graph::Op::parameter || node.op == graph::Op::buffer) {
            const std::string name = node.text("name");
            node.set("name", name.starts_with(prefix) ? name.substr(prefix.size()) : "(the student's)" + name);
        }
    HK_ASSIGN(const plugin::FoundTensors found,
              plugin::find_some_tensors(own, folder.weights().tensors(), folder.weights().path().string(),
                                        plugin::model_rules(composition.teacher()->architecture().names),
                                        [](const std::string& name) { return !name.starts_with("(the student's)"); }));
    std::string state;
    for (plugin::StoredTensor tensor : found.tensors) {
        HK_TRY(check_loaded(tensor, folder));
        state += tensor.tensor.name + to_hex(hash128(tensor.stored->pieces()));
        tensor.tensor.name = std::string(prefix) + tensor.tensor.name;
        HK_TRY(infer::upload(store, tensor));
    }
    return hash128(state);
}

} // namespace hekla::train
