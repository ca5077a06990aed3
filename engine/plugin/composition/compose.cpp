#include "plugin/composition/compose.hpp"

#include "base/path_text.hpp"
#include "base/shell_word.hpp"
#include "plugin/composition/combination.hpp"
#include "plugin/composition/neutral_keys.hpp"
#include "plugin/composition/part_config.hpp"
#include "plugin/composition/row_packing.hpp"
#include "plugin/composition/text_record.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/process/in_process_plugins.hpp"
#include "plugin/process/out_of_process_plugins.hpp"

#include "hekla/plugin/combiner.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

// A body with attention to the tokens to predict would learn to copy them.
Status check_causal(const Provided& architecture, const Provided& objective, const json& config) {
    if (objective.causal != "yes" || architecture.causal == "yes") return {};
    const auto key = config.find(architecture.causal);
    if (!architecture.causal.empty() && key != config.end() && *key == true) return {};
    return invalid_argument(fmt::format(
        "objective '{}' predicts each token from the earlier ones, but architecture '{}' uses the later ones too{}",
        objective.id, architecture.id,
        architecture.causal.empty() ? "" : fmt::format(": set {} = true", architecture.causal)));
}

// Returns the key with the number of adapters or tasks from which rows choose; null: there is none.
const char* key_of_rows(const Provided& adapter) {
    for (const char* key : {"slots", "n_tasks"})
        if (std::ranges::find(adapter.parameters, key) != adapter.parameters.end()) return key;
    return nullptr;
}

// Appends "--head-config '{...}'", the configuration given for a part, to a command.
void add_config(std::string& command, const char* option, const json& given) {
    if (given.empty()) return;
    command += fmt::format(" {} {}", option, shell_word(given.dump(-1, ' ', false, json::error_handler_t::replace)));
}

} // namespace

Result<std::unique_ptr<Composition>> Composition::resolve(const Registry& registry, const CompositionSpec& spec) {
    std::unique_ptr<Composition> c(new Composition());
    c->registry_ = &registry;
    c->head_name_ = spec.head;
    c->objective_name_ = spec.objective;
    c->head_config_ = spec.head_config;
    c->objective_config_ = spec.objective_config;
    c->given_ = spec.config;
    c->file_ = spec.file;
    c->notes_ = spec.notes;
    c->context_length_ = spec.context_length;
    c->prefix_ = spec.prefix;
    c->text_rules_ = spec.text_rules;
    c->recompute_ = spec.recompute;
    c->adapter_rows_ = spec.adapter_rows > 0;
    c->packs_rows_ = spec.packs_rows;
    c->refuse_unknown_keys_ = spec.refuse_unknown_keys;

    if (spec.teacher != nullptr) {
        Result<std::unique_ptr<Composition>> teacher = resolve(registry, *spec.teacher);
        if (!teacher.ok()) return teacher.status().with_context("the teacher");
        c->teacher_ = teacher.take();
        c->spec_.teacher = std::make_shared<const PartsSpec>(c->teacher_->spec_);
    }
    if (spec.value != nullptr) {
        Result<std::unique_ptr<Composition>> value = resolve(registry, *spec.value);
        if (!value.ok()) return value.status().with_context("the value function");
        c->value_ = value.take();
        c->spec_.value = std::make_shared<const PartsSpec>(c->value_->spec_);
    }

    c->architecture_.what = fmt::format("architecture '{}'", spec.architecture);
    HK_ASSIGN(c->architecture_.entry, registry.find(HK_ARCHITECTURE_INTERFACE, spec.architecture));
    const Provided& architecture = *c->architecture_.entry.provided;
    c->config_ = with_defaults(architecture, spec.config);
    c->architecture_.given = spec.config;
    c->architecture_.values = c->config_;
    HK_TRY(check_ranges(architecture, c->config_, c->architecture_.what));
    c->spec_.architecture = PartSpec{spec.architecture, c->config_};

    HK_TRY(resolve_adapters(registry, spec, *c));

    HK_TRY(resolve_heads(registry, spec, *c));
    HK_TRY(resolve_objective(registry, spec, *c));
    if (spec.packs_rows) HK_TRY(c->check_packing());
    return c;
}

