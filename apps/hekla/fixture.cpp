#include "fixture.hpp"
#include "infer/adapters/adapter_folder.hpp"
#include "program/program.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "graph/gradient.hpp"
#include "graph/passes/simplify.hpp"
#include "infer/adapters/peft_adapter.hpp"
#include "infer/adapters/read_adapter.hpp"
#include "infer/open/model.hpp"
#include "infer/open/tensors.hpp"
#include "model/stacked_tensors.hpp"
#include "model/text_part.hpp"
#include "model/weights.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/named_model.hpp"
#include "train/update/optimizer.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

using nlohmann::json;

Result<Tensors> read_tensors(const std::filesystem::path& file) {
    HK_ASSIGN(const model::SafetensorsFile opened, model::SafetensorsFile::open(file));
    Tensors tensors;
    for (const model::TensorView& view : opened.tensors()) {
        Result<graph::Tensor> tensor = infer::tensor_of(view);
        if (!tensor.ok()) return tensor.status().with_context(file.string());
        tensors.emplace(view.name, tensor.take());
    }
    return tensors;
}

Result<json> read_json(const std::filesystem::path& file) {
    HK_ASSIGN(const std::string text, read_file(file));
    return parse_json_object(text, file.string());
}

// "hidden_states.*" -> "layer.*.hidden": the port for an output's name, or "" if no pattern matches.
std::string port_of(const plugin::ReferenceClass& c, const std::string& output) {
    for (const auto& [from, to] : c.outputs) {
        const std::size_t star = from.find('*');
        if (star == std::string_view::npos) {
            if (from == output) return std::string(to);
            continue;
        }
        const std::string_view head = from.substr(0, star), tail = from.substr(star + 1);
        if (output.size() < head.size() + tail.size() || !output.starts_with(head) || !output.ends_with(tail)) continue;
        std::string port(to);
        const std::size_t place = port.find('*');
        if (place != std::string::npos)
            port.replace(place, 1, output.substr(head.size(), output.size() - head.size() - tail.size()));
        return port;
    }
    return {};
}

constexpr const char* kAdapterFolder = "adapter"; // of one adapter, as another library saved it
constexpr const char* kAdaptersFile = "adapters"; // .safetensors, of several

// Moves the merged parameters out of what is expected, and translates PEFT's names.
void rename_for_adapter(Fixture& f) {
    Tensors expected;
    for (auto& [name, tensor] : f.expected) {
        const std::size_t dot = name.find('.');
        const std::string kind = name.substr(0, dot), rest = dot != std::string::npos ? name.substr(dot + 1) : "";
        if (kind == "base") continue; // the model without the adapter
        if (kind == "merged")
            f.merged.emplace(rest, std::move(tensor));
        else if ((kind == "grad" || kind == "adamw") && rest != "loss")
            expected.emplace(kind + "." + infer::name_from_peft(rest).value_or(rest), std::move(tensor));
        else
            expected.emplace(name, std::move(tensor));
    }
    f.expected = std::move(expected);
}

// Divides what is expected of a prefix as its tensor is divided: by layers, of which `tensors` has those that are used.
void divide_prefix(Fixture& f, std::size_t layers, std::span<const model::TensorView> tensors) {
    for (const char* kind : {"grad.", "adamw."}) {
        const std::string name = fmt::format("{}{}prompt_embeddings", kind, plugin::kAdapter);
        const auto found = f.expected.find(name);
        if (found == f.expected.end() || layers == 0) continue;
        const graph::Tensor all = std::move(found->second);
        f.expected.erase(found);
        const int64_t rows = all.shape[0], width = all.shape[1] / static_cast<int64_t>(layers);
        for (std::size_t layer = 0; layer < layers; ++layer) {
            graph::Tensor part{all.kind, {rows, width}, {}};
            for (int64_t row = 0; row < rows; ++row) {
                const auto from = all.data.begin() + (row * all.shape[1] + static_cast<int64_t>(layer) * width);
                part.data.insert(part.data.end(), from, from + width);
            }
            const std::string of_layer = fmt::format("{}prompt_embeddings.{}", plugin::kAdapter, layer);
            if (std::ranges::count(tensors, of_layer, &model::TensorView::name) > 0)
                f.expected.emplace(kind + of_layer, std::move(part));
        }
    }
}

