// What a model is composed of: architecture, adapters, heads and objective with their configurations.
#pragma once

#include "text/text_encoder.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::plugin {

// A plugin's id and its configuration, completed by defaults.
struct PartSpec {
    std::string id;
    nlohmann::json config = nlohmann::json::object();
};

// An adapter of a model.
struct AdapterSpec {
    std::string name; // "" if it is the only one
    PartSpec part;
    bool trained = true; // false: its parameters stay as its folder has them
};
// Returns "adapter 'lora'", or "adapter 'french' (lora)".
std::string what_of(const AdapterSpec& adapter);

struct CompositionSpec {
    std::string architecture;
    nlohmann::json config = nlohmann::json::object(); // config.json, or a recipe's [model] table
    std::string file;                                 // of config.json, for messages; "": not of a file
    // Adapters, with the configurations that were given; the names of their parameters begin with kAdapter. Several
    // have names, and a combination (combination.hpp) with the configuration of its combiners.
    std::vector<AdapterSpec> adapters;
    std::string combination;
    nlohmann::json combination_config = nlohmann::json::object();
    int64_t adapter_rows = 0; // N above 0: batches have kAdapterRows, by which each row chooses one of N
    std::string head;         // "" for none; several heads: "mlm+span_boundary"
    nlohmann::json head_config = nlohmann::json::object();
    std::string objective; // "" for none
    nlohmann::json objective_config = nlohmann::json::object();
    // Members of config.json that no plugin reads, e.g. the names of classes.
    nlohmann::json notes = nlohmann::json::object();
    // Teacher model for distillation, in the same graph, in evaluation mode and without an objective. Its ports and
    // parameters are named "teacher.NAME".
    std::shared_ptr<const CompositionSpec> teacher;
    // A value function with a body of its own, in the same graph and trained with it, without an objective. Its ports
    // and parameters are named "value.NAME". It is described with the objective, and where one of its ports is asked
    // for.
    std::shared_ptr<const CompositionSpec> value;
    bool packs_rows = false;                   // rows of a training hold several examples (row_packing.hpp)
    int64_t context_length = 0;                // tokens per row in training, for config.json; 0: unknown
    std::map<std::string, std::string> prefix; // put before each text of a column in training, for config.json
    text::TextRules text_rules; // how texts become ids, for the tokenizer that plugins see and for config.json
    // Unknown keys are an error (a recipe), or only those that change the computation (neutral_keys.hpp), with a
    // warning in the log for the others (a downloaded config.json).
    bool refuse_unknown_keys = true;
    // Keep the regions whose activations may be recomputed (graph::recompute) in mode train. Otherwise, and in other
    // modes, graphs have no regions, so that operations can be fused across their borders.
    bool recompute = false;
    // Run collate and decode in worker processes, regardless of Processes::isolate.
    bool isolate = false;
};

} // namespace hekla::plugin
