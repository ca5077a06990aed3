#include "plugin/process/in_process_plugins.hpp"

#include "graph/output.hpp"
#include "plugin/composition/adapters_in_graph.hpp"
#include "plugin/host/argument_rules.hpp"
#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_operation.hpp"
#include "plugin/host/host_struct.hpp"
#include "plugin/instances/optimizer_instance.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/objective.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

namespace hekla::plugin {
namespace {

graph::Kind kind_from(int32_t kind) { return static_cast<graph::Kind>(kind); }

Status described(const Broken& broken) { return broken ? corrupt("it described " + broken->what) : Status(); }

// A list that a plugin fills through a host callback, which catches all exceptions.
template<class T>
class Pushed {
public:
    template<class F>
    void push(F&& make) noexcept {
        try {
            if (status.ok()) make();
        } catch (...) { status = Status(Code::out_of_memory, {}); }
    }
    // Returns the list, or the reason why it is incomplete.
    Result<std::vector<T>> take(const std::string& what) {
        if (status.code() == Code::out_of_memory)
            return out_of_memory(what + ": the host is out of memory for its results");
        if (!status.ok()) return status.with_context(what);
        return std::move(list);
    }
    std::vector<T> list;
    Status status;
};

class InProcessPlugins final : public PluginSet {
public:
    explicit InProcessPlugins(const Registry& registry) : registry_(registry), adapters_(registry) {}
    InProcessPlugins(const InProcessPlugins&) = delete;
    InProcessPlugins& operator=(const InProcessPlugins&) = delete;
    ~InProcessPlugins() override {
        destroy_instance(objective_);
        for (Head& head : heads_) destroy_instance(head);
        destroy_instance(architecture_);
    }

    Status create(const PartsSpec& spec, const hk_tokenizer* tokenizer) {
        if (spec.teacher != nullptr) {
            teacher_ = std::make_unique<InProcessPlugins>(registry_);
            HK_TRY(teacher_->create(*spec.teacher, tokenizer).with_context("the teacher"));
            read_.teacher = std::make_shared<const ReadKeys>(teacher_->read_);
        }
        if (spec.value != nullptr) {
            value_ = std::make_unique<InProcessPlugins>(registry_);
            HK_TRY(value_->create(*spec.value, tokenizer).with_context("the value function"));
            read_.value = std::make_shared<const ReadKeys>(value_->read_);
        }
        if (spec.architecture) {
            architecture_.what = fmt::format("architecture '{}'", spec.architecture->id);
            HK_TRY(open_instance(registry_, HK_ARCHITECTURE_INTERFACE, spec.architecture->id, architecture_));
            HK_TRY(create_instance(registry_, architecture_, spec.architecture->config, read_.architecture,
                                   [&](const hk_config* config, void** self, hk_error* e) {
                                       return architecture_.table->create(config, self, e);
                                   }));
        }
        HK_TRY(adapters_.create(spec, read_));
        for (const PartSpec& one : spec.optimizers) {
            auto& optimizer = optimizers_.emplace_back(std::make_unique<OptimizerInstance>(registry_));
            HK_TRY(optimizer->create(one, read_.optimizers.emplace_back()));
        }
        for (const PartsSpec::Head& one : spec.heads) {
            Head& head = heads_.emplace_back();
            read_.heads.emplace_back();
            head.name = one.part.id;
            head.what = fmt::format("head '{}'", one.part.id);
            head.asked_for = one.asked_for;
            if (!one.plugin) continue;
            HK_TRY(open_instance(registry_, HK_HEAD_INTERFACE, one.part.id, head));
            HK_TRY(create_instance(registry_, head, one.part.config, read_.heads.back(),
                                   [&](const hk_config* config, void** self, hk_error* e) {
                                       return head.table->create(config, self, e);
                                   }));
        }
        if (spec.objective) {
            objective_.what = fmt::format("objective '{}'", spec.objective->id);
            HK_TRY(open_instance(registry_, HK_OBJECTIVE_INTERFACE, spec.objective->id, objective_));
            HK_TRY(create_instance(registry_, objective_, spec.objective->config, read_.objective,
                                   [&](const hk_config* config, void** self, hk_error* e) {
                                       return objective_.table->create(config, tokenizer, self, e);
                                   }));
        }
        return {};
    }

    const ReadKeys& read() const override { return read_; }

