#include "plugin/compose.hpp"

#include "base/nearest_name.hpp"
#include "model/names.hpp"
#include "plugin/host_error.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

using nlohmann::json;

constexpr const char* kUnknown = "the plugin threw an exception; plugins must not";

// A call into a plugin. One that throws although it must not is an error of that plugin, not the end of the host.
template<class F>
int32_t guarded(hk_error& error, F&& f) {
    try {
        return f();
    } catch (const std::exception& e) { error.message = fmt::format("{} ({})", kUnknown, e.what()); } catch (...) {
        error.message = kUnknown;
    }
    error.code = HK_INTERNAL;
    return HK_INTERNAL;
}

// Handles of different builds must differ, whichever threads build: the tag counts through the 4,095 there are.
uint32_t next_tag() {
    static std::atomic<uint32_t> counter{0};
    return counter.fetch_add(1, std::memory_order_relaxed) % 4095 + 1;
}

json with_defaults(const Provided& provided, const json& given) {
    json values = provided.defaults;
    for (const auto& [key, value] : given.items())
        if (!value.is_null() || !values.contains(key)) values[key] = value;
    return values;
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

graph::Kind kind_from(int32_t kind) { return static_cast<graph::Kind>(kind); }

// Runs one plugin's build through a view of its own, and closes what it left open as an error.
template<class F>
Result<int32_t> build_part(Joint& joint, const std::string& what, F&& build) {
    hk_builder view(joint, next_tag());
    hk_error error;
    const int32_t code = guarded(error, [&] { return build(&view, &error); });
    if (!joint.builder.ok()) return joint.builder.status().with_context(what);
    if (code == HK_OK && (view.open_scopes != 0 || view.open_region))
        return failed_precondition(fmt::format("{}: a scope or region is still open after build", what));
    if (code != HK_OK && code != HK_NOT_FOUND) return status_of(code, error, what);
    if (code == HK_NOT_FOUND && !error.message.empty()) return status_of(code, error, what);
    return code;
}

} // namespace

Result<std::unique_ptr<Composition>> Composition::create(const Registry& registry, const CompositionSpec& spec,
                                                         const text::Tokenizer* tokenizer, const Log& log) {
    std::unique_ptr<Composition> c(new Composition());
    c->tokenizer_.tokenizer = tokenizer;
    c->architecture_id_ = fmt::format("architecture '{}'", spec.architecture);
    c->head_id_ = fmt::format("head '{}'", spec.head);
    c->objective_id_ = fmt::format("objective '{}'", spec.objective);
    c->head_name_ = spec.head;
    c->objective_name_ = spec.objective;
    c->given_ = spec.config;
    c->recompute_ = spec.recompute;

    HK_ASSIGN(c->architecture_entry_, registry.find(HK_ARCHITECTURE_INTERFACE, spec.architecture));
    HK_ASSIGN(const void* architecture, registry.load(c->architecture_entry_));
    c->architecture_ = static_cast<const hk_architecture*>(architecture);
    c->config_.values = with_defaults(*c->architecture_entry_.provided, spec.config);
    hk_error error;
    HK_TRY(
        status_of(guarded(error, [&] { return c->architecture_->create(&c->config_, &c->architecture_self_, &error); }),
                  error, c->architecture_id_));
    HK_TRY(unknown_keys(*c->architecture_entry_.provided, spec.config, c->config_, spec.refuse_unknown_keys, log,
                        c->architecture_id_));

    if (!spec.head.empty()) {
        // A native head needs no plugin; build() finds out. A head plugin is used where there is none.
        const Result<Registry::Entry> entry = registry.find(HK_HEAD_INTERFACE, spec.head);
        if (entry.ok()) {
            HK_ASSIGN(const void* head, registry.load(entry.value()));
            c->head_ = static_cast<const hk_head*>(head);
            hk_config config;
            config.values = with_defaults(*entry.value().provided, spec.head_config);
            HK_TRY(status_of(guarded(error, [&] { return c->head_->create(&config, &c->head_self_, &error); }), error,
                             c->head_id_));
            HK_TRY(unknown_keys(*entry.value().provided, spec.head_config, config, spec.refuse_unknown_keys, log,
                                c->head_id_));
        }
    }
    if (!spec.objective.empty()) {
        HK_ASSIGN(const Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, spec.objective));
        HK_ASSIGN(const void* objective, registry.load(entry));
        c->objective_ = static_cast<const hk_objective*>(objective);
        hk_config config;
        config.values = with_defaults(*entry.provided, spec.objective_config);
        // What the model's own configuration says of the objective counts too, eg: problem_type of a classifier.
        for (const std::string& key : entry.provided->parameters)
            if (!spec.objective_config.contains(key) && spec.config.contains(key) && !spec.config[key].is_null())
                config.values[key] = spec.config[key];
        const hk_tokenizer* given = tokenizer != nullptr ? &c->tokenizer_ : nullptr;
        HK_TRY(status_of(
            guarded(error, [&] { return c->objective_->create(&config, given, &c->objective_self_, &error); }), error,
            c->objective_id_));
        HK_TRY(unknown_keys(*entry.provided, spec.objective_config, config, spec.refuse_unknown_keys, log,
                            c->objective_id_));
    }
    return c;
}

