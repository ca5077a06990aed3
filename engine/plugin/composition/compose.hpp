// Composes architecture, head and objective into one graph. Holds the plugin instances of one model.
#pragma once

#include "plugin/composition/composition_spec.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/registry/registry.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"

#include <mutex>
#include <set>

namespace hekla::plugin {

// Returns the columns that an objective reads, without a model; none for windows and documents.
Result<std::vector<ColumnNeed>> objective_columns(const Registry& registry, const std::string& objective,
                                                  const nlohmann::json& config);

// Returns the names of heads that are joined by "+", in order.
std::vector<std::string_view> head_names(std::string_view heads);

// The composed model. Registry::processes() chooses the processes in which plugins describe, collate and decode; the
// results are the same. A plugin that describes in another process is opened in this one when its collate or decode is
// first used, unless they are isolated.
//
// Thread: functions that describe, one at a time; batch_fields, example_length, collate and decode, any.
class Composition {
public:
    // `registry` and `tokenizer` (may be null) must outlive this. If a plugin crashes, hangs, throws or uses too much
    // memory, the error contains the plugin, its file, the reason and how to reproduce it.
    static Result<std::unique_ptr<Composition>> create(const Registry& registry, const CompositionSpec& spec,
                                                       const text::Tokenizer* tokenizer, const Log& log = {});
    // Restores a model whose descriptions were stored (stored_plugins.hpp). No plugin is loaded.
    static std::unique_ptr<Composition> restore(const Registry& registry, const std::string& architecture,
                                                const std::string& head, nlohmann::json config,
                                                std::unique_ptr<PluginSet> parts, const text::Tokenizer* tokenizer);
    ~Composition();
    Composition(const Composition&) = delete;
    Composition& operator=(const Composition&) = delete;

    // Returns the rules by which texts become ids (CompositionSpec::text_rules).
    const text::TextRules& text_rules() const { return text_rules_; }

    // Builds the whole network for these fields. Ports named in `ports` become outputs of that name (a missing one is
    // an error that lists the existing ones); with all_ports every port does, as "port.NAME". An objective is only
    // built in modes train and evaluate. calls, cache_capacity: see Joint.
    Result<graph::Graph> build(int32_t mode, std::span<const BatchField> fields,
                               std::span<const std::string> ports = {}, bool all_ports = false, int64_t calls = -1,
                               int64_t cache_capacity = 0) const;

    // Checks whether build() would succeed; the error is the plugin's.
    Status check(int32_t mode, std::span<const BatchField> fields) const;

    // Like build(), with the part of each plugin and with all recompute regions.
    Result<Described> describe(const BuildRequest& request) const;

    // From now on the body is described in evaluation mode, also in mode train: none of it is trained, or it is trained
    // without dropout.
    void freeze_body() { body_frozen_ = true; }
    // Returns the names of the body's parameters, without adapter, head and objective.
    Result<std::set<std::string>> body_parameters(std::span<const BatchField> fields) const;

    // Returns the fields of the objective's batch, and kAdapterRows with CompositionSpec::adapter_rows.
    // failed_precondition without an objective.
    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) const;
    // The same for a training, whose rows may hold several examples (CompositionSpec::packs_rows).
    Result<std::vector<BatchField>> training_fields(int64_t batch, int64_t length) const;
    bool packs_rows() const { return packs_rows_; }
    bool can_collate() const { return can_collate_; }
    int32_t example_kind() const { return example_kind_; } // HK_EXAMPLE_*; needs an objective
    Result<int64_t> tokens_per_example(int64_t length) const;
    // Returns the columns of a table that this objective reads; none for windows and documents.
    Result<std::vector<ColumnNeed>> columns() const;
    // Returns the length in tokens of a row that holds the whole example; 0 if the objective does not define it.
    int64_t example_length(const hk_example& example) const;
    // fields: those of batch_fields(), with zeroed storage of their sizes.
    Status collate(const hk_batch& batch, std::span<hk_field> fields) const;

    // Returns the ports that decode() of the head reads; empty without a head or without decode().
    Result<std::vector<std::string>> decode_ports() const;
    // Returns one JSON object per row.
    Result<std::vector<std::string>> decode(const hk_decode_input& input) const;
    const hk_tokenizer* tokenizer() const { return tokenizer_.view != nullptr ? &tokenizer_ : nullptr; }