// Gives gradients and stepped parameters of a multimodal folder the names of the language model alone.
void rename_text_part(Fixture& f) {
    Tensors renamed;
    for (auto& [name, tensor] : f.expected) {
        std::string own = name;
        for (const char* part : {".language_model.model.", ".model.language_model."})
            if (const std::size_t at = own.find(part); at != std::string::npos)
                own.replace(at, std::string_view(part).size(), ".model.");
        if (const std::size_t at = own.find(".language_model.lm_head."); at != std::string::npos)
            own.replace(at, std::string_view(".language_model").size(), "");
        renamed.emplace(std::move(own), std::move(tensor));
    }
    f.expected = std::move(renamed);
}

// Stacks gradients and stepped parameters as the parameters are stacked.
Status stack_expected(Fixture& f, const plugin::NameRules& names) {
    std::vector<model::TensorView> views;
    for (const auto& [name, tensor] : f.expected) {
        model::TensorView& view = views.emplace_back();
        view.name = name;
        view.dtype = model::DType::f64;
        view.dims = tensor.shape.vector();
        view.bytes = std::as_bytes(std::span(tensor.data));
    }
    HK_ASSIGN(const model::StackedTensors stacks, model::stack_tensors(views, plugin::model_rules(names).stacks,
                                                                       (f.folder / "expected.safetensors").string()));
    Tensors stacked;
    for (const std::shared_ptr<const model::TensorView>& view : stacks.tensors) {
        HK_ASSIGN(graph::Tensor tensor, infer::tensor_of(*view));
        stacked.emplace(view->name, std::move(tensor));
    }
    for (std::size_t i = 0; i < views.size(); ++i)
        if (stacks.stacked[i]) f.expected.erase(views[i].name);
    f.expected.merge(stacked);
    return {};
}

// Adds tensors of adapters to the parameters; what is not among them is frozen.
Status add_adapters(const Fixture& fixture, std::span<const model::TensorView> tensors, FixtureModel& m) {
    for (const auto& [name, value] : m.graph.parameters()) m.frozen.insert(name);
    for (const model::TensorView& view : tensors) {
        const graph::ValueId value = m.graph.find_leaf(graph::Op::parameter, view.name);
        HK_ASSIGN(graph::Tensor tensor, infer::tensor_of(view));
        if (value == graph::kNone || m.graph.shape(value) != tensor.shape)
            return corrupt(fmt::format("{}: the adapter's tensor {} {} matches no parameter of the model",
                                       fixture.folder.string(), view.name, tensor.shape.text()));
        if ((m.graph.producer(value).integer("flags") & HK_INITIAL_FIXED) == 0) m.frozen.erase(view.name);
        m.parameters.insert_or_assign(view.name, std::move(tensor));
    }
    for (const auto& [name, value] : m.graph.parameters())
        if (!m.parameters.contains(name))
            return corrupt(fmt::format("{}: the adapter's folder has no tensor for {}", fixture.folder.string(), name));
    return {};
}

// Adds the adapters of fixture.json's "adapters" and "combine"; their tensors have Hekla's names.
Status add_combination(const Fixture& fixture, FixtureModel& m) {
    HK_ASSIGN(const model::Weights weights, model::Weights::open(fixture.folder, kAdaptersFile));
    HK_TRY(add_adapters(fixture, weights.tensors(), m));
    for (const plugin::AdapterSpec& adapter : fixture.adapters)
        for (const auto& [name, value] : m.graph.parameters())
            if (!adapter.trained && name.starts_with(fmt::format("{}{}.", plugin::kAdapter, adapter.name)))
                m.frozen.insert(name);
    return {};
}

} // namespace