// Refuses parts for which a row is one example.
Status Composition::check_packing() const {
    const auto refuse = [](const std::string& why) {
        return unsupported(
            fmt::format("data.packing = \"rows\": {}; set data.packing = \"none\" (train.group_by_length = true saves "
                        "padding without it)",
                        why));
    };
    if (objective_.entry.provided == nullptr || !objective_.entry.provided->segments)
        return refuse(fmt::format("{} needs a row for each example; expected chat, completion, dpo, orpo, or another "
                                  "whose manifest has \"segments\": true",
                                  objective_.what));
    for (const Composition* const network : {this, static_cast<const Composition*>(teacher_.get())})
        if (network != nullptr && !network->architecture_.entry.provided->segments)
            return refuse(fmt::format(
                "{}{} cannot separate the examples of a row: its tokens would depend on those of others, or their "
                "learned positions would not restart; expected one whose manifest has \"segments\": true",
                network == this ? "" : "the teacher's ", network->architecture_.what));
    if (adapter_rows_)
        return refuse("each row has its own adapter (adapter.names), so that a row cannot hold examples of several");
    if (!invocations_.empty())
        return refuse(
            fmt::format("{} acts from its {} on to the end of a row", adapters_.front().what, kInvocationTokens));
    return {};
}

// Keys of a head or objective may also be in the model's own configuration, e.g. num_labels, problem_type.
json Composition::completed(const Provided& provided, const json& given) const {
    json values = with_defaults(provided, given);
    const auto& types = architecture_.entry.provided->model_types;
    for (const std::string_view key : provided.parameters) {
        if (given.contains(key)) continue;
        const auto own = config_.find(key);
        if (own != config_.end() && !own->is_null()) values[key] = *own;
        if (key == "model_type" && !values.contains(key))
            values[key] = types.empty() ? spec_.architecture->id : std::string(types.front());
    }
    return values;
}

Status Composition::resolve_heads(const Registry& registry, const CompositionSpec& spec, Composition& c) {
    for (const std::string_view one_name : head_names(spec.head)) {
        const std::string name(one_name);
        Part& head = c.heads_.emplace_back();
        head.what = fmt::format("head '{}'", name);
        PartsSpec::Head one{{name, json::object()}};
        // A native head needs no plugin, and build() reports whether it exists. A head plugin is used if there is no
        // native head, or if the request needs something that only the plugin supports; it reads the outputs of either.
        if (const Result<Registry::Entry> entry = registry.find(HK_HEAD_INTERFACE, name); entry.ok()) {
            head.entry = entry.value();
            head.given = spec.head_config;
            head.values = c.completed(*head.entry.provided, spec.head_config);
            HK_TRY(check_ranges(*head.entry.provided, head.values, head.what));
            const bool asked_for = std::ranges::any_of(head.entry.provided->parameters, [&](std::string_view key) {
                return key != "num_labels" && spec.head_config.contains(key); // num_labels is set from the data
            });
            one = {{name, head.values}, true, asked_for};
        }
        c.spec_.heads.push_back(std::move(one));
    }
    return {};
}

Status Composition::resolve_objective(const Registry& registry, const CompositionSpec& spec, Composition& c) {
    if (spec.objective.empty()) return {};
    c.objective_.what = fmt::format("objective '{}'", spec.objective);
    HK_ASSIGN(c.objective_.entry, registry.find(HK_OBJECTIVE_INTERFACE, spec.objective));
    const Provided& objective = *c.objective_.entry.provided;
    HK_TRY(check_causal(*c.architecture_.entry.provided, objective, c.config_));
    if (c.value_ != nullptr)
        HK_TRY(check_causal(*c.value_->architecture_.entry.provided, objective, c.value_->config_)
                   .with_context("the value function"));
    c.objective_.given = spec.objective_config;
    c.objective_.values = c.completed(objective, spec.objective_config);
    HK_TRY(check_ranges(objective, c.objective_.values, c.objective_.what));
    c.spec_.objective = PartSpec{spec.objective, c.objective_.values};
    return {};
}

