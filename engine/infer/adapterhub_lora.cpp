#include "infer/adapterhub_lora.hpp"

#include "plugin/plugin_set.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Keys whose effect is in the names of the tensors, or on training alone.
constexpr std::string_view kLoraLayout[] = {"architecture",  "selfattn_lora", "intermediate_lora", "output_lora",
                                            "attn_matrices", "leave_out",     "init_weights",      "dtype"};
constexpr std::string_view kLoras = ".loras.";

std::string as_text(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// Returns whether the library's version is one before 1.1.0, which trained as if alpha were r.
bool ignores_alpha(const json& config) {
    const json version = config.value("version", json());
    constexpr std::string_view library = "adapters.";
    if (!version.is_string() || !version.get<std::string>().starts_with(library)) return false;
    const std::string numbers = version.get<std::string>().substr(library.size());
    int major = 0, minor = 0;
    const char* const end = numbers.data() + numbers.size();
    const auto [dot, problem] = std::from_chars(numbers.data(), end, major);
    if (problem != std::errc() || dot == end || *dot != '.') return false;
    if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return false;
    return major < 1 || (major == 1 && minor < 1);
}

Result<json> own_lora_config(const json& config, const std::string& file) {
    const json& given = config.at("config");
    for (const auto& [key, value] : given.items()) {
        if (key == "r" || key == "alpha" || key == "dropout" || std::ranges::count(kLoraLayout, key) > 0) continue;
        if (key == "composition_mode" && value == "add") continue;
        const bool off = value.is_null() || value == false || (value.is_structured() && value.empty());
        if (!off)
            return unsupported(fmt::format("{}: '{}' is {}: this option of AdapterHub's LoRA is not supported", file,
                                           key, as_text(value)));
    }
    for (const char* key : {"r", "alpha"})
        if (const json value = given.value(key, json()); !value.is_number())
            return corrupt(fmt::format("{}: '{}' is {}; expected a number", file, key, as_text(value)));
    if (const json& r = given["r"]; !r.is_number_integer() || r.get<double>() < 1.0)
        return corrupt(fmt::format("{}: 'r' is {}; expected a whole number from 1", file, as_text(r)));
    return json{{"r", given["r"]},
                {"lora_alpha", ignores_alpha(config) ? given["r"] : given["alpha"]},
                {"lora_dropout", given.value("dropout", json(0.0))}};
}

} // namespace

Result<model::Weights> open_adapterhub_weights(const fs::path& folder) {
    std::error_code problem;
    const bool pickle = !fs::exists(folder / "adapter.safetensors", problem);
    return model::Weights::open(folder, pickle ? "pytorch_adapter" : "adapter");
}

Result<AdapterFolder> read_adapterhub_lora(const fs::path& folder, const json& config, const std::string& file) {
    HK_ASSIGN(json own, own_lora_config(config, file));
    HK_ASSIGN(model::Weights weights, open_adapterhub_weights(folder));
    AdapterFolder adapter{kAdapterHub, "lora", std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("model_name", json()); base.is_string()) adapter.base = base.get<std::string>();
    std::set<std::string> modules;
    for (model::TensorView tensor : adapter.weights.tensors()) {
        const std::string where = adapter.weights.path().string();
        const std::size_t at = tensor.name.find(kLoras);
        const std::size_t end = at != std::string::npos ? tensor.name.find('.', at + kLoras.size()) : at;
        const std::string matrix = end != std::string::npos ? tensor.name.substr(end + 1) : "";
        if (matrix != "lora_A" && matrix != "lora_B")
            return unsupported(fmt::format("{}: tensor {} is not one of LoRA: expected names such as "
                                           "MODULE.loras.NAME.lora_A",
                                           where, model::in_quotes(tensor.name)));
        const std::size_t small = matrix == "lora_A" ? 0 : 1;
        if (tensor.dims.size() != 2 || adapter.config["r"] != tensor.dims[small])
            return unsupported(fmt::format("{}: tensor {} is {}, but 'r' is {}; matrices of several layers in one, as "
                                           "GPT-2's c_attn has, are not supported",
                                           where, model::in_quotes(tensor.name), model::format_dims(tensor.dims),
                                           as_text(adapter.config["r"])));
        const std::string module = tensor.name.substr(0, at);
        modules.insert(module);
        tensor.name = fmt::format("{}{}.{}.weight", plugin::kAdapter, module, matrix);
        adapter.tensors.push_back(std::move(tensor));
    }
    adapter.config["target_modules"] = modules;
    return adapter;
}

} // namespace hekla::infer
