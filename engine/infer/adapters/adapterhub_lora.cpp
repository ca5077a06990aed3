#include "infer/adapters/adapterhub_lora.hpp"

#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapter_keys.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kHubLoraKeys[] = {"r", "alpha", "dropout", "attn_matrices"};
constexpr std::string_view kLoras = ".loras.";

// Returns whether the library's version is one before 1.1.0, which trained as if alpha were r.
bool ignores_alpha(const json& config) {
    const json version = config.value("version", json());
    constexpr std::string_view kLibrary = "adapters.";
    if (!version.is_string() || !version.get<std::string>().starts_with(kLibrary)) return false;
    const std::string numbers = version.get<std::string>().substr(kLibrary.size());
    int major = 0, minor = 0;
    const char* const end = numbers.data() + numbers.size();
    const auto [dot, problem] = std::from_chars(numbers.data(), end, major);
    if (problem != std::errc() || dot == end || *dot != '.') return false;
    if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return false;
    return major < 1 || (major == 1 && minor < 1);
}

Result<json> own_lora_config(const json& config, const std::string& file) {
    const json& given = config.at("config");
    for (const char* key : {"r", "alpha"})
        if (const json value = given.value(key, json()); !value.is_number())
            return corrupt(fmt::format("{}: '{}' is {}; expected a number", file, key, as_text(value)));
    if (const json& r = given["r"]; !r.is_number_integer() || r.get<double>() < 1.0 || r.get<double>() > 65536.0)
        return corrupt(fmt::format("{}: 'r' is {}; expected a whole number from 1 to 65536", file, as_text(r)));
    return json{{"r", given["r"]},
                {"lora_alpha", ignores_alpha(config) ? given["r"] : given["alpha"]},
                {"lora_dropout", given.value("dropout", json(0.0))}};
}

// GPT-2's layer of queries, keys and values. AdapterHub has one A and one B for each of those that it adapts, stacked:
// A [n * r, in], B [n * out / 3, r].
constexpr std::string_view kMergedLayer = "c_attn";
constexpr std::string_view kMatrices[] = {"q", "k", "v"};

bool is_merged_layer(std::string_view module) {
    return module == kMergedLayer || module.ends_with("." + std::string(kMergedLayer));
}

// Returns the thirds of the layer's outputs that are adapted: 0 for queries, 1 for keys, 2 for values.
Result<std::vector<int64_t>> adapted_thirds(const json& given, const std::string& file) {
    const json matrices = given.value("attn_matrices", json::array({"q", "v"}));
    std::vector<int64_t> thirds;
    for (int64_t third = 0; third < 3; ++third)
        if (matrices.is_array() && std::ranges::count(matrices, kMatrices[third]) > 0) thirds.push_back(third);
    const auto known = [](const json& one) { return std::ranges::count(kMatrices, one) > 0; };
    if (thirds.empty() || !std::ranges::all_of(matrices, known))
        return unsupported(fmt::format("{}: 'attn_matrices' is {}; expected a list of \"q\", \"k\" and \"v\"", file,
                                       as_text(matrices)));
    return thirds;
}

// Adds one B [out, n * r] that computes with the stacked A what the stacked B [n * out / 3, r] do each with its own:
// the rest is zeros.
Status add_spread(AdapterFolder& adapter, model::TensorView stacked, const std::vector<int64_t>& thirds) {
    const auto n = static_cast<int64_t>(thirds.size()), r = stacked.dims[1];
    if (stacked.dims[0] % n != 0)
        return unsupported(fmt::format("{}: tensor {} is {}; expected the rows of {} matrices, as attn_matrices has",
                                       adapter.weights.path().string(), model::in_quotes(stacked.name),
                                       model::format_dims(stacked.dims), n));
    const int64_t third = stacked.dims[0] / n;
    const std::size_t row = static_cast<std::size_t>(r) * model::size_of(stacked.dtype);
    std::vector<std::byte>& spread = adapter.parts.emplace_back(static_cast<std::size_t>(3 * third * n) * row);
    for (int64_t i = 0; i < stacked.dims[0]; ++i) {
        const int64_t to = thirds[static_cast<std::size_t>(i / third)] * third + i % third;
        const std::span<const std::byte> of = stacked.bytes.subspan(static_cast<std::size_t>(i) * row, row);
        std::ranges::copy(of, spread.begin() +
                                  static_cast<std::ptrdiff_t>(static_cast<std::size_t>(to * n + i / third) * row));
    }
    stacked.dims = {3 * third, n * r};
    stacked.bytes = spread;
    adapter.tensors.push_back(std::move(stacked));
    return {};
}

} // namespace

Result<model::Weights> open_adapterhub_weights(const fs::path& folder) {
    std::error_code problem;
    const bool pickle = !fs::exists(folder / "adapter.safetensors", problem);
    return model::Weights::open(folder, pickle ? "pytorch_adapter" : "adapter");
}

Result<AdapterFolder> read_adapterhub_lora(const fs::path& folder, const json& config, const std::string& file) {
    HK_TRY(check_unread_keys("LoRA", config.at("config"), kHubLoraKeys, file));
    HK_ASSIGN(json own, own_lora_config(config, file));
    HK_ASSIGN(model::Weights weights, open_adapterhub_weights(folder));
    AdapterFolder adapter{kAdapterHub, "lora", std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("model_name", json()); base.is_string()) adapter.base = base.get<std::string>();
    std::set<std::string> modules;
    HK_ASSIGN(const std::vector<int64_t> thirds, adapted_thirds(config.at("config"), file));
    bool some_merged = false;
    for (model::TensorView tensor : adapter.weights.tensors()) {
        const std::string where = adapter.weights.path().string();
        const std::size_t at = tensor.name.find(kLoras);
        const std::size_t end = at != std::string::npos ? tensor.name.find('.', at + kLoras.size()) : at;
        const std::string matrix = end != std::string::npos ? tensor.name.substr(end + 1) : "";
        if (matrix != "lora_A" && matrix != "lora_B")
            return unsupported(fmt::format("{}: tensor {} is not one of LoRA: expected names such as "
                                           "MODULE.loras.NAME.lora_A",
                                           where, model::in_quotes(tensor.name)));
        const bool merged = is_merged_layer(std::string_view(tensor.name).substr(0, at));
        const bool is_a = matrix == "lora_A";
        const int64_t rank = adapter.config["r"].get<int64_t>() * (merged && is_a ? std::ssize(thirds) : 1);
        if (tensor.dims.size() != 2 || tensor.dims[is_a ? 0 : 1] != rank)
            return unsupported(
                fmt::format("{}: tensor {} is {}; expected a matrix of rank {}, by 'r' and 'attn_matrices'", where,
                            model::in_quotes(tensor.name), model::format_dims(tensor.dims), rank));
        const std::string module = tensor.name.substr(0, at);
        modules.insert(module);
        tensor.name = fmt::format("{}{}.{}.weight", plugin::kAdapter, module, matrix);
        some_merged = some_merged || merged;
        if (merged && !is_a)
            HK_TRY(add_spread(adapter, std::move(tensor), thirds));
        else
            adapter.tensors.push_back(std::move(tensor));
    }
    adapter.config["target_modules"] = modules;
    if (some_merged) { // the same scale, alpha / r
        const auto n = std::ssize(thirds);
        adapter.config["rank_pattern"] = {{kMergedLayer, adapter.config["r"].get<int64_t>() * n}};
        adapter.config["alpha_pattern"] = {
            {kMergedLayer, adapter.config["lora_alpha"].get<double>() * static_cast<double>(n)}};
    }
    return adapter;
}

} // namespace hekla::infer
