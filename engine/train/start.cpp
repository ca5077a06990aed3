#include "train/start.hpp"

#include "infer/model.hpp"
#include "infer/model_tensors.hpp"
#include "model/folder.hpp"
#include "plugin/model_names.hpp"
#include "train/initialize.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::train {
namespace {

using nlohmann::json;

// The head of the model in a folder; empty where nothing says so.
std::string stored_head(const plugin::Registry& registry, const json& config) {
    if (const auto own = config.find("hekla"); own != config.end() && own->is_object()) return own->value("head", "");
    const json classes = config.value("architectures", json::array());
    if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return {};
    const auto found = registry.find_class(classes[0].get<std::string>());
    return found.ok() ? found->second->head : std::string();
}

// Whether both configurations name their classes, and name others.
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

} // namespace

Status start_parameters(const Recipe& recipe, const plugin::Registry& registry, const plugin::Composition& composition,
                        const graph::Graph& described, program::ParameterStore& store,
                        const std::function<void(const std::string&)>& message) {
    std::map<std::string, const graph::Node*> random;
    for (const graph::Node& node : described.nodes)
        if (node.op == graph::Op::parameter) random.emplace(node.text("name"), &node);
    const auto seed = static_cast<uint64_t>(recipe.train.seed);
    if (recipe.model.from.empty()) {
        for (const auto& [name, node] : random) HK_TRY(store.upload(name, initial_values(*node, seed)));
        return {};
    }
    HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.model.from));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
    const json config = json::parse(folder.config_json(), nullptr, false);
    HK_ASSIGN(const std::string written, composition.write_config());
    const json ours = json::parse(written, nullptr, false);

    // What the body alone is made of; the rest of the graph is head, but for what carries the model's own prefix
    // (BERT's pooler belongs to the model).
    const plugin::NameRules& names = composition.architecture().names;
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, recipe.train.context_length));
    HK_ASSIGN(const std::set<std::string> body, composition.body_parameters(fields));
    const std::string old_head = stored_head(registry, config);
    const auto same_shapes = [&] {
        return std::ranges::all_of(random, [&](const auto& parameter) {
            const model::TensorView* stored = folder.weights().find(parameter.first);
            return stored == nullptr || body.contains(parameter.first) ||
                   stored->dims == parameter.second->ints("shape");
        });
    };
    const bool keeps_head = old_head == recipe.head.id && !other_classes(config, ours) && same_shapes();
    plugin::NameRules rules = names;
    std::vector<std::string> may_be_missing;
    for (const auto& [name, node] : random)
        if (!body.contains(name)) may_be_missing.push_back(name);
    // A tensor of an old head must not pass for one of the new head, whatever its name.
    const auto is_fresh = [&](const std::string& name) {
        return !keeps_head && !body.contains(name) && (names.prefix.empty() || !name.starts_with(names.prefix));
    };
    // An alias of a tensor that the file has too is the old head's: a decoder, tied or not.
    const auto has = [&](const std::string& name) {
        return folder.weights().find(name) != nullptr ||
               (name.starts_with(names.prefix) && folder.weights().find(name.substr(names.prefix.size())) != nullptr);
    };
    if (!keeps_head) std::erase_if(rules.ties, [&](const auto& tie) { return has(tie.second); });
    if (!keeps_head)
        for (const model::TensorView& tensor : folder.weights().tensors()) {
            const std::string& name = tensor.name;
            const bool of_body =
                body.contains(name) ||
                (!names.prefix.empty() && (name.starts_with(names.prefix) || body.contains(names.prefix + name)));
            const bool tied = std::ranges::any_of(rules.ties, [&](const auto& tie) { return tie.first == name; });
            if (!of_body && !tied) rules.ignore.push_back(name);
        }
    HK_ASSIGN(const plugin::FoundTensors found,
              plugin::find_some_tensors(described, folder.weights(), rules, may_be_missing,
                                        [&](const std::string& name) { return !is_fresh(name); }));
    for (const plugin::StoredTensor& tensor : found.tensors) {
        random.erase(tensor.tensor.name);
        HK_TRY(infer::upload(store, tensor));
    }
    std::vector<std::string> fresh;
    for (const auto& [name, node] : random) {
        fresh.push_back(name);
        HK_TRY(store.upload(name, initial_values(*node, seed)));
    }
    const std::string where = folder.path().string();
    if (fresh.empty() && found.ignored.empty()) {
        message(fmt::format("{}: {} tensors loaded", where, found.tensors.size()));
        return {};
    }
    std::string text = fmt::format("{}: {} tensors loaded", where, found.tensors.size());
    if (!found.ignored.empty())
        text +=
            fmt::format("; left out{}: {}", old_head.empty() || keeps_head ? "" : fmt::format(" (head '{}')", old_head),
                        shortened(found.ignored));
    if (!fresh.empty()) text += fmt::format("; head '{}' starts random: {}", recipe.head.id, shortened(fresh));
    message(text);
    return {};
}

} // namespace hekla::train
