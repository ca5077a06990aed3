// A reward of a plugin, which provides hekla.reward.draft/1.
#pragma once

#include "plugin/registry/registry.hpp"
#include "reward/reward.hpp"

#include <memory>
#include <nlohmann/json.hpp>

namespace hekla::reward {

// name: of the reward in the recipe. config: its keys. Errors: those of the registry and the plugin; a key that the
// plugin's manifest does not have. `registry` must outlive the result.
Result<std::unique_ptr<Reward>> make_plugin_reward(const std::string& name, const std::string& id,
                                                   const nlohmann::json& config, const plugin::Registry& registry);

} // namespace hekla::reward