Status Composition::resolve_adapters(const Registry& registry, const CompositionSpec& spec, Composition& c) {
    c.combination_config_ = spec.combination_config;
    const auto complete = [](Part& part) -> Status {
        part.values = with_defaults(*part.entry.provided, part.given);
        return check_ranges(*part.entry.provided, part.values, part.what);
    };
    std::vector<std::string> names;
    for (const AdapterSpec& one : spec.adapters) {
        Part& part = c.adapters_.emplace_back();
        part.what = what_of(one);
        HK_ASSIGN(part.entry, registry.find(HK_ADAPTER_INTERFACE, one.part.id));
        part.given = one.part.config;
        if (spec.adapter_rows) {
            const char* const key = key_of_rows(*part.entry.provided);
            if (key == nullptr)
                return unsupported(fmt::format("{} cannot be another one for each row of a batch: it does not have the "
                                               "key `slots` or `n_tasks`, as 'lora' and 'poly' do",
                                               part.what));
            part.given[key] = spec.adapter_rows;
        }
        HK_TRY(complete(part));
        c.spec_.adapters.push_back({one.name, {one.part.id, part.values}, one.trained});
        HK_ASSIGN(Invocation invocation, invocation_of(c.spec_.adapters.back()));
        if (!invocation.tokens.empty()) c.invocations_.push_back(std::move(invocation));
        if (spec.adapters.size() > 1 || !one.name.empty()) HK_TRY(check_adapter_name(one.name));
        if (std::ranges::find(names, one.name) != names.end())
            return invalid_argument(fmt::format("two adapters have the name '{}'", one.name));
        names.push_back(one.name);
    }
    c.spec_.combination = spec.combination;
    if (spec.combination.empty()) {
        if (names.size() < 2) return {};
        return invalid_argument(fmt::format("the adapters {} need a combination, such as \"average({})\"",
                                            fmt::join(names, ", "), fmt::join(names, ", ")));
    }
    Result<Combination> parsed = parse_combination(spec.combination, names);
    if (!parsed.ok()) return parsed.status().with_context("the combination");
    const std::vector<std::string> ids = parsed->combiners();
    std::set<std::string, std::less<>> known;
    for (const std::string& id : ids) {
        Part& part = c.combiners_.emplace_back();
        part.what = fmt::format("combiner '{}'", id);
        HK_ASSIGN(part.entry, registry.find(HK_COMBINER_INTERFACE, id));
        const auto& keys = part.entry.provided->parameters;
        // Each of several combiners gets the keys that it knows.
        for (const auto& [key, value] : spec.combination_config.items())
            if (ids.size() == 1 || std::ranges::find(keys, key) != keys.end()) {
                part.given[key] = value;
                known.insert(key);
            }
        HK_TRY(complete(part));
        c.spec_.combiners.push_back({id, part.values});
    }
    for (const auto& [key, value] : spec.combination_config.items())
        if (!known.contains(key))
            return invalid_argument(
                ids.empty()
                    ? fmt::format("the combination '{}' has no combiner with the key '{}'", spec.combination, key)
                    : fmt::format("none of the combiners {} knows the key '{}'", fmt::join(ids, ", "), key));
    return {};
}

std::vector<std::string_view> head_names(std::string_view heads) {
    std::vector<std::string_view> names;
    while (!heads.empty()) {
        const std::size_t plus = heads.find('+');
        names.push_back(heads.substr(0, plus));
        heads.remove_prefix(plus == std::string_view::npos ? heads.size() : plus + 1);
    }
    return names;
}

Result<std::unique_ptr<Composition>> Composition::create(const Registry& registry, const CompositionSpec& spec,
                                                         const text::Tokenizer* tokenizer, const Log& log) {
    HK_ASSIGN(std::unique_ptr<Composition> c, resolve(registry, spec));
    c->isolated_ = spec.isolate || registry.processes().isolate;
    HK_TRY(c->start(tokenizer));
    HK_TRY(c->check_keys(c->parts_->read(), log));
    return c;
}

