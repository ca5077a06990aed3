#include "infer/open/open_model.hpp"

#include "base/json.hpp"
#include "generate/settings.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "infer/adapters/combined_parameters.hpp"
#include "infer/exported/exported_model.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/model_tensors.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"
#include "model/model_path.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/record.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"
#include "program/shared_weights.hpp"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;

bool is_of_adapter(const std::string& name) { return name.starts_with(plugin::kAdapter); }

// Returns how the graph of the model's plugins differs from the one that it was made with; empty where it does not, or
// where the folder has no record.
Result<std::string> difference_from_record(const Model& m, const Log& log) {
    HK_ASSIGN(const std::optional<plugin::Record> record, plugin::read_record(m.path));
    if (!record) return std::string();
    Result<std::string> difference = plugin::difference_from(*record, *m.composition);
    if (difference.ok()) return difference;
    // Another head may need fields that the recorded batch does not have; then the two cannot be compared.
    log.debug(fmt::format("{}: its plugins are not compared with those it was made with: {}", m.path.string(),
                          difference.message()));
    return std::string();
}

// Those that no adapter has (Model::own).
Result<std::vector<plugin::StoredTensor>> folder_tensors(const graph::Graph& graph, const Model& m,
                                                         const model::ModelFolder& folder,
                                                         const model::ModelFolder* base, const Log& log) {
    if (!m.adapters.empty() || m.has_slots) { // the record is of the body alone
        const bool aliased = m.untied && !m.own.contains(m.untied->alias);
        const auto takes = [&](const std::string& name) {
            return !is_of_adapter(name) && !m.own.contains(name) && !(aliased && name == m.untied->alias);
        };
        model::NameRules rules = plugin::model_rules(m.composition->architecture().names);
        if (!std::ranges::all_of(m.own, is_of_adapter)) rules.ignorable.emplace_back("*"); // what an adapter replaces
        const auto find = [&](const std::function<bool(const std::string&)>& wanted) {
            return plugin::find_some_tensors(graph, folder.weights().tensors(), folder.weights().path().string(), rules,
                                             wanted);
        };
        HK_ASSIGN(plugin::FoundTensors found, find(takes));
        if (aliased) { // it keeps the values that it was tied to
            HK_ASSIGN(const plugin::FoundTensors tied,
                      find([&](const std::string& name) { return name == m.untied->parameter; }));
            for (plugin::ModelTensor& tensor : plugin::model_tensors(graph))
                if (tensor.name == m.untied->alias)
                    found.tensors.push_back({tensor, tied.tensors.at(0).stored, tied.tensors.at(0).stack});
        }
        return std::move(found.tensors);
    }
    HK_ASSIGN(const std::string difference, difference_from_record(m, log));
    Result<std::vector<plugin::StoredTensor>> stored =
        base != nullptr ? find_with_base(graph, folder.weights(), base->weights(), m.composition->architecture().names)
                        : plugin::find_tensors(
                              graph, folder.weights(),
                              plugin::model_rules(m.composition->architecture().names, m.composition->head().empty()));
    if (!stored.ok() && !difference.empty())
        return Status(stored.code(), fmt::format("{}\n  {}", stored.message(), difference));
    if (stored.ok() && !difference.empty())
        log.warning(fmt::format("{}: {}\n  Every weight has its place, so it is used, as this graph computes",
                                m.path.string(), difference));
    return stored;
}

// They are stored under the graph's own names.
// slots: those of adapters are of slots, which no file contains.
Result<std::vector<plugin::StoredTensor>> exported_tensors(const graph::Graph& graph, const ExportedFile& file,
                                                           bool slots) {
    model::NameRules rules;
    rules.ignorable = {"*"}; // another head's
    HK_ASSIGN(plugin::FoundTensors found,
              plugin::find_some_tensors(graph, file.tensors(), file.path().string(), rules,
                                        [&](const std::string& name) { return !slots || !is_of_adapter(name); }));
    return std::move(found.tensors);
}

