// Plugin instances that run in this process.
#pragma once

#include "plugin/composition/plugin_set.hpp"
#include "plugin/registry/registry.hpp"

namespace hekla::plugin {

// registry and tokenizer (may be null) must outlive the result.
Result<std::unique_ptr<PluginSet>> make_in_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                           const hk_tokenizer* tokenizer);

} // namespace hekla::plugin
