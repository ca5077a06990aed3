// Architecture + head + objective = one graph. Holds the plugin instances of one model.
#pragma once

#include "plugin/host_tokenizer.hpp"
#include "plugin/plugin_set.hpp"
#include "plugin/registry.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"

#include <mutex>
#include <set>

namespace hekla::plugin {

// Before the names of a teacher's parameters and ports.
inline constexpr const char* kTeacher = "teacher.";

struct CompositionSpec {
    std::string architecture;
    nlohmann::json config = nlohmann::json::object(); // config.json, or a recipe's [model] table
    std::string adapter;                              // "" for none; the names of its parameters begin with kAdapter
    nlohmann::json adapter_config = nlohmann::json::object();
    std::string head; // "" for none; several that stand side by side: "mlm+span_boundary"
    nlohmann::json head_config = nlohmann::json::object();
    std::string objective; // "" for none
    nlohmann::json objective_config = nlohmann::json::object();
    // Members of config.json that no plugin reads, eg: the names of classes.
    nlohmann::json notes = nlohmann::json::object();
    // A second model in the same graph, described as it is evaluated, that an objective learns from: without an
    // objective of its own. Its ports and parameters are named "teacher.NAME".
    std::shared_ptr<const CompositionSpec> teacher;
    int64_t context_length = 0;                // of the rows it was trained with, for config.json; 0: not said
    std::map<std::string, std::string> prefix; // before each text of a column, as it was trained, for config.json
    // Keys that no plugin knows are an error (a recipe) or a warning in the log (a downloaded config.json).
    bool refuse_unknown_keys = true;
    // Keep the regions whose activations may be computed again (graph::recompute) in mode train. Otherwise, and in
    // other modes, graphs come without them: operations fuse and are shared across their borders.
    bool recompute = false;
    // Collate and decode run in worker processes, whatever Processes::isolate says.
    bool isolate = false;
};

// The columns that an objective reads, before a model is made with it; none for windows and documents.
Result<std::vector<ColumnNeed>> objective_columns(const Registry& registry, const std::string& objective,
                                                  const nlohmann::json& config);

// Where the plugins describe, and where they collate and decode, is as Registry::processes() says: what they say is the
// same. A plugin that describes in a process of its own is opened in this one when its collate or decode is first used,
// unless they are isolated.
//
// Thread: what describes, one at a time; batch_fields, example_length, collate and decode from many threads at once.
class Composition {
public:
    // `registry` and `tokenizer` (may be null) must outlive this. A plugin that crashes, hangs, throws or takes too
    // much memory is an error that names it, its file, what happened and how to see it again.
    static Result<std::unique_ptr<Composition>> create(const Registry& registry, const CompositionSpec& spec,
                                                       const text::Tokenizer* tokenizer, const Log& log = {});
    // Of a model whose descriptions were kept (parts_stored.hpp): no plugin takes part.
    static std::unique_ptr<Composition> restore(const Registry& registry, const std::string& architecture,
                                                const std::string& head, nlohmann::json config,
                                                std::unique_ptr<PluginSet> parts, const text::Tokenizer* tokenizer);
    ~Composition();
    Composition(const Composition&) = delete;
    Composition& operator=(const Composition&) = delete;

    // The whole network for these fields. Ports named in `ports` become outputs of that name (a missing one is an error
    // that names those there are); with all_ports every port does, as "port.NAME". An objective is only built in modes
    // train and evaluate. calls: see Joint::calls_left.
    Result<graph::Graph> build(int32_t mode, std::span<const BatchField> fields,
                               std::span<const std::string> ports = {}, bool all_ports = false,
                               int64_t calls = -1) const;

    // Whether build() would describe it; the error is the plugin's.
    Status check(int32_t mode, std::span<const BatchField> fields) const;

    // The same with what each plugin said of it, as it was described: with all regions.
    Result<Described> describe(const BuildRequest& request) const;

    // From now on the body is described as it is evaluated, also in mode train: nothing of it learns.
    void freeze_body() { body_frozen_ = true; }
    // The names of the parameters that the body has without adapter, head and objective.
    Result<std::set<std::string>> body_parameters(std::span<const BatchField> fields) const;

    // The batch of this objective. failed_precondition without one.
    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) const;
    bool can_collate() const { return can_collate_; }
    int32_t example_kind() const { return example_kind_; } // HK_EXAMPLE_*; has an objective
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
    const hk_tokenizer* tokenizer() const { return tokenizer_.view != nullptr ? &tokenizer_ : nullptr; }

    // config.json of the reference, as the architecture writes it, with what else was given and the class that has this
    // head; with an objective also a member "hekla": architecture, head and objective by their ids here, so that a
    // folder whose parts no class has can be opened again.
    Result<std::string> write_config() const;

    const Registry& registry() const { return *registry_; }
    bool body_frozen() const { return body_frozen_; }
    const Composition* teacher() const { return teacher_.get(); } // null without one
    const std::string& head() const { return head_name_; }        // as asked for in the spec
    const Provided& architecture() const { return *architecture_.entry.provided; }
    bool recompute() const { return recompute_; }             // as asked for in the spec
    const nlohmann::json& config() const { return config_; }  // defaults included
    bool described_apart() const { return describes_apart_; } // in a process of its own
    bool isolated() const { return isolated_; }               // collate and decode are

private:
    Composition() = default;
    // What can be said without a plugin's code: who takes part, and with which configuration.
    static Result<std::unique_ptr<Composition>> resolve(const Registry& registry, const CompositionSpec& spec);
    Status start(const text::Tokenizer* tokenizer);
    Status check_keys(const ReadKeys& read, const Log& log) const;
    // The parts that collate and decode.
    Result<PluginSet*> working() const;
    // Runs what a plugin describes; where it is to blame, the error says how to see that again.
    template<class F>
    auto described(const BuildRequest* request, F&& f) const -> decltype(f());
    std::string command(const BuildRequest* request) const;
    BuildRequest request_of(int32_t mode, std::span<const BatchField> fields) const;

    struct Part {
        std::string what; // "head 'lm'": for messages
        Registry::Entry entry;
        nlohmann::json given, values;
    };
    const Registry* registry_ = nullptr;
    std::unique_ptr<Composition> teacher_;
    Part architecture_, adapter_, objective_; // adapter_: entry without a manifest: there is none
    std::vector<Part> heads_;                 // entry without a plugin: only the architecture has it
    std::string head_name_, objective_name_;
    nlohmann::json head_config_, objective_config_;   // as given
    nlohmann::json given_ = nlohmann::json::object(); // the configuration without defaults
    nlohmann::json notes_ = nlohmann::json::object();
    int64_t context_length_ = 0;
    std::map<std::string, std::string> prefix_;
    bool recompute_ = false, body_frozen_ = false, refuse_unknown_keys_ = true;
    bool describes_apart_ = false, isolated_ = false, can_collate_ = false;
    int32_t example_kind_ = HK_EXAMPLE_WINDOW;
    nlohmann::json config_;
    PartsSpec spec_;
    std::unique_ptr<TokenizerView> view_;
    hk_tokenizer tokenizer_;
    std::unique_ptr<PluginSet> parts_;
    std::unique_ptr<Provided> restored_; // what there is instead of a manifest
    mutable std::mutex lock_;
    mutable std::unique_ptr<PluginSet> working_; // where that is not parts_
    mutable std::map<std::pair<int64_t, int64_t>, std::vector<BatchField>>
        fields_; // of batch_fields(): asked for often
};

} // namespace hekla::plugin
