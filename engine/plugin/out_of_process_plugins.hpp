// Plugins' instances in a process of their own: the program hekla-describe, which knows graphs and plugins and nothing
// of Vulkan. It is started with the parts, asked over a socket, and ends with them. What it says is checked
// as a stranger's words are; graphs come as text.
//
// What that costs, on two busy cores: 20 ms for a process with its plugins, from start to end; GPT-2's graph of 12
// blocks 12 ms instead of 10; a batch of 4 x 1024 tokens from a worker 0.21 ms instead of 0.09
// (test_plugin -tc='measure*' --no-skip).
#pragma once

#include "plugin/plugin_set.hpp"
#include "plugin/registry.hpp"

namespace hekla::plugin {

enum class WorkerPurpose {
    describing, // one process; a plugin that ends it, or keeps it too long, is blamed (Registry::blame)
    working,    // collate, decode and example_length: a process a thread that asks, begun again when it ends
};

// manifests: those that the parts may need, in the registry's order. Everything given must outlive the parts. Errors:
// the program is not there, or what make_in_process_plugins says.
Result<std::unique_ptr<PluginSet>> make_out_of_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                               const hk_tokenizer* tokenizer, WorkerPurpose purpose);

} // namespace hekla::plugin