    Result<Described> build(const BuildRequest& request) override {
        OwnOperations own = own_operations();
        Joint joint;
        Described described;
        joint.own = &own;
        joint.calls_left = request.calls;
        joint.cache_capacity = request.cache_capacity;
        joint.fields = with_adapter_fields(request);
        const int32_t mode = request.mode;
        const bool learns =
            request.objective && objective_.table != nullptr && (mode == HK_MODE_TRAIN || mode == HK_MODE_EVALUATE);
        if (teacher_ != nullptr && learns) {
            joint.prefix = kTeacher;
            joint.builder.scope_begin("teacher");
            HK_TRY(teacher_->describe(joint, {}, HK_MODE_EVALUATE, HK_MODE_EVALUATE, "teacher: ", described)
                       .with_context("the teacher"));
            joint.builder.scope_end();
            joint.prefix.clear();
        }
        const int32_t body_mode = request.body_frozen && mode == HK_MODE_TRAIN ? HK_MODE_EVALUATE : mode;
        HK_TRY(describe(joint, request, body_mode, mode, "", described));
        // Generation does not need values, so they are described only where they are trained or asked for.
        if (value_ != nullptr && (learns || std::ranges::any_of(request.ports, [](const std::string& port) {
                                      return port.starts_with(kValueFunction);
                                  }))) {
            joint.prefix = kValueFunction;
            joint.builder.scope_begin("value");
            HK_TRY(value_->describe(joint, {}, body_mode, mode, "value function: ", described)
                       .with_context("the value function"));
            joint.builder.scope_end();
            joint.prefix.clear();
        }
        if (learns) {
            HK_ASSIGN(const int32_t built,
                      build_part(joint, objective_, objective_.what, "build", [&](hk_builder* b, hk_error* e) {
                          return objective_.table->build(objective_.self, b, e);
                      }));
            if (built != HK_OK) return not_found(fmt::format("{}: build failed without a reason", objective_.what));
            if (joint.builder.graph().losses.empty())
                return invalid_argument(fmt::format("{} described no loss", objective_.what));
            if (mode == HK_MODE_TRAIN) adapters_.add_loss();
            add_part(described.parts, joint, objective_.what, objective_.manifest);
        }
        for (const std::string& port : request.ports) {
            const auto found = joint.ports.find(port);
            if (found == joint.ports.end()) {
                std::vector<std::string> names;
                for (const auto& [name, value] : joint.ports) names.push_back(name);
                return not_found(fmt::format("no port '{}' (known ports: {})", port, fmt::join(names, ", ")));
            }
            joint.builder.output(port, found->second);
        }
        if (request.all_ports)
            for (const auto& [name, value] : joint.ports)
                joint.builder.output(graph::output_name(graph::OutputKind::port, name), value);
        if (request.merged) HK_TRY(adapters_.check_merged(described.sites));
        if (request.initial)
            for (const auto& [name, value] : joint.initial) joint.builder.output(kInitial + name, value);
        HK_ASSIGN(described.graph, finish(joint.builder, described.parts));
        return described;
    }

    Result<std::set<std::string>> parameters(const std::vector<BatchField>& fields) override {
        OwnOperations own = own_operations();
        Joint joint;
        joint.own = &own;
        joint.mode = HK_MODE_EVALUATE;
        joint.fields = fields;
        HK_TRY(build_part(joint, architecture_, architecture_.what, "build", [&](hk_builder* b, hk_error* e) {
                   return architecture_.table->build(architecture_.self, b, e);
               }).status());
        std::set<std::string> names;
        for (const graph::Node& node : joint.builder.graph().nodes)
            if (node.op == graph::Op::parameter || node.op == graph::Op::buffer) names.insert(node.text("name"));
        return names;
    }

    Result<nlohmann::ordered_json> write_config() override {
        hk_config_writer writer;
        HK_TRY(call(registry_, architecture_, architecture_.what + ": write_config", "write_config",
                    [&](hk_error* e) { return architecture_.table->write_config(architecture_.self, &writer, e); }));
        Result<nlohmann::ordered_json> written = written_json(writer);
        HK_TRY(written.status().with_context(architecture_.what + ": write_config"));
        return written;
    }

    Result<nlohmann::ordered_json> write_adapter_config() override { return adapters_.write_config(); }

    Result<VirtualTokens> virtual_tokens() override { return adapters_.virtual_tokens(); }

