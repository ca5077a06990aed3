#include "infer/adapters/peft_adapter.hpp"

#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapter_keys.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPeftPrefix = "base_model.model.";

struct AdapterKind {
    std::string_view peft_type, id;
    std::span<const std::string_view> keys; // that Hekla's plugin has too
};

constexpr std::string_view kLoraKeys[] = {"r",
                                          "lora_alpha",
                                          "lora_dropout",
                                          "use_rslora",
                                          "use_dora",
                                          "rank_pattern",
                                          "alpha_pattern",
                                          "bias",
                                          "target_modules",
                                          "exclude_modules",
                                          "layers_to_transform",
                                          "layers_pattern",
                                          plugin::kInvocationTokens,
                                          "modules_to_save"};
// `task` is Hekla's.
constexpr std::string_view kPolyKeys[] = {"r",    "poly_type",      "n_tasks",         "n_skills",       "n_splits",
                                          "task", "target_modules", "exclude_modules", "modules_to_save"};
constexpr std::string_view kIa3Keys[] = {"target_modules", "exclude_modules", "feedforward_modules", "modules_to_save"};
constexpr std::string_view kLnTuningKeys[] = {"target_modules", "exclude_modules", "modules_to_save"};
constexpr std::string_view kPromptKeys[] = {"num_virtual_tokens", "num_transformer_submodules", "modules_to_save"};
constexpr std::string_view kPrefixKeys[] = {"num_virtual_tokens", "modules_to_save"};
constexpr AdapterKind kAdapterKinds[] = {{"LORA", "lora", kLoraKeys},
                                         {"POLY", "poly", kPolyKeys},
                                         {"IA3", "ia3", kIa3Keys},
                                         {"LN_TUNING", "ln_tuning", kLnTuningKeys},
                                         {"PROMPT_TUNING", "prompt_tuning", kPromptKeys},
                                         {"PREFIX_TUNING", "prefix_tuning", kPrefixKeys}};

constexpr const char* kPrompt = "prompt_embeddings";
// What the names of an adapter's own tensors contain.
constexpr std::string_view kOwnTensors[] = {
    ".lora_A.", ".lora_B.",     ".lora_embedding_A", ".lora_embedding_B", ".lora_magnitude_vector",
    ".ia3_l",   ".poly_lora_A", ".poly_lora_B",      ".poly_router."};
// Where a module is that the adapter replaced, and whose own parameters are trained.
constexpr std::string_view kBaseLayer = ".base_layer.", kTunedNorm = ".ln_tuning_layers.";
// With bias = "all", a module that is saved whole is stored a second time under the first name, and as it was in the
// body under the second.
constexpr std::string_view kSavedAgain[] = {".modules_to_save.", ".original_module."};
// init_lora_weights that leave the body as it is.
constexpr std::string_view kPlainStarts[] = {"gaussian", "eva", "orthogonal"};

// Lists that PEFT writes as one element where there is one.
constexpr std::string_view kListKeys[] = {"layers_to_transform", "layers_pattern"};

bool is_in(std::span<const std::string_view> list, std::string_view one) { return std::ranges::count(list, one) > 0; }

// Returns how many parts of the body have a prompt: where it is not written, PEFT decides by the task.
json submodules(const json& config) {
    const json stated = config.value("num_transformer_submodules", json());
    return !stated.is_null() ? stated : json(config.value("task_type", json()) == "SEQ_2_SEQ_LM" ? 2 : 1);
}

Result<json> own_config(const AdapterKind& kind, const json& config, const std::string& file) {
    json own = json::object();
    for (const auto& [key, value] : config.items())
        if (is_in(kind.keys, key) && !value.is_null() && !(is_in(kListKeys, key) && value == ""))
            own[key] = is_in(kListKeys, key) && !value.is_array() ? json::array({value}) : value;
    if (kind.id == "prompt_tuning") own["num_transformer_submodules"] = submodules(config);
    if (const json start = config.value("init_lora_weights", json(true));
        !start.is_boolean() && !start.is_null() &&
        !(start.is_string() && is_in(kPlainStarts, start.get<std::string>())))
        return unsupported(fmt::format("{}: init_lora_weights is {}: it changes the body's weights, which is not "
                                       "supported; convert the adapter to a LoRA with PEFT first",
                                       file, as_text(start)));
    if (kind.id == "lora")
        for (const char* key : {"r", "lora_alpha"})
            if (!own.contains(key) || !own[key].is_number())
                return corrupt(fmt::format("{}: '{}' is missing or not a number", file, key));
    if (kind.id == "prompt_tuning" || kind.id == "prefix_tuning") {
        if (!own.contains("num_virtual_tokens"))
            return corrupt(fmt::format("{}: 'num_virtual_tokens' is missing", file));
        return own;
    }
    if (!own.contains("target_modules"))
        return unsupported(fmt::format("{}: it has no target_modules; write the names of the modules there", file));
    if (kind.id == "ia3" && !own.contains("feedforward_modules"))
        return unsupported(fmt::format("{}: it has no feedforward_modules, which PEFT then chooses by the body; write "
                                       "the names of the modules there, or []",
                                       file));
    return own;
}

