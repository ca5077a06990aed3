#include "plugin/compose.hpp"

#include "base/nearest_name.hpp"
#include "model/names.hpp"
#include "plugin/host_error.hpp"
#include "plugin/host_struct.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

json with_defaults(const Provided& provided, const json& given) {
    json values = provided.defaults;
    for (const auto& [key, value] : given.items())
        if (!value.is_null() || !values.contains(key)) values[key] = value;
    return values;
}

// What the manifest says of numbers; what is null or of another type is left to the plugin's own reading.
Status check_ranges(const Provided& provided, const json& values, const std::string& what) {
    for (const auto& [key, range] : provided.ranges) {
        const auto found = values.find(key);
        if (found == values.end() || !found->is_number()) continue;
        const auto value = found->get<double>();
        if ((!range.minimum || value >= *range.minimum) && (!range.maximum || value <= *range.maximum)) continue;
        std::string expected = range.minimum ? fmt::format("{} or more", *range.minimum) : "";
        if (range.maximum)
            expected = range.minimum ? fmt::format("from {} to {}", *range.minimum, *range.maximum)
                                     : fmt::format("{} or less", *range.maximum);
        return invalid_argument(fmt::format("{}: {} is {}, expected {}", what, key, found->dump(), expected));
    }
    return {};
}

Status unknown_keys(const Provided& provided, const json& given, const hk_config& config, bool refuse, const Log& log,
                    const std::string& what) {
    const std::vector<std::string> unread = unread_keys(config);
    for (const auto& [key, value] : given.items()) {
        if (std::ranges::find(unread, key) == unread.end()) continue;
        if (std::ranges::find(provided.parameters, key) != provided.parameters.end()) continue;
        if (std::ranges::any_of(provided.ignored,
                                [&, &name = key](const std::string& p) { return model::matches(p, name); }))
            continue;
        const std::string_view near = nearest_name(key, std::span(provided.parameters));
        const std::string message = fmt::format("{} does not know the key '{}'{}", what, key,
                                                near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
        if (refuse) return invalid_argument(message);
        log.warning(message);
    }
    return {};
}

// A body that sees what it is to predict would learn to copy it.
Status check_causal(const Provided& architecture, const Provided& objective, const json& config) {
    if (objective.causal != "yes" || architecture.causal == "yes") return {};
    const auto key = config.find(architecture.causal);
    if (!architecture.causal.empty() && key != config.end() && *key == true) return {};
    return invalid_argument(fmt::format(
        "objective '{}' predicts each token from those before it, but architecture '{}' sees what stands behind them{}",
        objective.id, architecture.id,
        architecture.causal.empty() ? "" : fmt::format(": set {} = true", architecture.causal)));
}

graph::Kind kind_from(int32_t kind) { return static_cast<graph::Kind>(kind); }

// Runs one plugin's build through a view of its own, and closes what it left open as an error.
template<class F>
Result<int32_t> build_part(Joint& joint, const std::string& what, F&& build) {
    hk_builder view(joint, next_tag());
    hk_error error;
    const int32_t code = guarded(error, [&] { return build(&view, &error); });
    if (const Status& wrong = joint.builder.status(); !wrong.ok()) {
        // What the plugin adds is where in its source it went wrong.
        const std::string place = code != HK_OK && !error.message.empty() ? fmt::format(" ({})", error.message) : "";
        return Status(wrong.code(), fmt::format("{}: {}{}", what, wrong.message(), place));
    }
    if (code == HK_OK && (view.open_scopes != 0 || view.open_region))
        return failed_precondition(fmt::format("{}: a scope or region is still open after build", what));
    if (code != HK_OK && code != HK_NOT_FOUND) return status_of(code, error, what);
    if (code == HK_NOT_FOUND && !error.message.empty()) return status_of(code, error, what);
    return code;
}

// What create() said, and whether there is an instance.
template<class F>
Status created(const std::string& what, void*& self, F&& create) {
    hk_error error;
    void* made = nullptr; // what a failed call left here is no instance
    HK_TRY(status_of(guarded(error, [&] { return create(&made, &error); }), error, what));
    if (made == nullptr) return corrupt(fmt::format("{}: create() said HK_OK and gave no instance", what));
    self = made;
    return {};
}

} // namespace