// What the shared weights of a model on a device are: of which files, as they are now, and which tensors of them.
// Models of one body share it, whatever adapters they have.
Result<std::string> weights_key(const Model& m, const model::ModelFolder* base, const ModelOptions& options) {
    std::string key = fmt::format("{}", static_cast<int>(options.weights));
    std::error_code problem;
    const auto add = [&](const fs::path& file) {
        const fs::path whole = fs::canonical(file, problem);
        const auto bytes = fs::file_size(whole, problem);
        key += fmt::format("\n{} {} {}", whole.string(), bytes,
                           fs::last_write_time(whole, problem).time_since_epoch().count());
    };
    const auto add_folder = [&](const fs::path& folder) {
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(folder, problem))
            if (entry.is_regular_file(problem)) files.push_back(entry.path());
        std::ranges::sort(files);
        for (const fs::path& file : files) add(file);
    };
    if (m.exported != nullptr)
        add(m.exported->path());
    else
        add_folder(base != nullptr ? base->path() : m.path);
    if (problem) return io_error(fmt::format("{}: {}", m.path.string(), problem.message()));
    for (const program::ParameterEntry& entry : m.table)
        if (!m.own.contains(entry.name))
            key += fmt::format("\n{} {} {}", entry.name, entry.shape.text(), entry.readable_in_16_bits);
    return key;
}

// Returns the parameters that are not of the body's files.
std::set<std::string, std::less<>> own_parameters(const std::vector<plugin::StoredTensor>& tensors,
                                                  const model::ModelFolder* base) {
    std::set<const std::byte*> of_base;
    if (base != nullptr)
        for (const model::TensorView& tensor : base->weights().tensors()) of_base.insert(tensor.bytes.data());
    std::set<std::string, std::less<>> own;
    for (const plugin::StoredTensor& found : tensors)
        if (is_of_adapter(found.tensor.name) ||
            (base != nullptr && !of_base.contains(found.stored->pieces()[0].data())))
            own.insert(found.tensor.name);
    return own;
}

// Values of parameters that no file contains as they are. The tensors are views into it.
struct MadeTensors {
    std::deque<std::vector<float>> values;
    std::deque<model::TensorView> views;
    plugin::StoredTensor add(const plugin::ModelTensor& tensor, std::vector<float> of) {
        const std::vector<float>& kept = values.emplace_back(std::move(of));
        model::TensorView& view = views.emplace_back();
        view.name = tensor.name;
        view.dtype = model::DType::f32;
        view.dims = tensor.shape.vector();
        view.bytes = std::as_bytes(std::span(kept));
        return {tensor, &view};
    }
};

// Sets Model::slot_parameters and body_weights, and checks Model::slots.
Status find_slots(Model& m, const graph::Graph& graph) {
    if (m.exported == nullptr) { // otherwise the file has it
        HK_ASSIGN(const nlohmann::ordered_json base, base_of(m.path));
        m.body_weights = base.at("weights").get<std::string>();
    }
    for (plugin::ModelTensor& tensor : plugin::model_tensors(graph))
        if (is_of_adapter(tensor.name)) m.slot_parameters.push_back(std::move(tensor));
    for (const SlotContent& content : m.slots)
        HK_TRY(check_slot(content, m.body_weights, m.path.string(), m.slot_parameters));
    return check_slots_exist(m.path.string(), m.slot_parameters.size());
}

// Puts the values of Model::slots into `tensors`.
Status add_slots(Model& m, const graph::Graph& graph, std::vector<plugin::StoredTensor>& tensors, MadeTensors& made) {
    HK_TRY(find_slots(m, graph));
    for (const plugin::ModelTensor& tensor : m.slot_parameters) {
        HK_ASSIGN(std::vector<float> values, slots_values(tensor, m.slots));
        tensors.push_back(made.add(tensor, std::move(values)));
    }
    return {};
}