    Result<std::vector<std::string>> decode_ports() override {
        if (heads_.empty() || heads_.front().table == nullptr) return std::vector<std::string>();
        const Head& head = heads_.front();
        if (head.table->decode == nullptr || head.table->decode_ports == nullptr) return std::vector<std::string>();
        Pushed<std::string> ports;
        HK_TRY(call(registry_, head, head.what, "decode_ports",
                    [&](hk_error* e) { return head.table->decode_ports(head.self, push_text, &ports, e); }));
        return ports.take(head.what);
    }

    Result<bool> takes(std::size_t optimizer, const OptimizedParameter& parameter) override {
        HK_ASSIGN(OptimizerInstance * instance, optimizer_at(optimizer));
        return instance->takes(parameter);
    }

    Result<UpdateGraph> update(std::size_t optimizer, const OptimizedParameter& parameter) override {
        HK_ASSIGN(OptimizerInstance * instance, optimizer_at(optimizer));
        OwnOperations own = own_operations();
        return instance->update(parameter, &own);
    }

    Result<int32_t> example_kind() override {
        int32_t kind = HK_EXAMPLE_WINDOW;
        HK_TRY(call(registry_, objective_, objective_.what, "example_kind", [&](hk_error*) {
            kind = objective_.table->example_kind(objective_.self);
            return HK_OK;
        }));
        return kind;
    }

    Result<bool> can_collate() override { return objective_.table->collate != nullptr; }

    Result<int64_t> tokens_per_example(int64_t length) override {
        int64_t tokens = 0;
        HK_TRY(call(registry_, objective_, objective_.what, "tokens_per_example", [&](hk_error*) {
            tokens = objective_.table->tokens_per_example(objective_.self, length);
            return HK_OK;
        }));
        return tokens;
    }

    Result<std::vector<ColumnNeed>> columns() override {
        if (objective_.table->columns == nullptr) return std::vector<ColumnNeed>();
        Pushed<ColumnNeed> needs;
        const auto push = [](void* context, const hk_column_need* given) {
            auto& into = *static_cast<Pushed<ColumnNeed>*>(context);
            into.push([&] {
                into.status = described(broken_by_column(given));
                if (!into.status.ok()) return;
                const hk_column_need need = *struct_of(given);
                if (need.name.data == nullptr || need.kind < HK_COLUMN_TOKENS || need.kind > HK_COLUMN_MESSAGES)
                    into.status =
                        corrupt(fmt::format("it described a column without a name, or of kind {}", need.kind));
                else
                    into.list.push_back({std::string(view(need.name)), need.kind,
                                         (need.flags & HK_COLUMN_OPTIONAL) != 0, (need.flags & HK_COLUMN_TARGET) != 0});
            });
        };
        HK_TRY(call(registry_, objective_, objective_.what, "columns",
                    [&](hk_error* e) { return objective_.table->columns(objective_.self, push, &needs, e); }));
        return needs.take(objective_.what);
    }

    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) override {
        Pushed<BatchField> fields;
        const auto push = [](void* context, const hk_field* given) {
            auto& into = *static_cast<Pushed<BatchField>*>(context);
            into.push([&] {
                into.status = described(broken_by_field(given));
                if (!into.status.ok()) return;
                const hk_field field = *struct_of(given);
                into.list.push_back({std::string(view(field.name)), kind_from(field.kind),
                                     graph::Shape(std::span<const int64_t>(field.dims, field.rank))});
            });
        };
        HK_TRY(call(registry_, objective_, objective_.what, "fields", [&](hk_error* e) {
            return objective_.table->fields(objective_.self, batch, length, push, &fields, e);
        }));
        return fields.take(objective_.what);
    }

    Result<int64_t> example_length(const hk_example& example) override {
        if (objective_.table->example_length == nullptr) return int64_t{0};
        const Registry::Within within(registry_, objective_.manifest, "example_length");
        hk_error error;
        int64_t length = 0;
        guarded(error, [&] {
            length = objective_.table->example_length(objective_.self, &example);
            return HK_OK;
        });
        return length;
    }

    Status collate(const hk_batch& batch, std::span<hk_field> fields) override {
        const Registry::Within within(registry_, objective_.manifest, "collate");
        hk_error error;
        return status_of(guarded(error,
                                 [&] {
                                     return objective_.table->collate(objective_.self, &batch, fields.data(),
                                                                      static_cast<uint32_t>(fields.size()), &error);
                                 }),
                         error, objective_.what + ": collate");
    }