Result<std::unique_ptr<Composition>> Composition::create(const Registry& registry, const CompositionSpec& spec,
                                                         const text::Tokenizer* tokenizer, const Log& log) {
    std::unique_ptr<Composition> c(new Composition());
    c->registry_ = &registry;
    c->tokenizer_.tokenizer = tokenizer;
    c->architecture_id_ = fmt::format("architecture '{}'", spec.architecture);
    c->objective_id_ = fmt::format("objective '{}'", spec.objective);
    c->head_name_ = spec.head;
    c->objective_name_ = spec.objective;
    c->head_config_ = spec.head_config;
    c->objective_config_ = spec.objective_config;
    c->given_ = spec.config;
    c->notes_ = spec.notes;
    c->context_length_ = spec.context_length;
    c->recompute_ = spec.recompute;

    if (spec.teacher != nullptr) {
        Result<std::unique_ptr<Composition>> teacher = create(registry, *spec.teacher, tokenizer, log);
        if (!teacher.ok()) return teacher.status().with_context("the teacher");
        c->teacher_ = teacher.take();
    }

    HK_ASSIGN(c->architecture_entry_, registry.find(HK_ARCHITECTURE_INTERFACE, spec.architecture));
    HK_ASSIGN(const void* architecture, registry.load(c->architecture_entry_));
    c->architecture_ = static_cast<const hk_architecture*>(architecture);
    c->config_.values = with_defaults(*c->architecture_entry_.provided, spec.config);
    HK_TRY(check_ranges(*c->architecture_entry_.provided, c->config_.values, c->architecture_id_));
    HK_TRY(created(c->architecture_id_, c->architecture_self_,
                   [&](void** self, hk_error* e) { return c->architecture_->create(&c->config_, self, e); }));
    HK_TRY(unknown_keys(*c->architecture_entry_.provided, spec.config, c->config_, spec.refuse_unknown_keys, log,
                        c->architecture_id_));

    // What the model's own configuration says of a head or an objective counts too, eg: num_labels, problem_type.
    const auto completed = [&](const Provided& provided, const json& given) {
        json values = with_defaults(provided, given);
        const auto& types = c->architecture_entry_.provided->model_types;
        for (const std::string& key : provided.parameters) {
            if (given.contains(key)) continue;
            const auto own = c->config_.values.find(key);
            if (own != c->config_.values.end() && !own->is_null()) values[key] = *own;
            if (key == "model_type" && !values.contains(key))
                values[key] = types.empty() ? spec.architecture : types.front();
        }
        return values;
    };
    for (std::string_view rest = spec.head; !rest.empty();) {
        const std::size_t plus = rest.find('+');
        Head head;
        head.name = rest.substr(0, plus);
        head.what = fmt::format("head '{}'", head.name);
        rest.remove_prefix(plus == std::string_view::npos ? rest.size() : plus + 1);
        // A native head needs no plugin; build() finds out. A head plugin is used where there is none, or where
        // something is asked for that it alone knows, and reads the outputs of either.
        if (const Result<Registry::Entry> entry = registry.find(HK_HEAD_INTERFACE, head.name); entry.ok()) {
            HK_ASSIGN(const void* table, registry.load(entry.value()));
            head.table = static_cast<const hk_head*>(table);
            head.asked_for = std::ranges::any_of(entry.value().provided->parameters, [&](const std::string& key) {
                return key != "num_labels" && spec.head_config.contains(key); // which comes from the data
            });
            hk_config config;
            config.values = completed(*entry.value().provided, spec.head_config);
            HK_TRY(check_ranges(*entry.value().provided, config.values, head.what));
            HK_TRY(created(head.what, head.self,
                           [&](void** self, hk_error* e) { return head.table->create(&config, self, e); }));
            c->heads_.push_back(head);
            HK_TRY(unknown_keys(*entry.value().provided, spec.head_config, config, spec.refuse_unknown_keys, log,
                                head.what));
        } else {
            c->heads_.push_back(head);
        }
    }
    if (!spec.objective.empty()) {
        HK_ASSIGN(const Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, spec.objective));
        HK_TRY(check_causal(*c->architecture_entry_.provided, *entry.provided, c->config_.values));
        HK_ASSIGN(const void* objective, registry.load(entry));
        c->objective_ = static_cast<const hk_objective*>(objective);
        hk_config config;
        config.values = completed(*entry.provided, spec.objective_config);
        HK_TRY(check_ranges(*entry.provided, config.values, c->objective_id_));
        const hk_tokenizer* given = tokenizer != nullptr ? &c->tokenizer_ : nullptr;
        HK_TRY(created(c->objective_id_, c->objective_self_,
                       [&](void** self, hk_error* e) { return c->objective_->create(&config, given, self, e); }));
        HK_TRY(unknown_keys(*entry.provided, spec.objective_config, config, spec.refuse_unknown_keys, log,
                            c->objective_id_));
    }
    return c;
}