// Puts the parameters of what combines ModelOptions::adapters into `tensors`: those that are computed from the
// adapters' own. Errors: others, which only training has.
Status add_combined(const Model& m, const graph::Graph& graph, const ModelOptions& options,
                    std::vector<plugin::StoredTensor>& tensors, MadeTensors& made) {
    const std::string& how = options.adapters.combine.how;
    if (how.empty()) return {};
    HK_TRY(check_combined(graph, how));
    std::map<std::string, plugin::ModelTensor> missing;
    for (plugin::ModelTensor& tensor : plugin::model_tensors(graph))
        if (is_of_combiner(tensor.name)) missing.emplace(tensor.name, std::move(tensor));
    if (missing.empty() || options.describe_only) return {};
    plugin::BuildRequest request;
    request.initial = true;
    HK_ASSIGN(const plugin::Described described, describe_smallest(*m.composition, m.config, request));
    std::map<std::string, const model::TensorView*> stored;
    for (const plugin::StoredTensor& tensor : tensors) stored.emplace(tensor.tensor.name, tensor.stored);
    HK_TRY(compute_initial(
        described.graph, stored, [&](const std::string& name) { return missing.contains(name); },
        "it is computed from trained adapters",
        [&](const std::string& name, std::vector<float> values) -> Status {
            tensors.push_back(made.add(missing.at(name), std::move(values)));
            missing.erase(name);
            return {};
        }));
    if (missing.empty()) return {};
    return unsupported(
        fmt::format("combine.how is '{}', whose '{}' is not computed from the adapters: give the folder of "
                    "a run that combines them as the model",
                    how, missing.begin()->first));
}

// Returns whether the model has one adapter, which acts on all rows.
bool has_one_adapter(const ModelOptions& options) {
    return options.adapters.each.size() == 1 && !options.adapters_by_row && options.slots.count == 0;
}
// Returns whether the head matters to what the model is opened for.
bool uses_head(const ModelOptions& options) { return options.objective || !options.head.empty(); }

// The head with which the only adapter was trained, its objective, and the members of its config.json for them (labels,
// prefixes) become the model's. Error: the head is not the one that was asked for.
Status take_head(const StoredAdapter& adapter, const ModelOptions& options, plugin::CompositionSpec& spec,
                 nlohmann::json& config) {
    using nlohmann::json;
    if (!adapter.own) return {}; // PEFT and AdapterHub do not describe heads
    const std::string file = (adapter.path / "config.json").string();
    HK_ASSIGN(json trained, parse_json_object(adapter.own->config_json(), file));
    json& own = trained.at("hekla"); // open_stored_adapter() has checked that it is an object
    const auto text_of = [&](const char* key) -> Result<std::string> {
        const json value = own.value(key, json(""));
        if (value.is_string()) return value.get<std::string>();
        return corrupt(fmt::format("{}: hekla.{} is {}; expected a string", file, key, value.dump()));
    };
    HK_ASSIGN(const std::string head, text_of("head"));
    HK_ASSIGN(const std::string objective, text_of("objective"));
    if (head.empty()) return {};
    if (!options.head.empty() && !has_head(head, options.head))
        return unsupported(
            fmt::format("{}: was trained with a head of its own, '{}', and the head '{}' is needed here; "
                        "`hekla predict --adapter` uses its own",
                        adapter.path.string(), head, options.head));
    spec.head = head;
    spec.head_config = own.value("head_config", json::object());
    if (options.objective) {
        spec.objective = objective;
        spec.objective_config = own.value("objective_config", json::object());
    }
    for (const char* key : {"base", "adapter", "adapter_config"}) own.erase(key);
    config = std::move(trained);
    return {};
}