std::unique_ptr<Composition> Composition::restore(const Registry& registry, const std::string& architecture,
                                                  const std::string& head, json config,
                                                  std::unique_ptr<PluginSet> parts, const text::Tokenizer* tokenizer) {
    std::unique_ptr<Composition> c(new Composition());
    c->registry_ = &registry;
    c->text_rules_ = text_rules_of(config);
    c->restored_ = std::make_unique<Provided>();
    c->restored_->interface_id = HK_ARCHITECTURE_INTERFACE;
    c->architecture_.what = fmt::format("architecture '{}'", architecture);
    c->architecture_.entry.provided = c->restored_.get();
    c->head_name_ = head;
    c->config_ = std::move(config);
    c->spec_.architecture = PartSpec{architecture, c->config_};
    c->restored_->id = c->spec_.architecture->id;
    c->parts_ = std::move(parts);
    if (tokenizer != nullptr) {
        c->view_ = view_of(*tokenizer, c->text_rules());
        c->tokenizer_.view = c->view_.get();
    }
    return c;
}

Status Composition::start(const text::Tokenizer* tokenizer) {
    if (tokenizer != nullptr) {
        view_ = view_of(*tokenizer, text_rules());
        tokenizer_.view = view_.get();
    }
    std::vector<const Composition*> all{this};
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Composition* const c = all[i];
        for (const auto* other : {&c->teacher_, &c->value_})
            if (*other != nullptr) all.push_back(other->get());
        const auto look = [&](const Part& part) -> Status {
            if (part.entry.manifest == nullptr) return {};
            HK_TRY(registry_->check_enabled(*part.entry.manifest));
            describes_apart_ = describes_apart_ || goes_apart(*registry_, *part.entry.manifest);
            return {};
        };
        HK_TRY(look(c->architecture_));
        for (const std::vector<Part>* parts : {&c->adapters_, &c->combiners_, &c->heads_})
            for (const Part& part : *parts) HK_TRY(look(part));
        HK_TRY(look(c->objective_));
    }
    HK_ASSIGN(parts_, described(nullptr, [&] {
                  return describes_apart_ ? make_out_of_process_plugins(*registry_, spec_, this->tokenizer(),
                                                                        WorkerPurpose::describing)
                                          : make_in_process_plugins(*registry_, spec_, this->tokenizer());
              }));
    if (!spec_.adapters.empty()) {
        HK_ASSIGN(virtual_tokens_, described(nullptr, [&] { return parts_->virtual_tokens(); }));
    }
    if (packs_rows_ && virtual_tokens_.count > 0)
        return unsupported("data.packing = \"rows\": an adapter with virtual tokens (prompts and prefixes) puts them "
                           "before a row, and not before each of its examples; set data.packing = \"none\"");
    if (!spec_.objective) return {};
    HK_ASSIGN(can_collate_, described(nullptr, [&] { return parts_->can_collate(); }));
    HK_ASSIGN(example_kind_, described(nullptr, [&] { return parts_->example_kind(); }));
    return {};
}