    Result<std::vector<std::string>> decode(const hk_decode_input& input) override {
        const Head& head = heads_.front();
        if (head.table == nullptr || head.table->decode == nullptr)
            return unsupported(fmt::format("{} does not decode its outputs", head.what));
        const Registry::Within within(registry_, head.manifest, "decode");
        Pushed<std::string> texts;
        hk_error error;
        HK_TRY(
            status_of(guarded(error, [&] { return head.table->decode(head.self, &input, push_text, &texts, &error); }),
                      error, head.what + ": decode"));
        HK_ASSIGN(std::vector<std::string> rows, texts.take(head.what));
        if (rows.size() != input.row_count)
            return corrupt(fmt::format("{}: decode gave results for {} rows; the batch has {}", head.what, rows.size(),
                                       input.row_count));
        return rows;
    }

private:
    struct Head : Instance<hk_head> {
        std::string name;
        bool asked_for = false;
    };

    Result<OptimizerInstance*> optimizer_at(std::size_t index) const {
        if (index < optimizers_.size()) return optimizers_[index].get();
        return internal_error(fmt::format("optimizer {} of a set of {}", index, optimizers_.size()));
    }

    static void push_text(void* context, hk_string text) {
        auto& into = *static_cast<Pushed<std::string>*>(context);
        into.push([&] { into.list.emplace_back(view(text)); });
    }

    // Runs one plugin's build with a new view. A scope or region that is still open afterwards is an error.
    template<class Table, class F>
    Result<int32_t> build_part(Joint& joint, const Instance<Table>& instance, const std::string& what,
                               const char* function, F&& build) {
        hk_builder view(joint, next_tag());
        hk_error error;
        HK_ASSIGN(const int32_t code,
                  code_of(registry_, instance, what, function, error, [&](hk_error* e) { return build(&view, e); }));
        if (!joint.builder.ok()) return status_of(joint.builder.status(), code, error, what);
        if (code == HK_OK && (view.open_scopes != 0 || view.open_region))
            return failed_precondition(fmt::format("{}: a scope or region is still open after build", what));
        if (code != HK_OK && code != HK_NOT_FOUND) return status_of(code, error, what);
        if (code == HK_NOT_FOUND && !error.message.empty()) return status_of(code, error, what);
        return code;
    }

    // Adds the fields that choose the adapter of each row and its scale, and in decode mode the place where it begins
    // to act, if there are such adapters and the batch does not have them.
    std::vector<BatchField> with_adapter_fields(const BuildRequest& request) const {
        std::vector<BatchField> fields = request.fields;
        const auto rows = std::ranges::find_if(fields, [](const BatchField& field) { return field.shape.rank() > 0; });
        if (!adapters_.exist() || rows == fields.end()) return fields;
        const graph::Shape shape{rows->shape[0]};
        const auto add = [&](const std::string& name, graph::Kind kind) {
            if (std::ranges::find(fields, name, &BatchField::name) == fields.end())
                fields.push_back({name, kind, shape});
        };
        add(kAdapterRows, graph::Kind::int32);
        if (objective_.table == nullptr) add(kAdapterScales, graph::Kind::float32);
        for (const AdapterInstance* adapter : adapters_.invoked())
            if (request.mode == HK_MODE_DECODE) add(adapter->invocation().field, graph::Kind::int32);
        return fields;
    }

