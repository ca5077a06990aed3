// A value function of reinforcement learning with a network of its own ([value]): what it is, what it begins with, and
// how it is saved. It is trained in the policy's graph, under names that begin with plugin::kValueFunction.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <memory>

namespace hekla::graph {
struct Graph;
}
namespace hekla::plugin {
class Composition;
struct CompositionSpec;
class Registry;
} // namespace hekla::plugin
namespace hekla::program {
class ParameterStore;
}
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

// The checkpoint's file and the run's folder with its weights.
inline constexpr const char* kValueWeights = "value";

// Returns the network of [value]; null without it. policy: complete except for this. Errors: the folder's; a folder of
// another tokenizer or of an adapter.
Result<std::shared_ptr<const plugin::CompositionSpec>> value_spec(const Recipe& recipe,
                                                                  const plugin::Registry& registry,
                                                                  const text::Tokenizer& tokenizer,
                                                                  const plugin::CompositionSpec& policy);

// Uploads its initial values: those of the folder, or the policy's, which have been uploaded. Does nothing without
// [value].
Status start_value(const Recipe& recipe, const plugin::Composition& composition, const graph::Graph& described,
                   program::ParameterStore& store, const std::function<void(const std::string&)>& message);

// Loads what a checkpoint stores of it.
Status load_value(const std::filesystem::path& checkpoint, const graph::Graph& described,
                  program::ParameterStore& store);

// Writes it as a model's folder, with which another run can begin ([value] from).
Status save_value(const std::filesystem::path& folder, const plugin::CompositionSpec& spec,
                  const plugin::Registry& registry, const text::Tokenizer& tokenizer, const graph::Graph& described,
                  program::ParameterStore& store);

} // namespace hekla::train
