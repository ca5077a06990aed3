#include "plugin/composition/named_model.hpp"

#include "hekla/plugin/architecture.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

std::string text_of(const json& config, const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string_view> class_names(const Provided& architecture) {
    std::vector<std::string_view> names;
    for (const ReferenceClass& c : architecture.classes) names.push_back(c.name);
    return names;
}

// Returns whether a class belongs to the architecture's family in the reference implementation by its name:
// "LlamaForQuestionAnswering" where "LlamaForCausalLM" and "LlamaModel" are known.
bool is_of_family(const Provided& architecture, std::string_view name) {
    return std::ranges::any_of(architecture.classes, [&](const ReferenceClass& c) {
        const std::size_t end = std::min(c.name.find("For"), c.name.rfind("Model"));
        return end != std::string_view::npos && end > 0 && name.starts_with(c.name.substr(0, end)) &&
               name.substr(end).starts_with("For");
    });
}

const ReferenceClass* class_named(const Provided& architecture, std::string_view name) {
    const auto found = std::ranges::find(architecture.classes, name, &ReferenceClass::name);
    return found != architecture.classes.end() ? &*found : nullptr;
}

} // namespace

Result<NamedModel> named_model(const Registry& registry, const json& config, const std::string& file,
                               std::string_view asked_class) {
    const std::string type = text_of(config, "model_type");
    const json classes = config.value("architectures", json());
    std::string named(asked_class);
    if (named.empty() && classes.is_array() && !classes.empty() && classes[0].is_string())
        named = classes[0].get<std::string>();
    const std::string shown = asked_class.empty() ? "architectures" : "the class";

    NamedModel model;
    const auto own = config.find("hekla");
    const std::string id = own != config.end() && own->is_object() ? text_of(*own, "architecture") : std::string();
    if (!id.empty()) {
        HK_ASSIGN(model.architecture, registry.find(HK_ARCHITECTURE_INTERFACE, id));
        const Texts types = model.architecture.provided->model_types;
        if (!type.empty() && !types.empty() && std::ranges::find(types, type) == types.end())
            return invalid_argument(fmt::format("{}: hekla.architecture is \"{}\", whose model_type is {}, but "
                                                "model_type is \"{}\": one of the two was changed; restore it",
                                                file, id, fmt::join(types, " or "), type));
    } else if (!type.empty()) {
        Result<Registry::Entry> entry = registry.find_model_type(type);
        if (!entry.ok()) return entry.status().with_context(file);
        model.architecture = entry.value();
    } else if (!named.empty()) {
        const auto found = registry.find_class(named);
        if (!found.ok()) return found.status().with_context(file);
        return NamedModel{found->first, found->second};
    } else {
        return invalid_argument(
            fmt::format("{}: neither model_type nor architectures names the kind of model: add \"model_type\"", file));
    }
    if (named.empty()) return model;
    const Provided& architecture = *model.architecture.provided;
    model.reference = class_named(architecture, named);
    if (model.reference != nullptr) return model;
    if (asked_class.empty() && (!id.empty() || architecture.classes.empty() || is_of_family(architecture, named)))
        return model;
    const auto other = registry.find_class(named);
    return invalid_argument(fmt::format(
        "{}: model_type is \"{}\", but {} is \"{}\", {}; model_type decides what is computed, and the class "
        "only its head: write one of {}{}",
        file, type, shown, named,
        other.ok() ? fmt::format("a class of model_type \"{}\"", other->first.provided->model_types.empty()
                                                                     ? other->first.provided->id
                                                                     : other->first.provided->model_types.front())
                   : "which is not a class of that model_type",
        fmt::join(class_names(architecture), ", "),
        asked_class.empty() ? ", or remove \"architectures\" to use the body alone" : ""));
}

} // namespace hekla::plugin
