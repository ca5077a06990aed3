// The plugin parts that a config.json of the reference implementation names.
#pragma once

#include "plugin/registry/registry.hpp"

#include <nlohmann/json.hpp>

namespace hekla::plugin {

struct NamedModel {
    Registry::Entry architecture;
    // The class of architectures[0]; null if there is none, or if it is one of this architecture whose head is not
    // known: then the model is the body.
    const ReferenceClass* reference = nullptr;
};

// Returns what a config.json is. Its model_type decides the architecture, as in transformers' AutoModel, and its
// architectures[0] only the head; without model_type the class decides both. A config that Hekla wrote has its
// architecture in "hekla".
// asked_class: used in place of architectures[0]; "" for none. file: of the config, for messages.
// Errors: a model_type that no plugin serves, a class of another model_type, a class that is unknown, neither.
Result<NamedModel> named_model(const Registry& registry, const nlohmann::json& config, const std::string& file,
                               std::string_view asked_class = {});

} // namespace hekla::plugin