// Returns whether another tensor of the file is what this one stores of a module that is saved whole.
bool is_stored_again(const std::string& name, const model::Weights& weights) {
    for (const std::string_view part : kSavedAgain)
        if (const std::size_t at = name.find(part); at != std::string::npos) {
            std::string plain = name;
            return weights.find(plain.replace(at, part.size(), ".")) != nullptr;
        }
    return false;
}

// Divides the keys and values of all layers [tokens, layers * width] into those of each.
Status divide_prefix(AdapterFolder& adapter, const model::TensorView& all, const json& config,
                     const std::string& file) {
    const json stated = config.value("num_layers", json());
    const int64_t layers = stated.is_number_integer() ? stated.get<int64_t>() : 0;
    if (layers < 1 || all.dims.size() != 2 || all.dims[1] % layers != 0)
        return corrupt(fmt::format("{}: num_layers is {}, and {} is {}; expected [tokens, layers * width]", file,
                                   as_text(stated), kPrompt, model::format_dims(all.dims)));
    const int64_t width = all.dims[1] / layers;
    const bool decoder = submodules(config) == 2;
    if (decoder) adapter.config["share_layers"] = layers;
    for (int64_t layer = 0; layer < layers; layer += decoder && layers % 2 == 0 ? 2 : 1) // the others are not used
        add_columns(adapter, all, all.dims[0], layer * width, width, fmt::format("{}.{}", all.name, layer));
    return {};
}

} // namespace

std::string peft_name(const std::string& name, const std::vector<plugin::Site>& sites) {
    const std::string_view adapter = plugin::kAdapter;
    if (name == std::string(adapter) + kPrompt) return kPrompt;
    if (name.starts_with(adapter)) return std::string(kPeftPrefix) + name.substr(adapter.size());
    for (const plugin::Site& site : sites) {
        const bool norm = (site.trained & HK_TRAINS_WEIGHT) != 0;
        if (!site.trains(name) || (!norm && !site.wanted)) continue;
        const std::size_t dot = name.rfind('.');
        return std::string(kPeftPrefix) + name.substr(0, dot) + std::string(norm ? kTunedNorm : kBaseLayer) +
               name.substr(dot + 1);
    }
    return std::string(kPeftPrefix) + name;
}

std::optional<std::string> name_from_peft(const std::string& name) {
    if (name == kPrompt) return plugin::kAdapter + name;
    if (!name.starts_with(kPeftPrefix)) return {};
    std::string rest = name.substr(kPeftPrefix.size());
    for (const std::string_view inside : {kBaseLayer, kTunedNorm})
        if (const std::size_t at = rest.find(inside); at != std::string::npos)
            return rest.replace(at, inside.size(), ".");
    const bool own =
        std::ranges::any_of(kOwnTensors, [&](std::string_view part) { return rest.find(part) != std::string::npos; });
    return own ? plugin::kAdapter + rest : rest;
}

Result<AdapterFolder> read_peft_adapter(const fs::path& folder, const json& config, const std::string& file) {
    const json type = config.value("peft_type", json());
    const auto kind =
        std::ranges::find_if(kAdapterKinds, [&](const AdapterKind& k) { return type == std::string(k.peft_type); });
    if (kind == std::end(kAdapterKinds))
        return unsupported(fmt::format("{}: peft_type is {}; supported are \"LORA\", \"POLY\", \"IA3\", "
                                       "\"LN_TUNING\", \"PROMPT_TUNING\" and \"PREFIX_TUNING\"",
                                       file, as_text(type)));
    HK_TRY(check_unread_keys("peft", config, kind->keys, file));
    HK_ASSIGN(json own, own_config(*kind, config, file));
    HK_ASSIGN(model::Weights weights, model::Weights::open(folder, "adapter_model"));
    AdapterFolder adapter{"PEFT", std::string(kind->id), std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("base_model_name_or_path", json()); base.is_string())
        adapter.base = base.get<std::string>();
    for (model::TensorView tensor : adapter.weights.tensors()) {
        if (is_stored_again(tensor.name, adapter.weights)) continue;
        const std::optional<std::string> name = name_from_peft(tensor.name);
        if (!name)
            return unsupported(fmt::format("{}: tensor {} is not one that is supported: expected names such as "
                                           "base_model.model.MODULE.lora_A.weight",
                                           adapter.weights.path().string(), model::in_quotes(tensor.name)));
        tensor.name = *name;
        if (adapter.id == "prefix_tuning" && tensor.name == std::string(plugin::kAdapter) + kPrompt)
            HK_TRY(divide_prefix(adapter, tensor, config, file));
        else
            adapter.tensors.push_back(std::move(tensor));
    }
    return adapter;
}

} // namespace hekla::infer
