#include "stored_model.hpp"
#include "model/folder.hpp"

#include "base/json.hpp"
#include "infer/open/model.hpp"
#include "infer/open/weights_folder.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/named_model.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Candidate {
    plugin::Registry::Entry architecture;
    const plugin::ReferenceClass* reference = nullptr;
};

// The shapes of parameters do not depend on the batch, so the smallest possible batch is used. Fields that an
// architecture does not ask for are ignored.
std::vector<plugin::BatchField> any_batch(const json& config, const graph::Shape& ids) {
    std::vector<plugin::BatchField> fields{{"input_ids", graph::Kind::int32, ids},
                                           {"decoder_input_ids", graph::Kind::int32, ids}};
    const json channels = config.value("num_channels", json()), side = config.value("image_size", json());
    if (channels.is_number_integer() && side.is_number_integer() && channels.get<int64_t>() > 0 &&
        side.get<int64_t>() > 0)
        fields.push_back({"pixel_values",
                          graph::Kind::float32,
                          {1, channels.get<int64_t>(), side.get<int64_t>(), side.get<int64_t>()}});
    return fields;
}

Result<graph::Graph> any_graph(const plugin::Composition& composition) {
    Result<graph::Graph> graph = composition.build(HK_MODE_EVALUATE, any_batch(composition.config(), {1, 1}));
    if (graph.ok()) return graph;
    // A class that chooses among several texts needs rows of them.
    Result<graph::Graph> choices = composition.build(HK_MODE_EVALUATE, any_batch(composition.config(), {1, 1, 1}));
    return choices.ok() ? std::move(choices) : std::move(graph);
}

// Removes the body's prefix, if all names have it, as in files of a class without a head.
void name_as_saved(std::string_view prefix, const plugin::ReferenceClass& reference,
                   std::vector<SavedTensor>& tensors) {
    if (prefix.empty() || !(reference.head.empty() || reference.head == "pooler")) return;
    for (const SavedTensor& tensor : tensors)
        if (!tensor.name.starts_with(prefix)) return;
    for (SavedTensor& tensor : tensors) tensor.name.erase(0, prefix.size());
}

Result<StoredModel> explain(const plugin::Registry& registry, const Candidate& candidate,
                            const model::ModelFolder& folder, const Log& log) {
    StoredModel m;
    m.reference = candidate.reference;
    std::string file = (folder.path() / "config.json").string();
    HK_ASSIGN(json config, parse_json_object(folder.config_json(), file));
    // An objective has no weights but the head's.
    const plugin::CompositionSpec spec = infer::class_spec(*candidate.architecture.provided, *m.reference,
                                                           std::move(config), std::move(file), /*objective=*/false);
    HK_ASSIGN(m.composition, plugin::Composition::create(registry, spec, nullptr, log));
    HK_ASSIGN(const graph::Graph graph, any_graph(*m.composition));
    const plugin::NameRules& names = candidate.architecture.provided->names;
    const Result<std::vector<plugin::StoredTensor>> found =
        plugin::find_tensors(graph, folder.weights(), plugin::model_rules(names, spec.head.empty()), &m.ignored);
    if (!found.ok() && !candidate.architecture.manifest->built_in)
        return Status(
            found.code(),
            fmt::format("{}\n  \"names\" of architecture '{}' in {} maps the names in a file to the model's: "
                        "\"prefix\", \"renames\" ([[\"old suffix\", \"new suffix\"]]), \"ignore\" and \"ties\"",
                        found.message(), candidate.architecture.provided->id, candidate.architecture.manifest->file));
    HK_TRY(found.status());
    for (const plugin::StoredTensor& tensor : found.value())
        m.tensors.push_back({tensor.tensor.name, tensor.stored, tensor.stack});
    name_as_saved(names.prefix, *m.reference, m.tensors);
    return m;
}

void add_classes(const plugin::Registry::Entry& architecture, std::vector<Candidate>& candidates) {
    for (const plugin::ReferenceClass& c : architecture.provided->classes) {
        bool known = false;
        for (const Candidate& before : candidates) known = known || before.reference == &c;
        if (!known) candidates.push_back({architecture, &c});
    }
}

// What config.json specifies.
enum class NamedBy { nothing, architecture, class_ };