    // Returns config.json of the reference implementation, as written by the architecture, with the other given members
    // and the class that has this head. With an objective also a member "hekla" with the ids of architecture, head and
    // objective, so that a folder can be opened if no class has this combination.
    Result<std::string> write_config() const;

    // Returns the adapter_config.json of PEFT for the only adapter. unsupported: there is none.
    Result<nlohmann::ordered_json> adapter_config() const;

    // The virtual tokens of the adapters, which begin every row that generation feeds.
    VirtualTokens virtual_tokens() const { return virtual_tokens_; }
    // The fields that generation computes for adapters that act from an invocation on.
    const std::vector<Invocation>& invocations() const { return invocations_; }

    const Registry& registry() const { return *registry_; }
    bool body_frozen() const { return body_frozen_; }
    const Composition* teacher() const { return teacher_.get(); } // null without one
    const Composition* value() const { return value_.get(); }     // null without one
    const std::string& head() const { return head_name_; }        // as requested in the spec
    const Provided& architecture() const { return *architecture_.entry.provided; }
    bool recompute() const { return recompute_; }                                // as requested in the spec
    const nlohmann::json& config() const { return config_; }                     // defaults included
    const std::string& objective() const { return objective_name_; }             // "" without one
    const nlohmann::json& objective_config() const { return objective_.values; } // defaults included
    bool described_apart() const { return describes_apart_; }                    // in another process
    bool isolated() const { return isolated_; } // collate and decode run in worker processes

private:
    Composition() = default;
    // Finds the plugins and their configurations, without running their code.
    static Result<std::unique_ptr<Composition>> resolve(const Registry& registry, const CompositionSpec& spec);
    static Status resolve_adapters(const Registry& registry, const CompositionSpec& spec, Composition& c);
    static Status resolve_heads(const Registry& registry, const CompositionSpec& spec, Composition& c);
    static Status resolve_objective(const Registry& registry, const CompositionSpec& spec, Composition& c);
    Status check_packing() const;
    nlohmann::json completed(const Provided& provided, const nlohmann::json& given) const;
    Status start(const text::Tokenizer* tokenizer);
    Status check_keys(const ReadKeys& read, const Log& log) const;
    // Returns the plugins that collate and decode.
    Result<PluginSet*> working() const;
    // Runs f, which describes; if a plugin fails in it, adds the command that reproduces it to the error.
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
    std::unique_ptr<Composition> teacher_, value_;
    Part architecture_, objective_;
    std::vector<Part> adapters_, combiners_; // in the order of PartsSpec
    std::vector<Part> heads_;                // without a plugin if only the architecture has the head
    std::string head_name_, objective_name_;
    nlohmann::json head_config_, objective_config_, combination_config_; // as given
    nlohmann::json given_ = nlohmann::json::object();                    // the configuration without defaults
    std::string file_;                                                   // CompositionSpec::file
    nlohmann::json notes_ = nlohmann::json::object();
    int64_t context_length_ = 0;
    std::map<std::string, std::string> prefix_;
    text::TextRules text_rules_;
    bool recompute_ = false, body_frozen_ = false, adapter_rows_ = false, refuse_unknown_keys_ = true;
    bool packs_rows_ = false;
    bool describes_apart_ = false, isolated_ = false, can_collate_ = false;
    VirtualTokens virtual_tokens_;
    std::vector<Invocation> invocations_;
    int32_t example_kind_ = HK_EXAMPLE_WINDOW;
    nlohmann::json config_;
    PartsSpec spec_;
    std::unique_ptr<TokenizerView> view_;
    hk_tokenizer tokenizer_;
    std::unique_ptr<PluginSet> parts_;
    std::unique_ptr<Provided> restored_; // used instead of a manifest
    mutable std::mutex lock_;
    mutable std::unique_ptr<PluginSet> working_;                                    // null: parts_ is used
    mutable std::map<std::pair<int64_t, int64_t>, std::vector<BatchField>> fields_; // results of batch_fields()
};

} // namespace hekla::plugin
