#include "adapted_model.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "model/folder.hpp"
#include "plugin/composition/model_names.hpp"

#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/path_text.hpp"
#include "infer/adapters/read_adapter.hpp"
#include "infer/adapters/separated_tie.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/model.hpp"
#include "infer/open/weights_folder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Reads the body, and the configuration of the model with the adapter.
Status open_folders(const plugin::Registry& registry, const fs::path& adapter, const fs::path& body, AdaptedModel& m) {
    if (m.foreign) {
        const fs::path named =
            path_of(m.foreign->base).is_absolute() ? path_of(m.foreign->base) : adapter / m.foreign->base;
        std::error_code problem;
        if (body.empty() && (m.foreign->base.empty() || !fs::is_directory(named, problem)))
            return not_found(fmt::format("{}: its body \"{}\" is not a folder here: name the body's folder with --body",
                                         adapter.string(), m.foreign->base));
        HK_ASSIGN(const fs::path from, infer::weights_folder(body.empty() ? named : body));
        HK_ASSIGN(m.body, model::ModelFolder::open(from));
        HK_ASSIGN(m.config, parse_json_object(m.body.config_json(), (from / "config.json").string()));
        HK_ASSIGN(m.spec, infer::stored_spec(registry, m.body));
        if (!m.spec.adapters.empty())
            return unsupported(
                fmt::format("{}: is an adapter itself; the folder of a whole model was expected", from.string()));
        m.spec.adapters = {{"", {m.foreign->id, m.foreign->config}}};
        HK_ASSIGN(const nlohmann::ordered_json base, infer::base_of(from));
        m.config["hekla"] = {{"architecture", m.spec.architecture},
                             {"head", m.spec.head},
                             {"head_config", m.spec.head_config},
                             {"objective", ""},
                             {"objective_config", json::object()},
                             {"context_length", 0},
                             {"adapter", m.foreign->id},
                             {"adapter_config", m.foreign->config},
                             {"base", base}};
        return {};
    }
    HK_ASSIGN(const fs::path from, infer::weights_folder(adapter));
    HK_ASSIGN(m.own, model::ModelFolder::open(from));
    HK_ASSIGN(m.config, parse_json_object(m.own->config_json(), (from / "config.json").string()));
    if (const json own = m.config.value("hekla", json()); !own.is_object() || !own.contains("base"))
        return invalid_argument(
            fmt::format("{}: is not an adapter: expected the folder of a run with [adapter], or one "
                        "with the adapter_config.json of PEFT or AdapterHub",
                        adapter.string()));
    if (!body.empty()) {
        HK_ASSIGN(const fs::path named, infer::weights_folder(body));
        m.config["hekla"]["base"]["folder"] = fs::absolute(named).string();
    }
    HK_ASSIGN(std::optional<model::ModelFolder> base, infer::open_base(m.config, m.own->path()));
    m.body = std::move(*base);
    HK_ASSIGN(m.spec, infer::stored_spec(registry, *m.own));
    m.adapter_tensors = m.own->weights().tensors();
    return {};
}

// Errors: a tensor of the adapter that the model does not have, with the nearest name; one of another shape.
Status find_tensors(AdaptedModel& m, const fs::path& adapter) {
    const graph::Graph& graph = m.described.graph;
    std::vector<std::string> names;
    for (const auto& [name, value] : graph.parameters()) names.push_back(name);
    std::map<std::string, const model::TensorView*> own;
    for (const model::TensorView& tensor : m.adapter_tensors) {
        const graph::ValueId value = graph.find_leaf(graph::Op::parameter, tensor.name);
        if (value == graph::kNone && graph.find_leaf(graph::Op::buffer, tensor.name) == graph::kNone) {
            const std::string_view near = nearest_name(tensor.name, names);
            return corrupt(fmt::format("{}: tensor {} belongs to no module that the adapter acts at{}",
                                       adapter.string(), model::in_quotes(tensor.name),
                                       near.empty() ? "" : fmt::format("; the nearest is '{}'", near)));
        }
        if (value != graph::kNone && graph.shape(value).vector() != tensor.dims)
            return corrupt(fmt::format("{}: {} is {}, expected {}: the adapter is of another size or body",
                                       adapter.string(), tensor.name, model::format_dims(tensor.dims),
                                       graph.shape(value).text()));
        own.emplace(tensor.name, &tensor);
    }
    for (const std::string& name : names)
        if (name.starts_with(plugin::kAdapter) && !own.contains(name))
            return corrupt(
                fmt::format("{}: has no tensor {}, which the adapter's configuration means", adapter.string(), name));
    for (const plugin::Site& site : m.described.sites)
        for (const std::string& name : site.trained_parameters())
            if (!own.contains(name))
                return corrupt(fmt::format("{}: has no tensor {}, which the adapter trains by its configuration",
                                           adapter.string(), name));
    model::NameRules rules = plugin::model_rules(m.composition->architecture().names);
    rules.ignorable.emplace_back("*"); // heads that are not used here
    HK_ASSIGN(const plugin::FoundTensors found,
              plugin::find_some_tensors(graph, m.body.weights().tensors(), m.body.weights().path().string(), rules,
                                        [&](const std::string& name) { return !own.contains(name); }));
    m.tensors = found.tensors;
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(graph))
        if (const auto found_own = own.find(tensor.name); found_own != own.end())
            m.tensors.push_back({tensor, found_own->second});
    return {};
}

} // namespace

std::string AdaptedModel::adapter_text() const {
    return spec.combination.empty() ? spec.adapters.at(0).part.id : spec.combination;
}

json AdaptedModel::adapter_config() const {
    if (spec.combination.empty()) return spec.adapters.at(0).part.config;
    json all = json::object();
    for (const plugin::AdapterSpec& one : spec.adapters)
        all[one.name] = {{"id", one.part.id}, {"config", one.part.config}};
    return all;
}

Result<AdaptedModel> open_adapted_model(const plugin::Registry& registry, const fs::path& adapter, const fs::path& body,
                                        bool merged, const Log& log) {
    AdaptedModel m;
    if (infer::is_adapter_folder(adapter)) { HK_ASSIGN(m.foreign, infer::read_adapter_folder(adapter)); }
    HK_TRY(open_folders(registry, adapter, body, m));
    HK_ASSIGN(m.composition, plugin::Composition::create(registry, m.spec, nullptr, log));
    plugin::BuildRequest request;
    request.merged = merged;
    HK_ASSIGN(m.described, infer::describe_smallest(*m.composition, m.config, request));
    if (m.foreign) {
        HK_TRY(infer::name_by_sites(*m.foreign, m.described.sites));
        HK_ASSIGN(
            const std::optional<infer::SeparatedTie> separated,
            infer::separated_tie(*m.foreign, m.composition->architecture().names, m.described.graph, adapter.string()));
        if (separated)
            return infer::cannot_separate(*separated, adapter.string(),
                                          "generate, eval, predict and export compute that, and this command does not");
        m.adapter_tensors = m.foreign->tensors;
    }
    HK_TRY(find_tensors(m, adapter));
    return m;
}

} // namespace hekla::app