// Returns the classes that may fit the folder, most likely first.
Result<std::vector<Candidate>> candidates_of(const plugin::Registry& registry, const model::ModelFolder& folder,
                                             const std::string& asked_class, NamedBy& named) {
    std::vector<Candidate> candidates;
    const std::string file = (folder.path() / "config.json").string();
    HK_ASSIGN(const json config, parse_json_object(folder.config_json(), file));
    const json classes = config.value("architectures", json());
    const bool has_class = classes.is_array() && !classes.empty() && classes[0].is_string();
    if (!asked_class.empty() || has_class || !folder.model_type().empty()) {
        HK_ASSIGN(const plugin::NamedModel model, plugin::named_model(registry, config, file, asked_class));
        named = model.reference != nullptr ? NamedBy::class_ : NamedBy::architecture;
        if (model.reference != nullptr) candidates.push_back({model.architecture, model.reference});
        if (asked_class.empty()) add_classes(model.architecture, candidates);
        return candidates;
    }
    named = NamedBy::nothing;
    for (const plugin::Manifest& manifest : registry.manifests())
        for (const plugin::Provided& provided : manifest.provides) add_classes({&manifest, &provided}, candidates);
    return candidates;
}

// Returns an error with the keys that the manifest of config.json's architecture lacks for this folder; ok if none.
Status missing_in_manifest(const plugin::Registry& registry, const fs::path& folder, const json& config) {
    const json own = config.value("hekla", json());
    const auto text = [](const json& object, const char* key) {
        const json value = object.is_object() ? object.value(key, json()) : json();
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    const std::string type = text(config, "model_type");
    Result<plugin::Registry::Entry> entry = registry.find_model_type(type);
    const bool has_type = entry.ok();
    if (!has_type) entry = registry.find(HK_ARCHITECTURE_INTERFACE, text(own, "architecture"));
    if (!entry.ok() || (has_type && !entry->provided->classes.empty())) return {};
    std::string lines;
    if (!has_type && !type.empty()) lines += fmt::format("\n  \"model_types\": [\"{}\"]", type);
    if (entry->provided->classes.empty()) {
        const json named = config.value("architectures", json());
        lines += fmt::format("\n  \"classes\": [{{\"class\": \"{}\", \"head\": \"{}\", \"objective\": \"{}\"}}]",
                             named.is_array() && !named.empty() && named[0].is_string() ? named[0].get<std::string>()
                                                                                        : "MyModelForTask",
                             text(own, "head"), text(own, "objective"));
    }
    return not_found(
        fmt::format("{}: the manifest of its architecture does not name the class of such a folder; add to "
                    "architecture '{}' in {}:{}",
                    folder.string(), entry->provided->id, entry->manifest->file, lines));
}

} // namespace

Result<StoredModel> open_stored_model(const plugin::Registry& registry, const fs::path& path,
                                      const std::string& asked_class, const Log& log) {
    HK_ASSIGN(const fs::path folder_path, infer::weights_folder(path));
    HK_ASSIGN(model::ModelFolder folder, model::ModelFolder::open(folder_path));
    HK_ASSIGN(const json config, parse_json_object(folder.config_json(), (folder.path() / "config.json").string()));
    if (const json own = config.value("hekla", json()); own.is_object() && own.contains("base"))
        return unsupported(fmt::format("{}: contains an adapter without its base model; use it in place with generate, "
                                       "eval, predict or embed",
                                       folder_path.string()));
    NamedBy named = NamedBy::nothing;
    Result<std::vector<Candidate>> possible = candidates_of(registry, folder, asked_class, named);
    if (asked_class.empty() && (!possible.ok() || possible->empty()))
        HK_TRY(missing_in_manifest(registry, folder_path, config));
    HK_ASSIGN(const std::vector<Candidate> candidates, std::move(possible));
    std::optional<StoredModel> best;
    Status problem = not_found("no plugin provides a class");
    for (const Candidate& candidate : candidates) {
        const bool first = candidate.reference == candidates.front().reference;
        Result<StoredModel> m = explain(registry, candidate, folder, first ? log : Log());
        if (m.ok() && (!best || m->ignored.size() < best->ignored.size())) best = m.take();
        if (best && best->ignored.empty()) break;
        if (!m.ok() && first) problem = m.status();
        if (!m.ok() && first && named == NamedBy::class_) return problem;
    }
    if (!best && named == NamedBy::nothing)
        return not_found(
            fmt::format("{}: config.json has neither \"architectures\" nor \"model_type\", and no class of "
                        "any plugin has exactly its tensors; name the class with --class",
                        folder_path.string()));
    if (!best) return problem;
    if (best->reference != candidates.front().reference && named == NamedBy::class_)
        log.info(fmt::format("{}: its tensors are those of {}, not of {}", folder_path.string(), best->reference->name,
                             candidates.front().reference->name));
    best->folder = std::move(folder);
    return std::move(*best);
}

} // namespace hekla::app
