// The body of a model with adapters: what a run does not train and does not save, because it stays in its own folder.
#pragma once

#include "train/recipe/recipe.hpp"
#include "train/update/parameter_rules.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
struct BatchField;
class Composition;
struct CompositionSpec;
class Registry;
} // namespace hekla::plugin
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

// Checks that the tokenizer of a training with adapters is its body's: adapters leave the body's embeddings as they
// are, and other ids would mean other tokens.
Status check_tokenizer_of_body(const Recipe& recipe, const text::Tokenizer& tokenizer);

class AdaptedBody {
public:
    AdaptedBody() = default; // without adapters: everything is of the run
    // Adds to `rules` what a run with adapters does not train: all but the adapters, what they select of the body, a
    // new head, and modules_to_save. names: all parameters; body: those of the body, without the head. Errors: an
    // adapter that acts nowhere; nothing left to train.
    static Result<AdaptedBody> freeze(const Recipe& recipe, const plugin::Registry& registry,
                                      const plugin::CompositionSpec& spec, const plugin::Composition& composition,
                                      const graph::Graph& described, const std::vector<plugin::BatchField>& fields,
                                      const std::vector<std::string>& names, const std::set<std::string>& body,
                                      ParameterRules& rules);

    bool is_kept() const { return !base_.empty(); } // in a folder of its own
    // Returns whether a parameter or buffer is in that folder.
    bool contains(const std::string& name) const { return is_kept() && names_.contains(name); }
    nlohmann::json weights() const {
        return is_kept() ? nlohmann::json(base_.at("weights")) : nlohmann::json();
    } // hash
    // Returns the config.json of a model's folder, which names the body.
    Result<std::string> config_text(const std::string& of_model, const std::filesystem::path& folder) const;

private:
    nlohmann::ordered_json base_; // infer::base_of() the model, or null
    std::set<std::string> names_; // parameters and buffers
};

} // namespace hekla::train