// Returns why tensors of an adapter's folder that the model does not take matter.
Status check_unused(const StoredAdapter& adapter, const std::vector<std::string>& unused, const ModelOptions& options,
                    const AdaptedModelParts& model) {
    if (!uses_head(options)) return {};
    for (const std::string& name : unused) {
        if (has_one_adapter(options))
            return unsupported(fmt::format("{}: contains '{}', which was trained with the adapter, but the head of {} "
                                           "does not have it in this size: give a model with that head",
                                           adapter.path.string(), name, model.folder));
        if (std::ranges::find(model.tensors, name, &plugin::ModelTensor::name) != model.tensors.end())
            return unsupported(
                fmt::format("{}: contains '{}' of the head, which was trained with the adapter; adapters "
                            "that are used together cannot have a head each: use it alone",
                            adapter.path.string(), name));
    }
    return {};
}

// Error: the scale of a use is not 1, and among the tensors are some of the body, which the adapter replaces, or of a
// tie that it separates. A head that was trained with the adapter has no scale.
Status check_scale(double scale, const StoredAdapter& from, std::span<const plugin::StoredTensor> tensors,
                   const AdaptedModelParts& model, const Model& m) {
    if (scale == 1.0) return {};
    for (const plugin::StoredTensor& tensor : tensors)
        if (model.body.contains(tensor.tensor.name) || (m.untied && tensor.tensor.name == m.untied->alias))
            return unsupported(fmt::format(
                "{}: the scale is {}, but the adapter replaces '{}' of the body (a trained norm, bias or layer), and a "
                "scale acts only on what an adapter adds: remove the scale",
                from.path.string(), scale, tensor.tensor.name));
    return {};
}

// Puts the tensors of ModelOptions::adapters into `tensors`. Errors: an adapter of another body; see adapter_tensors().
Status add_adapters(Model& m, const graph::Graph& graph, const ModelOptions& options,
                    std::vector<plugin::StoredTensor>& tensors, const Log& log) {
    plugin::BuildRequest request;
    HK_ASSIGN(plugin::Described described, describe_smallest(*m.composition, m.config, request));
    AdaptedModelParts parts{m.path.string(), "", {}, std::move(described.sites), plugin::model_tensors(graph)};
    HK_ASSIGN(parts.body, m.composition->body_parameters(request.fields));
    HK_ASSIGN(const nlohmann::ordered_json base, base_of(m.path));
    parts.weights = base.at("weights").get<std::string>();
    parts.takes_head = has_one_adapter(options);
    parts.takes_body = parts.takes_head && options.adapters.combine.how.empty();
    for (std::size_t i = 0; i < m.adapters.size(); ++i) {
        StoredAdapter& adapter = m.adapters[i];
        const std::string& name = options.adapters.each[i].name;
        const std::string what = fmt::format("adapter '{}'", name);
        std::vector<std::string> unused;
        Result<std::vector<plugin::StoredTensor>> found = adapter_tensors(adapter, name, parts, unused);
        if (!found.ok()) return found.status().with_context(what);
        HK_TRY(check_scale(options.adapters.each[i].scale, adapter, found.value(), parts, m).with_context(what));
        HK_TRY(check_unused(adapter, unused, options, parts).with_context(what));
        if (!m.composition->head().empty())
            for (const auto& [alias, parameter] : m.composition->architecture().names.ties)
                if (std::ranges::find(unused, alias) != unused.end())
                    return cannot_separate({std::string(alias), std::string(parameter)}, adapter.path.string(),
                                           "adapters that are used together cannot have a head each")
                        .with_context(what);
        if (!unused.empty())
            log.warning(fmt::format("{}: {}: tensors that the model does not have are not used: {}", what,
                                    adapter.path.string(), fmt::join(unused, ", ")));
        tensors.insert(tensors.end(), found->begin(), found->end());
    }
    return {};
}

