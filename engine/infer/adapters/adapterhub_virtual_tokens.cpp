#include "infer/adapters/adapterhub_virtual_tokens.hpp"

#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapter_keys.hpp"
#include "infer/adapters/adapterhub_lora.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <string_view>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kHubPrefixKeys[] = {"prefix_length", "leave_out", "flat"};
constexpr std::string_view kHubPromptKeys[] = {"prompt_length"};

Result<int64_t> length_of(const json& given, const char* key, const std::string& file) {
    const json length = given.value(key, json());
    if (!length.is_number_integer() || length.get<double>() < 1.0 || length.get<double>() > 65536.0)
        return corrupt(
            fmt::format("{}: '{}' is {}; expected a whole number from 1 to 65536", file, key, as_text(length)));
    return length.get<int64_t>();
}

Result<AdapterFolder> open_virtual_tokens(const fs::path& folder, const json& config, const char* id, json own) {
    HK_ASSIGN(model::Weights weights, open_adapterhub_weights(folder));
    AdapterFolder adapter{kAdapterHub, id, std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("model_name", json()); base.is_string()) adapter.base = base.get<std::string>();
    return adapter;
}

// Returns what follows `part` and the adapter's name in a tensor's name: "self_prefix.wte.weight" of
// "transformer.prefix_tuning.prefix_tunings.NAME.self_prefix.wte.weight".
Result<std::string> name_after(const AdapterFolder& adapter, const std::string& name, std::string_view part) {
    const std::size_t at = name.find(part);
    const std::size_t end = at != std::string::npos ? name.find('.', at + part.size()) : at;
    if (end != std::string::npos) return name.substr(end + 1);
    return unsupported(fmt::format("{}: tensor {} is not one of this adapter: expected names such as MODULE{}NAME.PART",
                                   adapter.weights.path().string(), model::in_quotes(name), part));
}

// The layers of a body that have a prefix, of which `count` are stored.
std::vector<int64_t> layers_with_prefix(int64_t count, const std::vector<int64_t>& left_out) {
    std::vector<int64_t> layers;
    for (int64_t layer = 0; std::ssize(layers) < count; ++layer)
        if (std::ranges::count(left_out, layer) == 0) layers.push_back(layer);
    return layers;
}

Result<std::vector<int64_t>> left_out_layers(const json& given, const std::string& file) {
    std::vector<int64_t> layers;
    const json list = given.value("leave_out", json::array());
    const auto is_layer = [](const json& one) {
        return one.is_number_integer() && one.get<double>() >= 0.0 && one.get<double>() < 65536.0;
    };
    if (!list.is_array() || !std::ranges::all_of(list, is_layer))
        return corrupt(fmt::format("{}: 'leave_out' is {}; expected a list of layers from 0", file, as_text(list)));
    for (const json& one : list) layers.push_back(one.get<int64_t>());
    return layers;
}

// What a prefix's tensors must have in common.
struct PrefixShape {
    int64_t tokens = 0, width = 0; // of a layer's keys
    std::vector<int64_t> left_out;
};

Status wrong_size(const AdapterFolder& adapter, const model::TensorView& tensor, const std::string& expected) {
    return corrupt(fmt::format("{}: tensor {} is {}; expected {}", adapter.weights.path().string(),
                               model::in_quotes(tensor.name), model::format_dims(tensor.dims), expected));
}

// Divides the keys and values [tokens * layers * 2 * width] of all layers into those of each.
Status divide_flat(AdapterFolder& adapter, const model::TensorView& all, const PrefixShape& shape) {
    const int64_t columns = 2 * shape.width, row = all.dims.size() == 1 ? all.dims[0] / shape.tokens : 0;
    if (row < columns || row % columns != 0 || row * shape.tokens != all.dims[0])
        return wrong_size(
            adapter, all,
            fmt::format("[{} tokens * layers * {}], by prefix_length and hidden_size", shape.tokens, columns));
    const std::vector<int64_t> layers = layers_with_prefix(row / columns, shape.left_out);
    for (std::size_t i = 0; i < layers.size(); ++i)
        add_columns(adapter, all, shape.tokens, static_cast<int64_t>(i) * columns, columns,
                    fmt::format("{}prompt_embeddings.{}", plugin::kAdapter, layers[i]));
    return {};
}