Status Composition::check_keys(const ReadKeys& read, const Log& log) const {
    if (teacher_ != nullptr && read.teacher != nullptr)
        HK_TRY(teacher_->check_keys(*read.teacher, log).with_context("the teacher"));
    if (value_ != nullptr && read.value != nullptr)
        HK_TRY(value_->check_keys(*read.value, log).with_context("the value function"));
    const auto check = [&](const Part& part, const std::set<std::string>& keys, bool refuse) {
        if (part.entry.provided == nullptr) return Status();
        return unknown_keys(*part.entry.provided, part.given, part.values, keys, refuse, log, part.what);
    };
    const auto check_all = [&](const std::vector<Part>& parts, const std::vector<std::set<std::string>>& keys,
                               bool refuse) -> Status {
        for (std::size_t i = 0; i < parts.size() && i < keys.size(); ++i) HK_TRY(check(parts[i], keys[i], refuse));
        return {};
    };
    if (architecture_.entry.provided != nullptr)
        HK_TRY(check_neutral_keys(*architecture_.entry.provided, architecture_.given, architecture_.values,
                                  read.architecture, architecture_.what, file_));
    HK_TRY(check(architecture_, read.architecture, refuse_unknown_keys_));
    // Only Hekla's own files contain adapters.
    HK_TRY(check_all(adapters_, read.adapters, true));
    HK_TRY(check_all(combiners_, read.combiners, true));
    HK_TRY(check_all(heads_, read.heads, refuse_unknown_keys_));
    return check(objective_, read.objective, refuse_unknown_keys_);
}

Composition::~Composition() = default;

template<class F>
auto Composition::described(const BuildRequest* request, F&& f) const -> decltype(f()) {
    const std::size_t before = registry_->failures().first;
    auto result = f();
    const auto [count, manifest] = registry_->failures();
    if (result.ok() || count == before || manifest == nullptr) return result;
    const std::string again = command(request);
    return Status(result.code(), fmt::format("{}; to see it again: {}`hekla plugin check {}`", result.message(),
                                             again.empty() ? "" : fmt::format("`{}`; to look for why: ", again),
                                             shell_word(std::string(manifest->library))));
}

// Returns the command that describes the same composition; empty if it would be too long to read.
std::string Composition::command(const BuildRequest* request) const {
    std::string line = "hekla";
    std::set<std::string> folders;
    std::vector<const Part*> parts{&architecture_, heads_.empty() ? &objective_ : &heads_.front(), &objective_};
    for (const Part& adapter : adapters_) parts.push_back(&adapter);
    for (const Part* part : parts)
        if (part->entry.manifest != nullptr && !part->entry.manifest->built_in)
            folders.insert(path_of(part->entry.manifest->library).parent_path().string());
    for (const std::string& folder : folders) line += fmt::format(" --plugin-path {}", shell_word(folder));
    line += fmt::format(" describe {}", shell_word(spec_.architecture->id));
    add_config(line, "--config", given_);
    if (adapters_.size() == 1) {
        line += fmt::format(" --adapter {}", shell_word(spec_.adapters[0].part.id));
        add_config(line, "--adapter-config", adapters_[0].given);
    }
    if (!head_name_.empty()) line += fmt::format(" --head {}", shell_word(head_name_));
    add_config(line, "--head-config", head_config_);
    if (!objective_name_.empty()) line += fmt::format(" --objective {}", shell_word(objective_name_));
    add_config(line, "--objective-config", objective_config_);
    if (request != nullptr) {
        for (const BatchField& field : request->fields)
            line += fmt::format(" --field {}:{}:{}", shell_word(field.name), graph::kind_name(field.kind),
                                fmt::join(field.shape.vector(), "x"));
        constexpr const char* kModes[] = {"train", "evaluate", "encode", "decode"};
        if (request->mode >= 0 && request->mode < 4) line += fmt::format(" --mode {}", kModes[request->mode]);
    }
    constexpr std::size_t kLongest = 2000;
    return teacher_ != nullptr || value_ != nullptr || adapters_.size() > 1 || line.size() > kLongest ? std::string()
                                                                                                      : line;
}

Result<PluginSet*> Composition::working() const {
    if (!describes_apart_ && !isolated_) return parts_.get();
    const std::scoped_lock hold(lock_);
    if (working_ == nullptr) {
        // Without a body, and with only the head that decodes.
        PartsSpec needed;
        needed.objective = spec_.objective;
        if (!spec_.heads.empty()) needed.heads.push_back(spec_.heads.front());
        HK_ASSIGN(working_, isolated_
                                ? make_out_of_process_plugins(*registry_, needed, tokenizer(), WorkerPurpose::working)
                                : make_in_process_plugins(*registry_, needed, tokenizer()));
    }
    return working_.get();
}