Composition::~Composition() {
    if (objective_self_ != nullptr) objective_->destroy(objective_self_);
    if (head_self_ != nullptr) head_->destroy(head_self_);
    if (architecture_self_ != nullptr) architecture_->destroy(architecture_self_);
}

Result<graph::Graph> Composition::build(int32_t mode, std::span<const BatchField> fields,
                                        std::span<const std::string> ports, bool all_ports) const {
    Joint joint;
    joint.mode = mode;
    joint.fields.assign(fields.begin(), fields.end());
    HK_ASSIGN(const int32_t body, build_part(joint, architecture_id_, [&](hk_builder* b, hk_error* e) {
                  return architecture_->build(architecture_self_, b, e);
              }));
    if (body != HK_OK) return not_found(fmt::format("{}: build failed without a reason", architecture_id_));
    if (!head_name_.empty()) {
        HK_ASSIGN(
            const int32_t native, build_part(joint, head_id_, [&](hk_builder* b, hk_error* e) {
                return architecture_->build_head(architecture_self_, b, {head_name_.data(), head_name_.size()}, e);
            }));
        if (native == HK_NOT_FOUND) {
            if (head_ == nullptr)
                return not_found(fmt::format("{} has no head '{}' of its own and no plugin provides one",
                                             architecture_id_, head_name_));
            HK_ASSIGN(const int32_t generic, build_part(joint, head_id_, [&](hk_builder* b, hk_error* e) {
                          return head_->build(head_self_, b, e);
                      }));
            if (generic != HK_OK) return not_found(fmt::format("{}: build failed without a reason", head_id_));
        }
    }
    if (objective_ != nullptr && (mode == HK_MODE_TRAIN || mode == HK_MODE_EVALUATE)) {
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

Result<std::vector<BatchField>> Composition::batch_fields(int64_t batch, int64_t length) const {
    if (objective_ == nullptr) return failed_precondition("there is no objective");
    struct Collected {
        std::vector<BatchField> fields;
        Status status;
    } collected;
    hk_error error;
    const auto push = [](void* context, const hk_field* field) {
        auto& into = *static_cast<Collected*>(context);
        if (field == nullptr || field->struct_size < sizeof(hk_field) || field->rank > HK_MAX_RANK ||
            (field->kind != HK_KIND_INT32 && field->kind != HK_KIND_FLOAT32) || field->name.data == nullptr) {
            into.status = corrupt("it described a field with a wrong size, rank, kind or name");
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

Status Composition::collate(std::span<const hk_example> examples, uint64_t seed, uint64_t epoch,
                            std::span<hk_field> fields) const {
    if (!can_collate())
        return unsupported(fmt::format("{} cannot make batches from text: it only measures given ones", objective_id_));
    hk_error error;
    return status_of(guarded(error,
                             [&] {
                                 return objective_->collate(
                                     objective_self_, examples.data(), static_cast<uint32_t>(examples.size()), seed,
                                     epoch, fields.data(), static_cast<uint32_t>(fields.size()), &error);
                             }),
                     error, objective_id_ + ": collate");
}

Result<std::string> Composition::write_config() const {
    hk_config_writer writer;
    hk_error error;
    HK_TRY(status_of(guarded(error, [&] { return architecture_->write_config(architecture_self_, &writer, &error); }),
                     error, architecture_id_ + ": write_config"));
    HK_TRY(check_complete(writer).with_context(architecture_id_ + ": write_config"));
    // What was given and the architecture did not write stays: end tokens, names of labels, keys that change nothing
    // here.
    for (const auto& [key, value] : given_.items())
        if (!writer.values.contains(key)) writer.values[key] = value;
    // The reference picks its class by this key.
    for (const ReferenceClass& c : architecture_entry_.provided->classes) {
        if (c.head != head_name_ || (objective_ != nullptr && c.objective != objective_name_)) continue;
        writer.values["architectures"] = nlohmann::ordered_json::array({c.name});
        break;
    }
    return writer.values.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace hekla::plugin
