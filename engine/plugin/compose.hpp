// Architecture + head + objective = one graph. Holds the plugin instances of one model.
#pragma once

#include "plugin/host_config.hpp"
#include "plugin/host_graph.hpp"
#include "plugin/host_tokenizer.hpp"
#include "plugin/registry.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"

namespace hekla::plugin {

struct CompositionSpec {
    std::string architecture;
    nlohmann::json config = nlohmann::json::object(); // config.json, or a recipe's [model] table
    std::string head;                                 // "" for none
    nlohmann::json head_config = nlohmann::json::object();
    std::string objective; // "" for none
    nlohmann::json objective_config = nlohmann::json::object();
    // Keys that no plugin knows are an error (a recipe) or a warning in the log (a downloaded config.json).
    bool refuse_unknown_keys = true;
    // Keep the regions whose activations may be computed again (graph::recompute) in mode train. Otherwise, and in
    // other modes, graphs come without them: operations fuse and are shared across their borders.
    bool recompute = false;
};

// Thread: build and write_config one at a time; collate from many threads at once.
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
    // train and evaluate.
    Result<graph::Graph> build(int32_t mode, std::span<const BatchField> fields,
                               std::span<const std::string> ports = {}, bool all_ports = false) const;

    // The batch of this objective. failed_precondition without one.
    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) const;
    Result<int64_t> tokens_per_example(int64_t length) const;
    bool can_collate() const { return objective_ != nullptr && objective_->collate != nullptr; }
    // fields: as batch_fields() gave them, with zeroed storage of their sizes.
    Status collate(std::span<const hk_example> examples, uint64_t seed, uint64_t epoch,
                   std::span<hk_field> fields) const;

    // config.json of the reference, as the architecture writes it, with what else was given and the class that has this
    // head.
    Result<std::string> write_config() const;

    const Provided& architecture() const { return *architecture_entry_.provided; }
    bool recompute() const { return recompute_; } // as asked for in the spec
    const nlohmann::json& config() const { return config_.values; } // defaults included

private:
    Composition() = default;
    Registry::Entry architecture_entry_;
    const hk_architecture* architecture_ = nullptr;
    const hk_head* head_ = nullptr;
    const hk_objective* objective_ = nullptr;
    void* architecture_self_ = nullptr;
    void* head_self_ = nullptr;
    void* objective_self_ = nullptr;
    std::string architecture_id_, head_id_, objective_id_; // for messages
    std::string head_name_, objective_name_;
    nlohmann::json given_ = nlohmann::json::object(); // the configuration without defaults
    bool recompute_ = false;
    hk_config config_;
    hk_tokenizer tokenizer_;
};

} // namespace hekla::plugin
