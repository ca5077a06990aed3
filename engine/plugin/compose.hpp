// Architecture + head + objective = one graph. Holds the plugin instances of one model.
#pragma once

#include "plugin/host_config.hpp"
#include "plugin/host_graph.hpp"
#include "plugin/host_tokenizer.hpp"
#include "plugin/registry.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"

#include <set>

namespace hekla::plugin {

// Before the names of a teacher's parameters and ports.
inline constexpr const char* kTeacher = "teacher.";

struct CompositionSpec {
    std::string architecture;
    nlohmann::json config = nlohmann::json::object(); // config.json, or a recipe's [model] table
    std::string head; // "" for none; several that stand side by side: "mlm+span_boundary"
    nlohmann::json head_config = nlohmann::json::object();
    std::string objective; // "" for none
    nlohmann::json objective_config = nlohmann::json::object();
    // Members of config.json that no plugin reads, eg: the names of classes.
    nlohmann::json notes = nlohmann::json::object();
    // A second model in the same graph, described as it is evaluated, that an objective learns from: without an
    // objective of its own. Its ports and parameters are named "teacher.NAME".
    std::shared_ptr<const CompositionSpec> teacher;
    int64_t context_length = 0; // of the rows it was trained with, for config.json; 0: not said
    // Keys that no plugin knows are an error (a recipe) or a warning in the log (a downloaded config.json).
    bool refuse_unknown_keys = true;
    // Keep the regions whose activations may be computed again (graph::recompute) in mode train. Otherwise, and in
    // other modes, graphs come without them: operations fuse and are shared across their borders.
    bool recompute = false;
};

// A column that an objective reads (hk_column_need).
struct ColumnNeed {
    std::string name;
    int32_t kind = HK_COLUMN_TOKENS;
    bool optional = false, target = false;
};

// The columns that an objective reads, before a model is made with it; none for windows and documents.
Result<std::vector<ColumnNeed>> objective_columns(const Registry& registry, const std::string& objective,
                                                  const nlohmann::json& config);

// Thread: build and write_config one at a time; collate and decode from many threads at once.
class Composition {
public:
    // `registry` and `tokenizer` (may be null) must outlive this.
    static Result<std::unique_ptr<Composition>> create(const Registry& registry, const CompositionSpec& spec,
                                                       const text::Tokenizer* tokenizer, const Log& log = {});
    ~Composition();
    Composition(const Composition&) = delete;
    Composition& operator=(const Composition&) = delete;

    // The whole network for these fields. Ports named in `ports` become outputs of that name (a missing one is an error
    // that names those there are); with all_ports every port does, as "port.NAME". An objective is only built in modes
    // train and evaluate. calls: see Joint::calls_left.
    Result<graph::Graph> build(int32_t mode, std::span<const BatchField> fields,
                               std::span<const std::string> ports = {}, bool all_ports = false,
                               int64_t calls = -1) const;

    // From now on the body is described as it is evaluated, also in mode train: nothing of it learns.
    void freeze_body() { body_frozen_ = true; }
    // The names of the parameters that the body has without head and objective.
    Result<std::set<std::string>> body_parameters(std::span<const BatchField> fields) const;

    // The batch of this objective. failed_precondition without one.
    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) const;
    bool can_collate() const { return objective_ != nullptr && objective_->collate != nullptr; }
    int32_t example_kind() const { return objective_->example_kind(objective_self_); } // HK_EXAMPLE_*; has an objective
    Result<int64_t> tokens_per_example(int64_t length) const;
    // The columns of a table that this objective reads; none for windows and documents.
    Result<std::vector<ColumnNeed>> columns() const;
    // The length of a row that cuts nothing off; 0 where the objective does not say.
    int64_t example_length(const hk_example& example) const;
    // fields: as batch_fields() gave them, with zeroed storage of their sizes.
    Status collate(const hk_batch& batch, std::span<hk_field> fields) const;

    // The ports that the head's decode reads; empty where it has none, or there is no head.
    Result<std::vector<std::string>> decode_ports() const;
    // One JSON object a row.
    Result<std::vector<std::string>> decode(const hk_decode_input& input) const;
    const hk_tokenizer* tokenizer() const { return tokenizer_.tokenizer != nullptr ? &tokenizer_ : nullptr; }

    // config.json of the reference, as the architecture writes it, with what else was given and the class that has this
    // head; with an objective also a member "hekla": architecture, head and objective by their ids here, so that a
    // folder whose parts no class has can be opened again.
    Result<std::string> write_config() const;

    const Composition* teacher() const { return teacher_.get(); } // null without one
    const std::string& head() const { return head_name_; }        // as asked for in the spec
    const Provided& architecture() const { return *architecture_entry_.provided; }
    bool recompute() const { return recompute_; }                   // as asked for in the spec
    const nlohmann::json& config() const { return config_.values; } // defaults included

private:
    Composition() = default;
    // Body and heads, as a part of the joint graph.
    Status describe(Joint& joint, int32_t body_mode, int32_t mode) const;
    std::unique_ptr<Composition> teacher_;
    OwnOperations own_operations() const; // of the plugins that the registry found
    const Registry* registry_ = nullptr;
    Registry::Entry architecture_entry_;
    const hk_architecture* architecture_ = nullptr;
    const hk_objective* objective_ = nullptr;
    void* architecture_self_ = nullptr;
    void* objective_self_ = nullptr;
    struct Head {
        std::string name, what;         // `what`: for messages
        const hk_head* table = nullptr; // null: only the architecture has it
        void* self = nullptr;
        bool asked_for = false; // by keys that the plugin alone knows: it stands in for a native one
    };
    std::vector<Head> heads_;
    std::string architecture_id_, objective_id_; // for messages
    std::string head_name_, objective_name_;
    nlohmann::json head_config_, objective_config_;   // as given
    nlohmann::json given_ = nlohmann::json::object(); // the configuration without defaults
    nlohmann::json notes_ = nlohmann::json::object();
    int64_t context_length_ = 0;
    bool recompute_ = false, body_frozen_ = false;
    hk_config config_;
    hk_tokenizer tokenizer_;
};

} // namespace hekla::plugin
