// Plugin instances in a separate process: the program hekla-describe, which links graphs and plugins but not Vulkan. It
// is started for one composition, answers requests over a socket, and ends with it. Its output is not trusted: every
// message is checked, and graphs are sent as text.
//
// Measured on two busy cores: 20 ms for a process with its plugins, from start to end; GPT-2's graph of 12 blocks takes
// 12 ms instead of 10; a batch of 4 x 1024 tokens from a worker takes 0.21 ms instead of 0.09 (test_plugin
// -tc='measure*' --no-skip).
#pragma once

#include "plugin/composition/plugin_set.hpp"
#include "plugin/process/worker_purpose.hpp"
#include "plugin/registry/registry.hpp"

namespace hekla::plugin {

// Everything given must outlive the result. Errors: hekla-describe was not found; those of make_in_process_plugins().
Result<std::unique_ptr<PluginSet>> make_out_of_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                               const hk_tokenizer* tokenizer, WorkerPurpose purpose);

} // namespace hekla::plugin