std::vector<plugin::BatchField> Fixture::fields() const {
    std::vector<plugin::BatchField> result;
    for (const auto& [name, tensor] : inputs) result.push_back({name, tensor.kind, tensor.shape});
    return result;
}

Result<Fixture> read_fixture(const plugin::Registry& registry, const std::filesystem::path& folder) {
    Fixture f;
    f.folder = folder;
    HK_ASSIGN(const json info, read_json(folder / "fixture.json"));
    HK_ASSIGN(f.config, read_json(folder / "config.json"));
    const std::optional<json> text = model::text_part(f.config);
    if (text) f.config = *text;
    HK_ASSIGN(f.inputs, read_tensors(folder / "inputs.safetensors"));
    HK_ASSIGN(f.expected, read_tensors(folder / "expected.safetensors"));
    if (text) rename_text_part(f);
    if (infer::is_adapter_folder(folder / kAdapterFolder)) {
        rename_for_adapter(f);
        HK_ASSIGN(const infer::AdapterFolder adapter, infer::read_adapter_folder(folder / kAdapterFolder));
        const auto shared = adapter.config.value("share_layers", std::size_t{0});
        divide_prefix(f, shared > 0 ? shared : adapter.parts.size(), adapter.tensors);
    }
    try {
        f.class_name = info.at("class").get<std::string>();
        if (info.contains("adamw")) {
            const json& a = info["adamw"];
            f.has_adamw = true;
            f.adamw = {a.at("lr"),           a.at("betas").at(0),    a.at("betas").at(1), a.at("eps"),
                       a.at("weight_decay"), a.at("clip_grad_norm"), a.at("steps")};
        }
        for (const json& a : info.value("adapters", json::array()))
            f.adapters.push_back({a.at("name").get<std::string>(),
                                  {a.at("id").get<std::string>(), a.at("config")},
                                  a.at("trained").get<bool>()});
        f.combination_config = info.value("combine", json::object());
        f.combination = f.combination_config.value("how", "");
        f.combination_config.erase("how");
        for (const json& c : info.value("generate", json::array())) {
            generate::RecordedCase g;
            g.prompts = c.at("prompt").get<std::vector<std::vector<int32_t>>>();
            g.expected = c.at("ids").get<std::vector<std::vector<int32_t>>>();
            g.arguments = c.at("args");
            for (const std::string& field : c.value("with", std::vector<std::string>{})) {
                const auto found = f.inputs.find(field);
                if (found == f.inputs.end())
                    return not_found(fmt::format("{}: generation needs the field '{}', which the batch does not have",
                                                 folder.string(), field));
                g.fields.emplace(*found);
            }
            f.generation.push_back(std::move(g));
        }
    } catch (const json::exception& e) {
        return corrupt(fmt::format("{}: {}", (folder / "fixture.json").string(), e.what()));
    }
    HK_ASSIGN(const plugin::NamedModel parts,
              plugin::named_model(registry, f.config, (folder / "config.json").string(), f.class_name));
    HK_TRY(stack_expected(f, parts.architecture.provided->names));
    return f;
}