// Sets Model::untied, and makes the composition again without the tie.
Status separate_tie(const plugin::Registry& registry, Model& m, plugin::CompositionSpec spec, const Log& log) {
    StoredAdapter& adapter = m.adapters[0];
    if (!adapter.foreign) return {}; // trained by Hekla, which keeps the tie
    const plugin::Provided& architecture = m.composition->architecture();
    if (std::ranges::none_of(architecture.names.ties, [&](const plugin::TextPair& tie) {
            return std::ranges::any_of(adapter.foreign->tensors, [&](const model::TensorView& tensor) {
                return tensor.name == tie.from || tensor.name == tie.to;
            });
        }))
        return {};
    const std::string where = adapter.path.string();
    HK_ASSIGN(const graph::Graph tied, describe_smallest(m));
    HK_ASSIGN(m.untied, separated_tie(*adapter.foreign, architecture.names, tied, where));
    if (!m.untied) return {};
    HK_TRY(separate(*m.untied, architecture, spec, where));
    Result<std::unique_ptr<plugin::Composition>> separated =
        plugin::Composition::create(registry, spec, m.tokenizer.get(), log);
    if (!separated.ok()) return cannot_separate(*m.untied, where, separated.message());
    m.composition = separated.take();
    m.config["tie_word_embeddings"] = false;
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    return check_separate(*m.untied, tied, graph, where);
}

Result<Model> describe_at(const plugin::Registry& registry, const fs::path& given, const ModelOptions& options,
                          const Log& log) {
    std::error_code ignored;
    HK_ASSIGN(const fs::path found, model::find_model_folder(given));
    if (fs::is_regular_file(found, ignored)) return describe_exported(registry, given, options);
    Model m;
    HK_ASSIGN(m.path, weights_folder(found));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(m.path));
    HK_ASSIGN(plugin::CompositionSpec spec, stored_spec(registry, folder, options)); // before a tokenizer of its kind
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::load_tokenizer(m.path);
    if (!tokenizer.ok()) {
        if (options.tokenizer_required) return tokenizer.status();
        m.tokenizer_problem = tokenizer.status();
    } else {
        HK_ASSIGN(m.tokenizer, text::lying_in(options.memory, tokenizer.take()));
    }
    HK_ASSIGN(m.config, parse_json_object(folder.config_json(), (folder.path() / "config.json").string()));
    HK_ASSIGN(m.generation, generate::settings_of(m.path, m.config));
    HK_ASSIGN(UsedAdapters used, use_adapters(options.adapters, options.adapters_by_row, options.slots, spec));
    m.adapters = std::move(used.adapters);
    m.slots = std::move(used.slots);
    m.has_slots = !m.slots.empty() || options.slots.count > 0;
    m.rows_choose = m.has_slots || options.adapters_by_row;
    if (has_one_adapter(options) && uses_head(options))
        HK_TRY(take_head(m.adapters[0], options, spec, m.config)
                   .with_context(fmt::format("adapter '{}'", options.adapters.each[0].name)));
    HK_ASSIGN(m.composition, plugin::Composition::create(registry, spec, m.tokenizer.get(), log));
    if (has_one_adapter(options) && !m.composition->head().empty())
        HK_TRY(separate_tie(registry, m, std::move(spec), log)
                   .with_context(fmt::format("adapter '{}'", options.adapters.each[0].name)));
    return m;
}

