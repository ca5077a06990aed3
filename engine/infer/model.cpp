#include "infer/model.hpp"

#include "base/json.hpp"
#include "infer/base_model.hpp"
#include "infer/exported_model.hpp"
#include "infer/model_tensors.hpp"
#include "model/checkpoint.hpp"
#include "plugin/record.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Architecture and head. A class that no manifest knows, or none, leaves the architecture to model_type.
Status choose_parts(const plugin::Registry& registry, const model::ModelFolder& folder, const ModelOptions& options,
                    plugin::CompositionSpec& spec) {
    plugin::Registry::Entry entry;
    const json classes = spec.config.value("architectures", json::array());
    const json own = spec.config.value("hekla", json()); // what a run of ours wrote of its parts
    spec.config.erase("hekla");
    const auto take_objective = [&](std::string_view id, const json& config) {
        if (!options.objective) return;
        spec.objective = id;
        spec.objective_config = config;
    };
    if (options.class_name.empty() && own.is_object()) {
        HK_ASSIGN(entry, registry.find(HK_ARCHITECTURE_INTERFACE, own.value("architecture", "")));
        spec.head = own.value("head", "");
        spec.head_config = own.value("head_config", json::object());
        take_objective(own.value("objective", ""), own.value("objective_config", json::object()));
        spec.adapter = own.value("adapter", "");
        spec.adapter_config = own.value("adapter_config", json::object());
    } else if (!options.class_name.empty()) {
        HK_ASSIGN(const auto found, registry.find_class(options.class_name));
        entry = found.first;
        spec.head = found.second->head;
        spec.head_config = found.second->head_config.parse();
        take_objective(found.second->objective, found.second->objective_config.parse());
    } else if (classes.is_array() && !classes.empty() && classes[0].is_string()) {
        const auto found = registry.find_class(classes[0].get<std::string>());
        if (found.ok()) {
            entry = found->first;
            spec.head = found->second->head;
            spec.head_config = found->second->head_config.parse();
            take_objective(found->second->objective, found->second->objective_config.parse());
        }
    }
    if (entry.provided == nullptr) {
        if (folder.model_type().empty())
            return invalid_argument(fmt::format("{}: neither model_type nor architectures names the kind of model",
                                                (folder.path() / "config.json").string()));
        HK_ASSIGN(entry, registry.find_model_type(folder.model_type()));
    }
    spec.architecture = entry.provided->id;
    if (!options.head.empty() && options.head != spec.head) {
        spec.head = options.head;
        spec.head_config = json::object();
    }
    return {};
}

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

Result<std::vector<plugin::StoredTensor>> folder_tensors(const graph::Graph& graph, const Model& m,
                                                         const model::ModelFolder& folder,
                                                         const model::ModelFolder* base, const Log& log) {
    HK_ASSIGN(const std::string difference, difference_from_record(m, log));
    Result<std::vector<plugin::StoredTensor>> stored =
        base != nullptr ? find_with_base(graph, folder.weights(), base->weights(), m.composition->architecture().names)
                        : plugin::find_tensors(graph, folder.weights(), m.composition->architecture().names);
    if (!stored.ok() && !difference.empty())
        return Status(stored.code(), fmt::format("{}\n  {}", stored.message(), difference));
    if (stored.ok() && !difference.empty())
        log.warning(fmt::format("{}: {}\n  Every weight has its place, so it is used, as this graph computes",
                                m.path.string(), difference));
    return stored;
}

// They are stored under the graph's own names.
Result<std::vector<plugin::StoredTensor>> exported_tensors(const graph::Graph& graph, const ExportedFile& file) {
    model::NameRules rules;
    rules.ignorable = {"*"}; // another head's
    HK_ASSIGN(plugin::FoundTensors found, plugin::find_some_tensors(graph, file.tensors(), file.path().string(), rules,
                                                                    [](const std::string&) { return true; }));
    return std::move(found.tensors);
}