Result<FixtureModel> describe_fixture(const plugin::Registry& registry, const Fixture& fixture, const Log& log) {
    FixtureModel m;
    const std::string file = (fixture.folder / "config.json").string();
    HK_ASSIGN(const plugin::NamedModel parts, plugin::named_model(registry, fixture.config, file, fixture.class_name));
    m.reference = parts.reference;
    const bool has_labels = fixture.expected.contains("loss"); // a batch without them has outputs alone
    plugin::CompositionSpec spec =
        infer::class_spec(*parts.architecture.provided, *m.reference, fixture.config, file, has_labels);
    std::optional<infer::AdapterFolder> adapter;
    if (infer::is_adapter_folder(fixture.folder / kAdapterFolder)) {
        HK_ASSIGN(adapter, infer::read_adapter_folder(fixture.folder / kAdapterFolder));
        spec.adapters = {{"", {adapter->id, adapter->config}}};
    } else {
        spec.adapters = fixture.adapters;
        spec.combination = fixture.combination;
        spec.combination_config = fixture.combination_config;
    }
    HK_ASSIGN(m.composition, plugin::Composition::create(registry, spec, nullptr, log));

    std::vector<std::string> ports;
    std::vector<std::pair<std::string, std::string>> outputs; // port, expected name
    for (const auto& [name, tensor] : fixture.expected) {
        if (!name.starts_with("out.")) continue;
        const std::string port = port_of(*m.reference, name.substr(4));
        if (port.empty())
            return unsupported(fmt::format("{}: the manifest of '{}' maps no port to {}", fixture.folder.string(),
                                           spec.architecture, name));
        ports.push_back(port);
        outputs.emplace_back(port, name);
    }
    const std::vector<plugin::BatchField> fields = fixture.fields();
    plugin::BuildRequest request;
    request.mode = spec.objective.empty() ? HK_MODE_EVALUATE : HK_MODE_TRAIN;
    request.fields = fields;
    request.ports = ports;
    HK_ASSIGN(plugin::Described described, m.composition->describe(request));
    m.graph = std::move(described.graph);
    if (adapter) HK_TRY(infer::name_by_sites(*adapter, described.sites));
    std::map<std::string, graph::ValueId, std::less<>> named;
    for (const auto& [port, name] : outputs) named[name] = m.graph.outputs.at(port);
    m.graph.outputs = std::move(named);

    HK_ASSIGN(const model::Weights weights, model::Weights::open(fixture.folder));
    HK_ASSIGN(const plugin::FoundTensors stored,
              plugin::find_some_tensors(m.graph, weights.tensors(), weights.path().string(),
                                        plugin::model_rules(parts.architecture.provided->names),
                                        [](const std::string& name) { return !name.starts_with(plugin::kAdapter); }));
    for (const plugin::StoredTensor& t : stored.tensors) {
        HK_ASSIGN(graph::Tensor tensor, infer::tensor_of(*t.stored));
        if (t.tensor.buffer) {
            m.graph.nodes[t.tensor.leaf].set("value", tensor.data);
            m.buffers.emplace(t.tensor.name, std::move(tensor));
        } else {
            m.parameters.emplace(t.tensor.name, std::move(tensor));
        }
    }
    if (adapter) HK_TRY(add_adapters(fixture, adapter->tensors, m));
    if (!fixture.adapters.empty()) HK_TRY(add_combination(fixture, m));
    // The reference does not store a table that it computes, and these fixtures were made with a different table. It is
    // among the stepped parameters, without a gradient and unchanged.
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(m.graph)) {
        const auto shown = fixture.expected.find("adamw." + tensor.name);
        if (!tensor.buffer || weights.find(tensor.name) != nullptr || shown == fixture.expected.end()) continue;
        if (shown->second.shape != tensor.shape)
            return corrupt(fmt::format("{}: buffer {} is {}, expected {}", fixture.folder.string(), tensor.name,
                                       shown->second.shape.text(), tensor.shape.text()));
        m.graph.nodes[tensor.leaf].set("value", shown->second.data);
    }
    return m;
}

Result<graph::Graph> differentiated(const FixtureModel& model) {
    if (model.graph.losses.empty()) return graph::simplify(model.graph);
    HK_ASSIGN(const graph::Graph differentiated, graph::differentiate(model.graph, model.frozen));
    return graph::simplify(differentiated);
}

program::CompileOptions fixture_options(const graph::Graph& graph) {
    program::CompileOptions options;
    if (!graph.losses.empty()) {
        options.outputs = {"loss"};
        options.state_outputs = {{"loss", train::kLossState}};
    }
    for (const auto& [name, value] : graph.outputs)
        if (name.starts_with("out.")) options.outputs.push_back(name);
    return options;
}

} // namespace hekla::app