Result<graph::Graph> Composition::build(int32_t mode, std::span<const BatchField> fields,
                                        std::span<const std::string> ports, bool all_ports, int64_t calls,
                                        int64_t cache_capacity) const {
    BuildRequest request = request_of(mode, fields);
    request.ports.assign(ports.begin(), ports.end());
    request.all_ports = all_ports;
    request.calls = calls;
    request.cache_capacity = cache_capacity;
    HK_ASSIGN(Described made, described(&request, [&] { return parts_->build(request); }));
    if (!recompute_ || mode != HK_MODE_TRAIN)
        for (graph::Node& node : made.graph.nodes) node.region = 0;
    return std::move(made.graph);
}

BuildRequest Composition::request_of(int32_t mode, std::span<const BatchField> fields) const {
    BuildRequest request;
    request.mode = mode;
    request.fields.assign(fields.begin(), fields.end());
    request.body_frozen = body_frozen_;
    return request;
}

Status Composition::check(int32_t mode, std::span<const BatchField> fields) const {
    const BuildRequest request = request_of(mode, fields);
    return described(&request, [&] { return parts_->check(request); });
}

Result<Described> Composition::describe(const BuildRequest& request) const {
    return described(&request, [&] { return parts_->build(request); });
}

Result<std::set<std::string>> Composition::body_parameters(std::span<const BatchField> fields) const {
    BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields.assign(fields.begin(), fields.end());
    return described(&request, [&] { return parts_->parameters(request.fields); });
}

Result<std::vector<BatchField>> Composition::batch_fields(int64_t batch, int64_t length) const {
    if (!spec_.objective) return failed_precondition("the model has no objective");
    const std::scoped_lock hold(lock_);
    if (const auto known = fields_.find({batch, length}); known != fields_.end()) return known->second;
    HK_ASSIGN(std::vector<BatchField> fields, described(nullptr, [&] { return parts_->batch_fields(batch, length); }));
    if (adapter_rows_) fields.push_back({kAdapterRows, graph::Kind::int32, graph::Shape{batch}});
    return fields_.emplace(std::pair(batch, length), std::move(fields)).first->second;
}

Result<std::vector<BatchField>> Composition::training_fields(int64_t batch, int64_t length) const {
    HK_ASSIGN(std::vector<BatchField> fields, batch_fields(batch, length));
    if (!packs_rows_) return fields;
    return packed_fields(fields, batch, length, objective_.what);
}

Result<int64_t> Composition::tokens_per_example(int64_t length) const {
    if (!spec_.objective) return failed_precondition("the model has no objective");
    return described(nullptr, [&] { return parts_->tokens_per_example(length); });
}

Result<std::vector<ColumnNeed>> Composition::columns() const {
    if (!spec_.objective) return failed_precondition("the model has no objective");
    return described(nullptr, [&] { return parts_->columns(); });
}

Result<std::vector<ColumnNeed>> objective_columns(const Registry& registry, const std::string& objective,
                                                  const json& given) {
    const std::string what = fmt::format("objective '{}'", objective);
    HK_ASSIGN(const Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, objective));
    HK_TRY(registry.check_enabled(*entry.manifest));
    PartsSpec spec;
    spec.objective = PartSpec{objective, with_defaults(*entry.provided, given)};
    HK_TRY(check_ranges(*entry.provided, spec.objective->config, what));
    const std::size_t before = registry.failures().first;
    const auto columns = [&]() -> Result<std::vector<ColumnNeed>> {
        HK_ASSIGN(const std::unique_ptr<PluginSet> parts,
                  goes_apart(registry, *entry.manifest)
                      ? make_out_of_process_plugins(registry, spec, nullptr, WorkerPurpose::describing)
                      : make_in_process_plugins(registry, spec, nullptr));
        return parts->columns();
    };
    Result<std::vector<ColumnNeed>> needs = columns();
    if (needs.ok() || registry.failures().first == before) return needs;
    return Status(needs.code(), fmt::format("{}; to see it again: `hekla plugin check {}`", needs.message(),
                                            shell_word(std::string(entry.manifest->library))));
}