    // Describes body and heads as one part of the joint graph.
    Status describe(Joint& joint, const BuildRequest& request, int32_t body_mode, int32_t mode,
                    const std::string& whose, Described& described) {
        std::vector<GraphPart>& parts = described.parts;
        joint.mode = body_mode;
        nlohmann::ordered_json body_config;
        if (adapters_.virtual_tokens().count > 0 || !adapters_.invoked().empty()) {
            HK_ASSIGN(body_config, write_config());
        }
        HK_TRY(adapters_.begin(joint, described, mode, request, architecture_.provided->names.ties, body_config));
        // Describes a part of the network, with the adapters at its sites.
        const auto build = [&](const auto& instance, const std::string& name, const char* function, auto&& f) {
            joint.adapt = adapters_.hook();
            Result<int32_t> code = build_part(joint, instance, name, function, f);
            joint.adapt = nullptr;
            if (Status problem = adapters_.take_problem(); !problem.ok()) return Result<int32_t>(std::move(problem));
            return code;
        };
        HK_ASSIGN(const int32_t body,
                  build(architecture_, architecture_.what, "build", [&](hk_builder* b, hk_error* e) {
                      return architecture_.table->build(architecture_.self, b, e);
                  }));
        if (body != HK_OK) return not_found(fmt::format("{}: build failed without a reason", architecture_.what));
        HK_TRY(adapters_.end_body());
        std::string what = architecture_.what;
        if (adapters_.exist()) what += fmt::format(" with {}", adapters_.what());
        add_part(parts, joint, whose + what, architecture_.manifest);
        // Their nodes are among the body's; these parts only record the plugins.
        adapters_.each(
            [&](const std::string& one, const Manifest* manifest) { add_part(parts, joint, whose + one, manifest); });
        joint.mode = mode;
        for (const Head& head : heads_) {
            if (!head.asked_for) {
                HK_ASSIGN(const int32_t native,
                          build(architecture_, head.what, "build_head", [&](hk_builder* b, hk_error* e) {
                              return architecture_.table->build_head(architecture_.self, b,
                                                                     {head.name.data(), head.name.size()}, e);
                          }));
                if (native != HK_NOT_FOUND) {
                    add_part(parts, joint, whose + head.what, architecture_.manifest);
                    continue;
                }
            }
            if (head.table == nullptr)
                return not_found(fmt::format("{} has no head '{}' of its own and no plugin provides one",
                                             architecture_.what, head.name));
            HK_ASSIGN(const int32_t generic, build(head, head.what, "build", [&](hk_builder* b, hk_error* e) {
                          return head.table->build(head.self, b, e);
                      }));
            if (generic != HK_OK) return not_found(fmt::format("{}: build failed without a reason", head.what));
            add_part(parts, joint, whose + head.what, head.manifest);
        }
        return {};
    }

    // Each part begins where the one before it ends, also after the loops were unrolled.
    static Result<graph::Graph> finish(graph::Builder& builder, std::vector<GraphPart>& parts) {
        std::vector<std::size_t> ends;
        for (const GraphPart& part : parts) ends.push_back(part.end);
        HK_ASSIGN(graph::Graph graph, builder.finish(ends));
        for (std::size_t i = 0; i < parts.size(); ++i) {
            parts[i].first = i == 0 ? 0 : ends[i - 1];
            parts[i].end = ends[i];
        }
        return graph;
    }

    static void add_part(std::vector<GraphPart>& parts, const Joint& joint, const std::string& what,
                         const Manifest* manifest) {
        parts.push_back({what, std::string(manifest->file), parts.empty() ? 0 : parts.back().end,
                         joint.builder.graph().nodes.size()});
    }

    OwnOperations own_operations() {
        return {[this](const std::string& id) { return registry_.open<hk_operation>(HK_OPERATION_INTERFACE, id); },
                // Reports the operation's plugin as the running one, inside the part that uses it.
                [this, calls = std::make_shared<std::vector<std::unique_ptr<Registry::Within>>>()](
                    const std::string& id, const char* function, const hk_error* after) {
                    const Result<Registry::Entry> entry = registry_.find(HK_OPERATION_INTERFACE, id);
                    if (!entry.ok()) return;
                    if (after == nullptr) {
                        calls->push_back(
                            std::make_unique<Registry::Within>(registry_, entry.value().manifest, function));
                        return;
                    }
                    calls->pop_back();
                    if (after->threw)
                        registry_.disable_plugin(*entry.value().manifest,
                                                 fmt::format("it threw an exception in {}()", function));
                }};
    }

    const Registry& registry_;
    std::unique_ptr<InProcessPlugins> teacher_, value_;
    Instance<hk_architecture> architecture_;
    AdaptersInGraph adapters_;
    std::vector<Head> heads_;
    Instance<hk_objective> objective_;
    std::vector<std::unique_ptr<OptimizerInstance>> optimizers_;
    ReadKeys read_;
};

} // namespace

Result<std::unique_ptr<PluginSet>> make_in_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                           const hk_tokenizer* tokenizer) {
    auto parts = std::make_unique<InProcessPlugins>(registry);
    HK_TRY(parts->create(spec, tokenizer));
    return std::unique_ptr<PluginSet>(std::move(parts));
}

} // namespace hekla::plugin