Result<Model> open_at(const plugin::Registry& registry, const program::RuntimeSource& device, const fs::path& given,
                      const ModelOptions& asked, const Log& log) {
    ModelOptions options = asked;
    if (device.has_device()) options.memory = device.host_memory();
    HK_ASSIGN(Model m, describe_at(registry, given, options, log));
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    m.table = program::parameter_table(graph);
    std::optional<model::ModelFolder> folder, base; // tensors point into them
    std::vector<plugin::StoredTensor> tensors;
    MadeTensors made;
    program::StoreOptions store;
    store.weights = options.weights;
    store.panels = options.panels;
    if (m.exported != nullptr) {
        HK_ASSIGN(tensors, exported_tensors(graph, *m.exported, m.has_slots));
    } else {
        HK_ASSIGN(folder, model::ModelFolder::open(m.path));
        HK_ASSIGN(base, open_base(m.config, m.path));
        if (!m.has_slots && !m.adapters.empty()) HK_TRY(add_adapters(m, graph, options, tensors, log));
        for (const plugin::StoredTensor& of_adapter : tensors) m.own.insert(of_adapter.tensor.name);
        HK_ASSIGN(std::vector<plugin::StoredTensor> others,
                  folder_tensors(graph, m, *folder, base ? &*base : nullptr, log));
        tensors.insert(tensors.end(), others.begin(), others.end());
    }
    if (m.has_slots) HK_TRY(add_slots(m, graph, tensors, made));
    HK_TRY(add_combined(m, graph, options, tensors, made));
    m.own.merge(own_parameters(tensors, base ? &*base : nullptr));
    if (options.describe_only) return m;
    HK_ASSIGN(program::Runtime * runtime, device.get());
    m.runtime = runtime;
    std::optional<program::WeightsPool::Loading> loading;
    if (options.pool != nullptr && runtime != nullptr) {
        store.own = m.own;
        HK_ASSIGN(const std::string key, weights_key(m, base ? &*base : nullptr, options));
        HK_ASSIGN(program::WeightsPool::Found found, options.pool->find(key, options.may_wait, options.stop));
        store.shared = std::move(found.weights);
        store.share = found.loading.has_value();
        if (found.loading) loading.emplace(std::move(*found.loading));
    }
    if (m.exported != nullptr && runtime != nullptr) { HK_ASSIGN(store.kernels, exported_kernels(*m.exported)); }
    if (runtime != nullptr) { HK_ASSIGN(m.store, program::ParameterStore::create(*runtime, m.table, store)); }
    for (const plugin::StoredTensor& found : tensors) {
        const bool shared = store.shared != nullptr && !found.tensor.buffer && !store.own.contains(found.tensor.name);
        if (shared) continue; // loaded by another
        if (m.exported != nullptr && !(m.has_slots && is_of_adapter(found.tensor.name)))
            HK_TRY(m.exported->check(*found.stored));
        if (runtime != nullptr) {
            HK_TRY(upload(*m.store, found));
            continue;
        }
        graph::Tensor values{found.tensor.kind, found.tensor.shape, {}};
        values.data.resize(static_cast<std::size_t>(values.shape.elements()));
        HK_TRY(model::load_float64(*found.stored, values.data));
        m.parameters.emplace(found.tensor.name, std::move(values));
    }
    if (loading) {
        HK_TRY(runtime->gpu().queue->wait_all()); // others read them on queues of their own
        loading->loaded(m.store->shared());
    }
    return m;
}

} // namespace

Result<Model> describe_model(const plugin::Registry& registry, const fs::path& given, const ModelOptions& options,
                             const Log& log) {
    return open_newest(given, [&](const fs::path& at) { return describe_at(registry, at, options, log); });
}

Result<Model> open_model(const plugin::Registry& registry, const program::RuntimeSource& device, const fs::path& given,
                         const ModelOptions& options, const Log& log) {
    return open_newest(given, [&](const fs::path& at) { return open_at(registry, device, at, options, log); });
}

Result<SlotContent> read_slot_content(const plugin::Registry& registry, const fs::path& adapter, const fs::path& model,
                                      const Log& log) {
    ModelOptions options;
    options.tokenizer_required = false;
    options.adapters.each = {{"adapter", adapter}};
    options.adapters_by_row = true; // an exported file has slots of its own
    std::error_code ignored;
    if (!fs::is_regular_file(model, ignored)) options.slots.count = 1;
    HK_ASSIGN(Model m, describe_model(registry, model, options, log));
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    HK_TRY(find_slots(m, graph));
    for (const plugin::ModelTensor& parameter : m.slot_parameters) HK_TRY(slot_values(parameter, &m.slots[0]).status());
    return std::move(m.slots[0]);
}

} // namespace hekla::infer
