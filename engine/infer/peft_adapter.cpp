#include "infer/peft_adapter.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "model/finite.hpp"
#include "plugin/plugin_set.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr const char* kAdapterConfig = "adapter_config.json";

struct AdapterKind {
    std::string_view peft_type, id;
    std::span<const std::string_view> keys; // that Hekla's plugin has too
};

constexpr std::string_view kLoraKeys[] = {"r",
                                          "lora_alpha",
                                          "lora_dropout",
                                          "use_rslora",
                                          "target_modules",
                                          "exclude_modules",
                                          "layers_to_transform",
                                          "layers_pattern",
                                          "modules_to_save"};
constexpr std::string_view kIa3Keys[] = {"target_modules", "exclude_modules", "feedforward_modules", "modules_to_save"};
constexpr AdapterKind kAdapterKinds[] = {{"LORA", "lora", kLoraKeys}, {"IA3", "ia3", kIa3Keys}};

// Keys that do not change what the adapter computes.
constexpr std::string_view kIgnoredKeys[] = {
    "peft_type",      "auto_mapping",      "base_model_name_or_path", "revision",          "task_type",
    "inference_mode", "peft_version",      "fan_in_fan_out",          "init_lora_weights", "init_ia3_weights",
    "megatron_core",  "qalora_group_size", "runtime_config"};
// What the names of an adapter's own tensors contain.
constexpr std::string_view kOwnTensors[] = {".lora_A.", ".lora_B.", ".lora_embedding_A", ".lora_embedding_B", ".ia3_l"};

// Returns whether a key has the value that means nothing.
bool is_off(const json& value) {
    return value.is_null() || value == false || value == "none" ||
           ((value.is_array() || value.is_object()) && value.empty());
}

// Lists that PEFT writes as one element where there is one.
constexpr std::string_view kListKeys[] = {"layers_to_transform", "layers_pattern"};

bool is_in(std::span<const std::string_view> list, std::string_view one) { return std::ranges::count(list, one) > 0; }

Result<json> own_config(const AdapterKind& kind, const json& config, const std::string& file) {
    json own = json::object();
    for (const auto& [key, value] : config.items()) {
        if (is_in(kind.keys, key)) {
            if (value.is_null()) continue;
            own[key] = is_in(kListKeys, key) && !value.is_array() ? json::array({value}) : value;
        } else if (!is_in(kIgnoredKeys, key) && !is_off(value)) {
            return unsupported(fmt::format("{}: '{}' is {}: this option of PEFT is not supported", file, key,
                                           value.dump(-1, ' ', false, json::error_handler_t::replace)));
        }
    }
    if (kind.id == "lora")
        for (const char* key : {"r", "lora_alpha"})
            if (!own.contains(key) || !own[key].is_number())
                return corrupt(fmt::format("{}: '{}' is missing or not a number", file, key));
    if (!own.contains("target_modules"))
        return unsupported(fmt::format("{}: it has no target_modules; write the names of the modules there", file));
    return own;
}

} // namespace

std::string peft_name(const std::string& name) {
    const std::string_view adapter = plugin::kAdapter;
    return std::string(kPeftPrefix) + (name.starts_with(adapter) ? name.substr(adapter.size()) : name);
}

std::optional<std::string> name_from_peft(const std::string& name) {
    if (!name.starts_with(kPeftPrefix)) return {};
    const std::string rest = name.substr(kPeftPrefix.size());
    if (rest.find(".base_layer.") != std::string::npos) return {};
    const bool own =
        std::ranges::any_of(kOwnTensors, [&](std::string_view part) { return rest.find(part) != std::string::npos; });
    return own ? plugin::kAdapter + rest : rest;
}

bool is_peft_folder(const fs::path& folder) {
    std::error_code problem;
    return fs::exists(folder / kAdapterConfig, problem);
}

Result<PeftAdapter> read_peft_folder(const fs::path& folder) {
    const std::string file = (folder / kAdapterConfig).string();
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const json config, parse_json_object(text, file));
    if (!config.contains("peft_type") && config.contains("config") && config.contains("model_type"))
        return unsupported(fmt::format("{}: is an adapter of AdapterHub's library; PEFT's were expected (with the key "
                                       "\"peft_type\")",
                                       file));
    const json type = config.value("peft_type", json());
    const auto kind =
        std::ranges::find_if(kAdapterKinds, [&](const AdapterKind& k) { return type == std::string(k.peft_type); });
    if (kind == std::end(kAdapterKinds))
        return unsupported(fmt::format("{}: peft_type is {}; supported are \"LORA\" and \"IA3\"", file,
                                       type.dump(-1, ' ', false, json::error_handler_t::replace)));
    HK_ASSIGN(json own, own_config(*kind, config, file));
    HK_ASSIGN(model::Weights weights, model::Weights::open(folder, "adapter_model"));
    PeftAdapter adapter{std::string(kind->id), std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("base_model_name_or_path", json()); base.is_string())
        adapter.base = base.get<std::string>();
    for (model::TensorView tensor : adapter.weights.tensors()) {
        HK_TRY(model::check_finite(tensor).with_context(adapter.weights.path().string()));
        const std::optional<std::string> name = name_from_peft(tensor.name);
        if (!name)
            return unsupported(fmt::format("{}: tensor {} is not one that is supported: expected names such as "
                                           "base_model.model.MODULE.lora_A.weight",
                                           adapter.weights.path().string(), model::in_quotes(tensor.name)));
        tensor.name = *name;
        adapter.tensors.push_back(std::move(tensor));
    }
    if (adapter.tensors.empty())
        return corrupt(fmt::format("{}: contains no tensors", adapter.weights.path().string()));
    return adapter;
}

} // namespace hekla::infer