// What the weights of a model on a device are: of which files, as they are now, and which tensors of them.
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
        add_folder(m.path);
    if (base != nullptr) add_folder(base->path());
    if (problem) return io_error(fmt::format("{}: {}", m.path.string(), problem.message()));
    for (const program::ParameterEntry& entry : m.table)
        key += fmt::format("\n{} {} {}", entry.name, entry.shape.text(), entry.readable_in_16_bits);
    return key;
}

} // namespace

Result<fs::path> weights_folder(const fs::path& folder) {
    std::error_code problem;
    if (!fs::is_directory(folder, problem))
        return not_found(fmt::format("{}: is not a folder; a model's, a checkpoint's or a run's was expected{}",
                                     folder.string(),
                                     fs::is_regular_file(folder, problem)
                                         ? ": what is exported generates and embeds, and for more it takes the folder "
                                           "that it was exported from"
                                         : ""));
    if (fs::exists(folder / "config.json", problem)) return folder;
    HK_ASSIGN(const model::CheckpointSearch search, model::newest_complete(folder));
    if (!search.found)
        return not_found(fmt::format(
            "{}: has no config.json and no complete checkpoint: it is neither a model nor a run", folder.string()));
    return search.found->path;
}

Result<plugin::CompositionSpec> stored_spec(const plugin::Registry& registry, const model::ModelFolder& folder,
                                            const ModelOptions& options) {
    plugin::CompositionSpec spec;
    HK_ASSIGN(spec.config, parse_json_object(folder.config_json(), (folder.path() / "config.json").string()));
    spec.refuse_unknown_keys = false;
    HK_TRY(choose_parts(registry, folder, options, spec));
    return spec;
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

std::string with_prefix(const std::string& prefix, std::string text) {
    return text.empty() || text.starts_with(prefix) ? text : prefix + text;
}

Result<graph::Graph> describe_smallest(const Model& m) {
    const auto build = [&](const graph::Shape& ids) { // one stack leaves the second field unread
        return m.composition->build(
            HK_MODE_EVALUATE,
            std::vector<plugin::BatchField>{{"input_ids", graph::Kind::int32, ids},
                                            {"decoder_input_ids", graph::Kind::int32, graph::Shape{1, 1}}});
    };
    if (m.composition->can_collate()) { // its objective knows what a batch has
        constexpr int64_t kLength = 32;
        const json own = m.config.value("hekla", json::object());
        const int64_t trained = own.is_object() ? own.value("context_length", int64_t{0}) : 0;
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  m.composition->batch_fields(1, trained > 0 ? std::min(trained, kLength) : kLength));
        return m.composition->build(HK_MODE_EVALUATE, fields);
    }
    const json side = m.config.value("image_size", json()), channels = m.config.value("num_channels", json(3));
    if (side.is_number_integer() && channels.is_number_integer())
        return m.composition->build(HK_MODE_EVALUATE, std::vector<plugin::BatchField>{
                                                          {"pixel_values", graph::Kind::float_,
                                                           graph::Shape{1, channels.get<int64_t>(), side.get<int64_t>(),
                                                                        side.get<int64_t>()}}});
    Result<graph::Graph> rows = build(graph::Shape{1, 1});
    if (rows.ok()) return rows;
    Result<graph::Graph> choices = build(graph::Shape{1, 1, 1});
    return choices.ok() ? choices : rows;
}

Result<bool> encoder_decoder(const Model& m) {
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    return graph.find_leaf(graph::Op::input, "decoder_input_ids") != graph::kNone;
}

Result<PromptStyle> prompt_style(const plugin::Registry& registry, const Model& m) {
    if (m.exported != nullptr) return exported_prompt_style(*m.exported);
    PromptStyle style;
    if (m.tokenizer != nullptr) style.begin = m.tokenizer->frame().before;
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(m.path));
    HK_ASSIGN(const plugin::CompositionSpec trained, stored_spec(registry, folder, {.head = "lm", .objective = true}));
    if (trained.objective.empty()) return style;
    HK_ASSIGN(const auto composition, plugin::Composition::create(registry, trained, m.tokenizer.get()));
    if (!composition->can_collate()) return style;
    if (composition->example_kind() != HK_EXAMPLE_WINDOW && m.config.contains("hekla")) style.begin.clear();
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition->batch_fields(1, 32));
    style.both_sides = std::ranges::find(fields, "prefix_length", &plugin::BatchField::name) != fields.end();
    return style;
}