Composition::~Composition() {
    if (objective_self_ != nullptr) objective_->destroy(objective_self_);
    for (const Head& head : heads_)
        if (head.self != nullptr) head.table->destroy(head.self);
    if (architecture_self_ != nullptr) architecture_->destroy(architecture_self_);
}

OwnOperations Composition::own_operations() const {
    return OwnOperations([this](const std::string& id) -> Result<const hk_operation*> {
        HK_ASSIGN(const Registry::Entry entry, registry_->find(HK_OPERATION_INTERFACE, id));
        HK_ASSIGN(const void* table, registry_->load(entry));
        return static_cast<const hk_operation*>(table);
    });
}

Status Composition::describe(Joint& joint, int32_t body_mode, int32_t mode) const {
    joint.mode = body_mode;
    HK_ASSIGN(const int32_t body, build_part(joint, architecture_id_, [&](hk_builder* b, hk_error* e) {
                  return architecture_->build(architecture_self_, b, e);
              }));
    if (body != HK_OK) return not_found(fmt::format("{}: build failed without a reason", architecture_id_));
    joint.mode = mode;
    for (const Head& head : heads_) {
        if (!head.asked_for) {
            HK_ASSIGN(
                const int32_t native, build_part(joint, head.what, [&](hk_builder* b, hk_error* e) {
                    return architecture_->build_head(architecture_self_, b, {head.name.data(), head.name.size()}, e);
                }));
            if (native != HK_NOT_FOUND) continue;
        }
        if (head.table == nullptr)
            return not_found(
                fmt::format("{} has no head '{}' of its own and no plugin provides one", architecture_id_, head.name));
        HK_ASSIGN(const int32_t generic, build_part(joint, head.what, [&](hk_builder* b, hk_error* e) {
                      return head.table->build(head.self, b, e);
                  }));
        if (generic != HK_OK) return not_found(fmt::format("{}: build failed without a reason", head.what));
    }
    return {};
}

Result<graph::Graph> Composition::build(int32_t mode, std::span<const BatchField> fields,
                                        std::span<const std::string> ports, bool all_ports, int64_t calls) const {
    OwnOperations own = own_operations();
    Joint joint;
    joint.own = &own;
    joint.calls_left = calls;
    joint.fields.assign(fields.begin(), fields.end());
    const bool learns = objective_ != nullptr && (mode == HK_MODE_TRAIN || mode == HK_MODE_EVALUATE);
    if (teacher_ != nullptr && learns) {
        joint.prefix = kTeacher;
        joint.builder.scope_begin("teacher");
        HK_TRY(teacher_->describe(joint, HK_MODE_EVALUATE, HK_MODE_EVALUATE).with_context("the teacher"));
        joint.builder.scope_end();
        joint.prefix.clear();
    }
    HK_TRY(describe(joint, body_frozen_ && mode == HK_MODE_TRAIN ? HK_MODE_EVALUATE : mode, mode));
    if (learns) {
        HK_ASSIGN(const int32_t built, build_part(joint, objective_id_, [&](hk_builder* b, hk_error* e) {
                      return objective_->build(objective_self_, b, e);
                  }));
        if (built != HK_OK) return not_found(fmt::format("{}: build failed without a reason", objective_id_));
        if (joint.builder.graph().losses.empty())
            return invalid_argument(fmt::format("{} described no loss", objective_id_));
    }
    for (const std::string& port : ports) {
        const auto found = joint.ports.find(port);
        if (found == joint.ports.end()) {
            std::vector<std::string> names;
            for (const auto& [name, value] : joint.ports) names.push_back(name);
            return not_found(fmt::format("there is no port '{}' (there are: {})", port, fmt::join(names, ", ")));
        }
        joint.builder.output(port, found->second);
    }
    if (all_ports)
        for (const auto& [name, value] : joint.ports) joint.builder.output("port." + name, value);
    HK_ASSIGN(graph::Graph graph, joint.builder.finish());
    if (!recompute_ || mode != HK_MODE_TRAIN)
        for (graph::Node& node : graph.nodes) node.region = 0;
    return graph;
}

