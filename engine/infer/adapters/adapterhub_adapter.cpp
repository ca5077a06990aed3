#include "infer/adapters/adapterhub_adapter.hpp"

#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapter_keys.hpp"
#include "infer/adapters/adapterhub_lora.hpp"
#include "infer/adapters/adapterhub_virtual_tokens.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using plugin::Site;

// The keys of BnConfig, which the plugin 'bottleneck' has too.
constexpr std::string_view kKeys[] = {
    "mh_adapter",       "output_adapter",     "cross_adapter",     "reduction_factor",
    "non_linearity",    "original_ln_before", "original_ln_after", "ln_before",
    "ln_after",         "residual_before_ln", "is_parallel",       "adapter_residual_before_ln",
    "scaling",          "use_gating",         "leave_out",         "dropout",
    "stochastic_depth", "init_weights"};
// Those without a default, and those whose null means false.
constexpr std::string_view kRequired[] = {"mh_adapter", "output_adapter", "reduction_factor", "non_linearity"};
constexpr std::string_view kFlags[] = {
    "mh_adapter", "output_adapter",     "cross_adapter", "original_ln_before",         "original_ln_after", "ln_before",
    "ln_after",   "residual_before_ln", "is_parallel",   "adapter_residual_before_ln", "use_gating"};
// Those that act on training alone.
constexpr std::string_view kOfTraining[] = {"dropout", "stochastic_depth", "init_weights"};
constexpr std::string_view kAdapters = ".adapters.";

// Returns the site of a module that contains an adapter: the residual site inside it, or else in the block around it.
const Site* site_of_module(std::string_view module, const std::vector<Site>& sites) {
    const bool cross = module.find("cross") != std::string_view::npos;
    const bool attention = cross || module.find("attention") != std::string_view::npos;
    for (std::string_view around = module; !around.empty();) {
        std::vector<const Site*> inside;
        for (const Site& site : sites)
            if (site.kind == HK_SITE_RESIDUAL && site.name.starts_with(std::string(around) + "."))
                inside.push_back(&site);
        if (inside.size() > 1)
            std::erase_if(inside, [&](const Site* site) {
                return attention != ((site->flags & HK_SITE_OF_ATTENTION) != 0) ||
                       cross != ((site->flags & HK_SITE_OF_CROSS) != 0);
            });
        if (inside.size() == 1) return inside.front();
        if (!inside.empty()) return nullptr;
        const std::size_t dot = around.rfind('.');
        around = dot == std::string_view::npos ? std::string_view() : around.substr(0, dot);
    }
    return nullptr;
}

} // namespace

Result<AdapterFolder> read_adapterhub_adapter(const fs::path& folder, const json& config, const std::string& file) {
    const json& given = config.at("config");
    if (!given.is_object())
        return unsupported(
            fmt::format("{}: \"config\" is {}; expected an object of BnConfig's keys", file, as_text(given)));
    const json kind = given.value("architecture", json());
    if (kind == "lora") return read_adapterhub_lora(folder, config, file);
    if (kind == "prefix_tuning") return read_adapterhub_prefix(folder, config, file);
    if (kind == "prompt_tuning") return read_adapterhub_prompt(folder, config, file);
    if (!kind.is_null())
        return unsupported(
            fmt::format("{}: architecture is {}; of AdapterHub's adapters, bottleneck adapters (null), \"lora\", "
                        "\"prefix_tuning\" and \"prompt_tuning\" are supported",
                        file, as_text(kind)));
    HK_TRY(check_unread_keys("bottleneck adapters", given, kKeys, file));
    json own = {{"preset", "seq_bn"}, {"original_ln_before", false}};
    for (const std::string_view name : kKeys) {
        const std::string key(name);
        const auto found = given.find(key);
        const bool missing = found == given.end();
        if (missing && std::ranges::count(kRequired, name) == 0) continue;
        const bool is_null = !missing && found->is_null();
        if (is_null && std::ranges::count(kOfTraining, name) > 0) continue;
        if (missing || (is_null && std::ranges::count(kFlags, name) == 0))
            return corrupt(fmt::format("{}: '{}' is {}; expected the value that the adapter was trained with", file,
                                       key, missing ? "missing" : "null"));
        own[key] = is_null ? json(false) : *found;
    }
    HK_ASSIGN(model::Weights weights, open_adapterhub_weights(folder));
    AdapterFolder adapter{kAdapterHub, "bottleneck", std::move(own), "", std::move(weights), {}};
    if (const json base = config.value("model_name", json()); base.is_string()) adapter.base = base.get<std::string>();
    adapter.tensors = adapter.weights.tensors();
    return adapter;
}

Status name_adapterhub_tensors(AdapterFolder& adapter, const std::vector<Site>& sites) {
    if (adapter.id != "bottleneck") return {}; // of others, the names were converted when they were read
    for (model::TensorView& tensor : adapter.tensors) {
        const std::string where = adapter.weights.path().string();
        const std::size_t at = tensor.name.find(kAdapters);
        const std::size_t end = at != std::string::npos ? tensor.name.find('.', at + kAdapters.size()) : at;
        if (end == std::string::npos)
            return unsupported(fmt::format("{}: tensor {} is not one of a bottleneck adapter: expected names such as "
                                           "MODULE.adapters.NAME.adapter_down.0.weight",
                                           where, model::in_quotes(tensor.name)));
        const Site* site = site_of_module(std::string_view(tensor.name).substr(0, at), sites);
        if (site == nullptr)
            return corrupt(
                fmt::format("{}: tensor {} belongs to no block of the body", where, model::in_quotes(tensor.name)));
        tensor.name = fmt::format("{}{}{}", plugin::kAdapter, site->name, tensor.name.substr(end));
    }
    // With a norm of its own before, the norm is stored twice: as adapter_norm_before and as the first of adapter_down.
    if (adapter.config.value("ln_before", false))
        std::erase_if(adapter.tensors, [](const model::TensorView& tensor) {
            return tensor.name.find(".adapter_down.0.") != std::string::npos;
        });
    return {};
}

} // namespace hekla::infer
