#include "infer/open/model.hpp"

#include "base/json.hpp"
#include "infer/adapters/stored_adapter.hpp"
#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/named_model.hpp"
#include "plugin/composition/text_record.hpp"
#include "program/parameter_store.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

using nlohmann::json;

// Chooses architecture and head.
Status choose_parts(const plugin::Registry& registry, const model::ModelFolder& folder, const ModelOptions& options,
                    plugin::CompositionSpec& spec) {
    HK_ASSIGN(const plugin::NamedModel named,
              plugin::named_model(registry, spec.config, spec.file, options.class_name));
    const json own = spec.config.value("hekla", json()); // written by our own training
    spec.config.erase("hekla");
    const auto take_objective = [&](std::string_view id, const json& config) {
        if (!options.objective) return;
        spec.objective = id;
        spec.objective_config = config;
    };
    if (options.class_name.empty() && own.is_object()) {
        spec.head = own.value("head", "");
        spec.head_config = own.value("head_config", json::object());
        take_objective(own.value("objective", ""), own.value("objective_config", json::object()));
        HK_TRY(check_one_adapter(own.value("adapter_config", json::object()), folder.path()));
        if (const std::string adapter = own.value("adapter", ""); !adapter.empty())
            spec.adapters.push_back({"", {adapter, own.value("adapter_config", json::object())}});
        for (const json& one : own.value("adapters", json::array()))
            spec.adapters.push_back(
                {one.value("name", ""), {one.value("id", ""), one.value("config", json::object())}});
        spec.combination = own.value("combination", "");
        spec.combination_config = own.value("combination_config", json::object());
    } else if (named.reference != nullptr) {
        plugin::CompositionSpec published = class_spec(*named.architecture.provided, *named.reference,
                                                       std::move(spec.config), std::move(spec.file), options.objective);
        published.text_rules = spec.text_rules;
        spec = std::move(published);
    }
    spec.architecture = named.architecture.provided->id;
    if (!options.head.empty() && !has_head(spec.head, options.head)) {
        spec.head = options.head;
        spec.head_config = json::object();
    }
    return {};
}

} // namespace

Model::Model() = default;
Model::Model(Model&& other) noexcept = default;
Model& Model::operator=(Model&& other) noexcept = default;
Model::~Model() = default;

bool has_head(std::string_view heads, std::string_view head) {
    const std::vector<std::string_view> names = plugin::head_names(heads);
    return std::ranges::find(names, head) != names.end();
}

Result<plugin::CompositionSpec> stored_spec(const plugin::Registry& registry, const model::ModelFolder& folder,
                                            const ModelOptions& options) {
    plugin::CompositionSpec spec;
    spec.file = (folder.path() / "config.json").string();
    HK_ASSIGN(spec.config, parse_json_object(folder.config_json(), spec.file));
    spec.refuse_unknown_keys = false;
    spec.text_rules = plugin::text_rules_of(spec.config);
    HK_TRY(choose_parts(registry, folder, options, spec));
    return spec;
}

plugin::CompositionSpec class_spec(const plugin::Provided& architecture, const plugin::ReferenceClass& reference,
                                   json config, std::string file, bool objective) {
    plugin::CompositionSpec spec;
    spec.architecture = architecture.id;
    spec.file = std::move(file);
    config.erase("hekla");
    spec.config = std::move(config);
    spec.refuse_unknown_keys = false;
    spec.head = reference.head;
    spec.head_config = reference.head_config.parse();
    if (objective) {
        spec.objective = reference.objective;
        spec.objective_config = reference.objective_config.parse();
    }
    return spec;
}

text::TextEncoder text_encoder(const Model& model) {
    return text::TextEncoder(*model.tokenizer, plugin::text_rules_of(model.config));
}

std::string trained_prefix(const json& config, const std::string& column) {
    const auto own = config.find("hekla");
    if (own == config.end() || !own->is_object()) {
        const auto prefix = config.find("prefix");
        return prefix != config.end() && prefix->is_string() ? prefix->get<std::string>() : std::string();
    }
    const json by_column = own->value("prefix", json::object());
    const auto found = by_column.find(column);
    return found != by_column.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string with_prefix(const std::string& prefix, const std::string& text) {
    return text.empty() || text.starts_with(prefix) ? text : prefix + text;
}

std::vector<std::vector<plugin::BatchField>> smallest_batches(const json& config) {
    const json side = config.value("image_size", json()), channels = config.value("num_channels", json(3));
    if (side.is_number_integer() && channels.is_number_integer())
        return {{{"pixel_values", graph::Kind::float_,
                  graph::Shape{1, channels.get<int64_t>(), side.get<int64_t>(), side.get<int64_t>()}}}};
    const auto rows = [](const graph::Shape& ids) { // with one stack the second field is not read
        return std::vector<plugin::BatchField>{{"input_ids", graph::Kind::int32, ids},
                                               {"decoder_input_ids", graph::Kind::int32, graph::Shape{1, 1}}};
    };
    return {rows({1, 1}), rows({1, 1, 1})};
}

Result<plugin::Described> describe_smallest(const plugin::Composition& composition, const json& config,
                                            plugin::BuildRequest& request) {
    request.mode = HK_MODE_EVALUATE;
    request.objective = false;
    Status first;
    for (std::vector<plugin::BatchField>& fields : smallest_batches(config)) {
        request.fields = std::move(fields);
        Result<plugin::Described> described = composition.describe(request);
        if (described.ok()) return described;
        if (first.ok()) first = described.status();
    }
    return first;
}

Result<graph::Graph> describe_smallest(const Model& m) {
    if (m.composition->can_collate()) { // the objective knows the fields of a batch
        constexpr int64_t kLength = 32;
        const json own = m.config.value("hekla", json::object());
        const int64_t trained = own.is_object() ? own.value("context_length", int64_t{0}) : 0;
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  m.composition->batch_fields(1, trained > 0 ? std::min(trained, kLength) : kLength));
        return m.composition->build(HK_MODE_EVALUATE, fields);
    }
    Status first;
    for (const std::vector<plugin::BatchField>& fields : smallest_batches(m.config)) {
        Result<graph::Graph> graph = m.composition->build(HK_MODE_EVALUATE, fields);
        if (graph.ok()) return graph;
        if (first.ok()) first = graph.status();
    }
    return first;
}

Result<bool> encoder_decoder(const Model& m) {
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    return graph.find_leaf(graph::Op::input, "decoder_input_ids") != graph::kNone;
}

} // namespace hekla::infer