Result<std::vector<int32_t>> prompt_ids(const Model& m, const PromptStyle& style, const std::string& prompt) {
    HK_ASSIGN(std::vector<int32_t> ids, m.tokenizer->encode(with_prefix(trained_prefix(m.config, "prompt"), prompt)));
    const bool has_begin =
        ids.size() >= style.begin.size() && std::ranges::equal(std::span(ids).first(style.begin.size()), style.begin);
    if (!has_begin) ids.insert(ids.begin(), style.begin.begin(), style.begin.end()); // unless it was typed
    if (!ids.empty()) return ids;
    if (const std::optional<int32_t> bos = m.tokenizer->special(text::TokenRole::bos)) return std::vector{*bos};
    return invalid_argument(
        "the prompt is empty, and the tokenizer has no token that begins a text (bos_token): give at "
        "least one character");
}

Result<Model> describe_model(const plugin::Registry& registry, const fs::path& given, const ModelOptions& options,
                             const Log& log) {
    std::error_code ignored;
    if (fs::is_regular_file(given, ignored)) return describe_exported(registry, given, options);
    Model m;
    HK_ASSIGN(m.path, weights_folder(given));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(m.path));
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::load_tokenizer(m.path);
    if (!tokenizer.ok()) {
        if (options.tokenizer_required) return tokenizer.status();
        m.tokenizer_problem = tokenizer.status();
    } else {
        HK_ASSIGN(m.tokenizer, text::lying_in(options.memory, tokenizer.take()));
    }
    HK_ASSIGN(m.config, parse_json_object(folder.config_json(), (folder.path() / "config.json").string()));
    HK_ASSIGN(const plugin::CompositionSpec spec, stored_spec(registry, folder, options));
    HK_ASSIGN(m.composition, plugin::Composition::create(registry, spec, m.tokenizer.get(), log));
    return m;
}

Result<Model> open_model(const plugin::Registry& registry, const program::RuntimeSource& device, const fs::path& given,
                         const ModelOptions& asked, const Log& log) {
    ModelOptions options = asked;
    if (device.has_device()) options.memory = device.host_memory();
    HK_ASSIGN(Model m, describe_model(registry, given, options, log));
    HK_ASSIGN(const graph::Graph graph, describe_smallest(m));
    m.table = program::parameter_table(graph);
    std::optional<model::ModelFolder> folder, base; // tensors point into them
    std::vector<plugin::StoredTensor> tensors;
    program::StoreOptions store;
    store.weights = options.weights;
    if (m.exported != nullptr) {
        HK_ASSIGN(tensors, exported_tensors(graph, *m.exported));
    } else {
        HK_ASSIGN(folder, model::ModelFolder::open(m.path));
        HK_ASSIGN(base, open_base(m.config, m.path));
        HK_ASSIGN(tensors, folder_tensors(graph, m, *folder, base ? &*base : nullptr, log));
    }
    if (options.describe_only) return m;
    HK_ASSIGN(program::Runtime * runtime, device.get());
    m.runtime = runtime;
    std::optional<program::WeightsPool::Loading> loading;
    if (options.pool != nullptr && runtime != nullptr) {
        HK_ASSIGN(const std::string key, weights_key(m, base ? &*base : nullptr, options));
        HK_ASSIGN(program::WeightsPool::Found found, options.pool->find(key, options.may_wait, options.stop));
        store.shared = std::move(found.weights);
        store.share = found.loading.has_value();
        if (found.loading) loading.emplace(std::move(*found.loading));
    }
    if (m.exported != nullptr && runtime != nullptr) { HK_ASSIGN(store.kernels, exported_kernels(*m.exported)); }
    if (runtime != nullptr) { HK_ASSIGN(m.store, program::ParameterStore::create(*runtime, m.table, store)); }
    for (const plugin::StoredTensor& found : tensors) {
        if (store.shared != nullptr && !found.tensor.buffer) continue; // loaded by another
        if (m.exported != nullptr) HK_TRY(m.exported->check(*found.stored));
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

} // namespace hekla::infer