int64_t Composition::example_length(const hk_example& example) const {
    if (!spec_.objective) return 0;
    const Result<PluginSet*> parts = working();
    const Result<int64_t> length = parts.ok() ? parts.value()->example_length(example) : parts.status();
    return length.ok() ? length.value() : 0; // collate reports the error
}

Status Composition::collate(const hk_batch& batch, std::span<hk_field> fields) const {
    if (!can_collate())
        return unsupported(
            fmt::format("{} cannot make batches from text: it only measures given ones", objective_.what));
    HK_ASSIGN(PluginSet * parts, working());
    return parts->collate(batch, fields);
}

Result<std::vector<std::string>> Composition::decode_ports() const {
    return described(nullptr, [&] { return parts_->decode_ports(); });
}

Result<std::vector<std::string>> Composition::decode(const hk_decode_input& input) const {
    if (heads_.empty() || heads_.front().entry.manifest == nullptr)
        return unsupported(heads_.empty() ? std::string("the model has no head, so its outputs cannot be decoded")
                                          : fmt::format("{} does not decode its outputs", heads_.front().what));
    HK_ASSIGN(PluginSet * parts, working());
    return parts->decode(input);
}

Result<nlohmann::ordered_json> Composition::adapter_config() const {
    return described(nullptr, [&] { return parts_->write_adapter_config(); });
}

Result<std::string> Composition::write_config() const {
    HK_ASSIGN(nlohmann::ordered_json values, described(nullptr, [&] { return parts_->write_config(); }));
    // Keys that were given and that the architecture did not write are kept: end tokens, label names, keys without an
    // effect here.
    for (const nlohmann::json* more : {&given_, &notes_})
        for (const auto& [key, value] : more->items())
            if (!values.contains(key)) values[key] = value;
    // The reference picks its class by this key. The class of the initial model had another head, or none.
    if (spec_.objective) values.erase("architectures");
    const Provided& architecture = *architecture_.entry.provided;
    const ReferenceClass* fits = nullptr;
    for (const ReferenceClass& c : architecture.classes) {
        if (std::ranges::any_of(spec_.heads, &PartsSpec::Head::asked_for)) break; // this class has its own head
        if (c.head != head_name_) continue;
        const bool same = !spec_.objective || c.objective == objective_name_;
        // A language model stays one, whatever it is trained on: conversations, preferences, rewards.
        if (same || (fits == nullptr && c.head == "lm")) fits = &c;
        if (same) break;
    }
    if (fits != nullptr) values["architectures"] = nlohmann::ordered_json::array({fits->name});
    if (spec_.objective) // a run writes float32, whatever the folder had that it began with
        for (const char* key : {"dtype", "torch_dtype"})
            if (values.contains(key)) values[key] = "float32";
    if (spec_.objective)
        values["hekla"] = {{"architecture", architecture.id},       {"head", head_name_},
                           {"head_config", head_config_},           {"objective", objective_name_},
                           {"objective_config", objective_config_}, {"context_length", context_length_}};
    if (spec_.objective) record_text_rules(text_rules_, values["hekla"]);
    if (spec_.objective && !prefix_.empty()) values["hekla"]["prefix"] = prefix_;
    if (spec_.objective && adapters_.size() == 1 && spec_.adapters[0].name.empty()) {
        values["hekla"]["adapter"] = spec_.adapters[0].part.id;
        values["hekla"]["adapter_config"] = adapters_[0].given;
    } else if (spec_.objective && !adapters_.empty()) {
        for (std::size_t i = 0; i < adapters_.size(); ++i)
            values["hekla"]["adapters"].push_back(
                {{"name", spec_.adapters[i].name}, {"id", spec_.adapters[i].part.id}, {"config", adapters_[i].given}});
        values["hekla"]["combination"] = spec_.combination;
        values["hekla"]["combination_config"] = combination_config_;
    }
    return values.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace hekla::plugin