Result<std::set<std::string>> Composition::body_parameters(std::span<const BatchField> fields) const {
    OwnOperations own = own_operations();
    Joint joint;
    joint.own = &own;
    joint.mode = HK_MODE_EVALUATE;
    joint.fields.assign(fields.begin(), fields.end());
    HK_TRY(build_part(joint, architecture_id_, [&](hk_builder* b, hk_error* e) {
               return architecture_->build(architecture_self_, b, e);
           }).status());
    std::set<std::string> names;
    for (const graph::Node& node : joint.builder.graph().nodes)
        if (node.op == graph::Op::parameter || node.op == graph::Op::buffer) names.insert(node.text("name"));
    return names;
}

Result<std::vector<BatchField>> Composition::batch_fields(int64_t batch, int64_t length) const {
    if (objective_ == nullptr) return failed_precondition("there is no objective");
    struct Collected {
        std::vector<BatchField> fields;
        Status status;
    } collected;
    hk_error error;
    const auto push = [](void* context, const hk_field* given) {
        auto& into = *static_cast<Collected*>(context);
        const std::optional<hk_field> field = struct_of(given);
        if (!field || field->rank > HK_MAX_RANK || field->reserved != 0 ||
            (field->kind != HK_KIND_INT32 && field->kind != HK_KIND_FLOAT32) || field->name.data == nullptr) {
            into.status = corrupt("it described a field with a wrong size, rank, kind, name or reserved member");
            return;
        }
        into.fields.push_back({std::string(field->name.data, field->name.size), kind_from(field->kind),
                               graph::Shape(std::span<const int64_t>(field->dims, field->rank))});
    };
    HK_TRY(status_of(
        guarded(error, [&] { return objective_->fields(objective_self_, batch, length, push, &collected, &error); }),
        error, objective_id_));
    if (!collected.status.ok()) return collected.status.with_context(objective_id_);
    return std::move(collected.fields);
}

Result<int64_t> Composition::tokens_per_example(int64_t length) const {
    if (objective_ == nullptr) return failed_precondition("there is no objective");
    return objective_->tokens_per_example(objective_self_, length);
}

namespace {

Result<std::vector<ColumnNeed>> columns_of(const hk_objective& objective, void* self, const std::string& what) {
    std::vector<ColumnNeed> needs;
    if (objective.columns == nullptr) return needs;
    struct Collected {
        std::vector<ColumnNeed>& needs;
        bool bad = false;
    } collected{needs};
    const auto push = [](void* context, const hk_column_need* given) {
        auto& into = *static_cast<Collected*>(context);
        const std::optional<hk_column_need> need = struct_of(given);
        constexpr uint32_t kKnown = HK_COLUMN_OPTIONAL | HK_COLUMN_TARGET;
        if (!need || need->name.data == nullptr || (need->flags & ~kKnown) != 0 || need->reserved != 0 ||
            need->kind < HK_COLUMN_TOKENS || need->kind > HK_COLUMN_SPANS)
            into.bad = true;
        else
            into.needs.push_back({std::string(view(need->name)), need->kind, (need->flags & HK_COLUMN_OPTIONAL) != 0,
                                  (need->flags & HK_COLUMN_TARGET) != 0});
    };
    hk_error error;
    HK_TRY(status_of(guarded(error, [&] { return objective.columns(self, push, &collected, &error); }), error, what));
    if (collected.bad)
        return corrupt(
            fmt::format("{}: it described a column with a wrong size, kind, name, flag or reserved member", what));
    return needs;
}

} // namespace

Result<std::vector<ColumnNeed>> Composition::columns() const {
    if (objective_ == nullptr) return failed_precondition("there is no objective");
    return columns_of(*objective_, objective_self_, objective_id_);
}