// Divides the rows [layers * 2 * width, ...] of the last layer into those of each layer of the body.
Status divide_rows(AdapterFolder& adapter, const model::TensorView& all, const PrefixShape& shape,
                   const std::string& name) {
    const int64_t rows = 2 * shape.width;
    if (all.dims.empty() || all.dims[0] < rows || all.dims[0] % rows != 0)
        return wrong_size(adapter, all, fmt::format("[layers * {}, ...], by hidden_size", rows));
    const std::vector<int64_t> layers = layers_with_prefix(all.dims[0] / rows, shape.left_out);
    const std::size_t bytes = all.bytes.size() / layers.size();
    for (std::size_t i = 0; i < layers.size(); ++i) {
        model::TensorView view = all;
        view.name = fmt::format("{}{}.{}", plugin::kAdapter, name, layers[i]);
        view.dims[0] = rows;
        view.bytes = all.bytes.subspan(i * bytes, bytes);
        adapter.tensors.push_back(std::move(view));
    }
    return {};
}

} // namespace

Result<AdapterFolder> read_adapterhub_prefix(const fs::path& folder, const json& config, const std::string& file) {
    const json& given = config.at("config");
    HK_TRY(check_unread_keys("prefix tuning", given, kHubPrefixKeys, file));
    PrefixShape shape;
    HK_ASSIGN(shape.tokens, length_of(given, "prefix_length", file));
    HK_ASSIGN(shape.left_out, left_out_layers(given, file));
    const json width = config.value("hidden_size", json());
    if (!width.is_number_integer() || width.get<double>() < 1.0 || width.get<double>() > 1048576.0)
        return corrupt(
            fmt::format("{}: 'hidden_size' is {}; expected the body's width, a whole number", file, as_text(width)));
    shape.width = width.get<int64_t>();
    const bool flat = given.value("flat", json(false)) == true;
    json own = {{"num_virtual_tokens", shape.tokens},
                {"prefix_projection", !flat},
                {"leave_out", shape.left_out},
                {"without_positions", true}};
    HK_ASSIGN(AdapterFolder adapter, open_virtual_tokens(folder, config, "prefix_tuning", std::move(own)));
    for (model::TensorView tensor : adapter.weights.tensors()) {
        HK_ASSIGN(const std::string place, name_after(adapter, tensor.name, ".prefix_tunings."));
        const std::size_t dot = place.find('.');
        const std::string_view at = std::string_view(place).substr(0, dot);
        if (at != "self_prefix" && at != "self")
            return unsupported(
                fmt::format("{}: tensor {} is of '{}': only prefixes of self-attention (self_prefix) are "
                            "supported, not those of encoder-decoders",
                            adapter.weights.path().string(), model::in_quotes(tensor.name), at));
        const std::string part = dot == std::string::npos ? "" : place.substr(dot + 1);
        if (flat && part == "control_trans") {
            HK_TRY(divide_flat(adapter, tensor, shape));
        } else if (!flat && part == "wte.weight") {
            tensor.name = std::string(plugin::kAdapter) + "embedding.weight";
            adapter.tensors.push_back(std::move(tensor));
        } else if (!flat && (part == "control_trans.0.weight" || part == "control_trans.0.bias")) {
            if (part.ends_with("weight") && !tensor.dims.empty())
                adapter.config["encoder_hidden_size"] = tensor.dims[0];
            tensor.name = plugin::kAdapter + ("transform" + part.substr(part.find('.')));
            adapter.tensors.push_back(std::move(tensor));
        } else if (!flat && (part == "control_trans.2.weight" || part == "control_trans.2.bias")) {
            HK_TRY(divide_rows(adapter, tensor, shape, "transform" + part.substr(part.find('.'))));
        } else {
            return unsupported(fmt::format("{}: tensor {} is not one of a prefix with flat = {}",
                                           adapter.weights.path().string(), model::in_quotes(tensor.name), flat));
        }
    }
    return adapter;
}

Result<AdapterFolder> read_adapterhub_prompt(const fs::path& folder, const json& config, const std::string& file) {
    const json& given = config.at("config");
    HK_TRY(check_unread_keys("prompt tuning", given, kHubPromptKeys, file));
    HK_ASSIGN(const int64_t tokens, length_of(given, "prompt_length", file));
    HK_ASSIGN(AdapterFolder adapter, open_virtual_tokens(folder, config, "prompt_tuning",
                                                         {{"num_virtual_tokens", tokens}, {"after_embeddings", true}}));
    for (model::TensorView tensor : adapter.weights.tensors()) {
        HK_ASSIGN(const std::string part, name_after(adapter, tensor.name, ".prompt_tunings."));
        if (part.starts_with("base_model_embeddings.")) continue; // the body's own
        if (part != "prompt_embedding.weight")
            return unsupported(fmt::format("{}: tensor {} is not one of a prompt: expected prompt_embedding.weight",
                                           adapter.weights.path().string(), model::in_quotes(tensor.name)));
        tensor.name = std::string(plugin::kAdapter) + "prompt_embeddings";
        adapter.tensors.push_back(std::move(tensor));
    }
    return adapter;
}

} // namespace hekla::infer