Result<std::vector<ColumnNeed>> objective_columns(const Registry& registry, const std::string& objective,
                                                  const json& given) {
    const std::string what = fmt::format("objective '{}'", objective);
    HK_ASSIGN(const Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, objective));
    HK_ASSIGN(const void* loaded, registry.load(entry));
    const auto* table = static_cast<const hk_objective*>(loaded);
    hk_config config;
    config.values = with_defaults(*entry.provided, given);
    HK_TRY(check_ranges(*entry.provided, config.values, what));
    void* self = nullptr;
    HK_TRY(created(what, self, [&](void** made, hk_error* e) { return table->create(&config, nullptr, made, e); }));
    Result<std::vector<ColumnNeed>> needs = columns_of(*table, self, what);
    table->destroy(self);
    return needs;
}

int64_t Composition::example_length(const hk_example& example) const {
    if (objective_ == nullptr || objective_->example_length == nullptr) return 0;
    hk_error error;
    int64_t length = 0;
    guarded(error, [&] {
        length = objective_->example_length(objective_self_, &example);
        return HK_OK;
    });
    return length;
}

Status Composition::collate(const hk_batch& batch, std::span<hk_field> fields) const {
    if (!can_collate())
        return unsupported(fmt::format("{} cannot make batches from text: it only measures given ones", objective_id_));
    hk_error error;
    return status_of(guarded(error,
                             [&] {
                                 return objective_->collate(objective_self_, &batch, fields.data(),
                                                            static_cast<uint32_t>(fields.size()), &error);
                             }),
                     error, objective_id_ + ": collate");
}

Result<std::vector<std::string>> Composition::decode_ports() const {
    std::vector<std::string> ports;
    if (heads_.empty() || heads_.front().table == nullptr) return ports;
    const Head& head = heads_.front();
    if (head.table->decode == nullptr || head.table->decode_ports == nullptr) return ports;
    hk_error error;
    const auto push = [](void* context, hk_string port) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(view(port));
    };
    HK_TRY(status_of(guarded(error, [&] { return head.table->decode_ports(head.self, push, &ports, &error); }), error,
                     head.what));
    return ports;
}

Result<std::vector<std::string>> Composition::decode(const hk_decode_input& input) const {
    if (heads_.empty() || heads_.front().table == nullptr || heads_.front().table->decode == nullptr)
        return unsupported(heads_.empty() ? std::string("there is no head, so nothing can be read from the outputs")
                                          : fmt::format("{} says nothing of its outputs", heads_.front().what));
    const Head& head = heads_.front();
    std::vector<std::string> rows;
    hk_error error;
    const auto push = [](void* context, hk_string json) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(view(json));
    };
    HK_TRY(status_of(guarded(error, [&] { return head.table->decode(head.self, &input, push, &rows, &error); }), error,
                     head.what + ": decode"));
    if (rows.size() != input.row_count)
        return corrupt(
            fmt::format("{}: decode said something of {} rows, there are {}", head.what, rows.size(), input.row_count));
    return rows;
}

Result<std::string> Composition::write_config() const {
    hk_config_writer writer;
    hk_error error;
    HK_TRY(status_of(guarded(error, [&] { return architecture_->write_config(architecture_self_, &writer, &error); }),
                     error, architecture_id_ + ": write_config"));
    HK_TRY(check_complete(writer).with_context(architecture_id_ + ": write_config"));
    // What was given and the architecture did not write stays: end tokens, names of labels, keys that change nothing
    // here.
    for (const nlohmann::json* more : {&given_, &notes_})
        for (const auto& [key, value] : more->items())
            if (!writer.values.contains(key)) writer.values[key] = value;
    // The reference picks its class by this key. That of a model that a run began with had another head, or none.
    if (objective_ != nullptr) writer.values.erase("architectures");
    for (const ReferenceClass& c : architecture_entry_.provided->classes) {
        if (std::ranges::any_of(heads_, &Head::asked_for)) break; // the reference's class has a head of its own
        if (c.head != head_name_ || (objective_ != nullptr && c.objective != objective_name_)) continue;
        writer.values["architectures"] = nlohmann::ordered_json::array({c.name});
        break;
    }
    if (objective_ != nullptr)
        writer.values["hekla"] = {{"architecture", architecture_entry_.provided->id},
                                  {"head", head_name_},
                                  {"head_config", head_config_},
                                  {"objective", objective_name_},
                                  {"objective_config", objective_config_},
                                  {"context_length", context_length_}};
    return writer.values.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace hekla::plugin
