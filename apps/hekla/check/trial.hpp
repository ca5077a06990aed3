// The environment of a test: the plugin, a way to report findings, and small networks with the plugin.
#pragma once

#include "data/encoded.hpp"
#include "graph/reference.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/registry/registry.hpp"
#include "text/tokenizer.hpp"
#include "train/recipe/recipe.hpp"
#include "train/run/run_data.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Runtime;
}

namespace hekla::check {

class Trial {
public:
    // `manifest` and `registry` must outlive it. `folder`: of this test, empty. `cache_folder`: of compiled kernels;
    // empty: none.
    Trial(const plugin::Manifest& manifest, plugin::Registry& registry, std::vector<plugin::Provided> operations,
          uint64_t seed, std::filesystem::path folder, std::filesystem::path cache_folder)
        : manifest_(&manifest), registry_(&registry), operations_(std::move(operations)), seed_(seed),
          folder_(std::move(folder)), cache_(std::move(cache_folder)) {}

    const plugin::Manifest& manifest() const { return *manifest_; }
    const plugin::Registry& registry() const { return *registry_; }
    // The plugin's own operations. From level 2 on, manifest() does not contain them.
    const std::vector<plugin::Provided>& operations() const { return operations_; }
    // Sets a callback for plugin functions that run in this process (see Registry::Witness).
    void watch(plugin::Registry::Witness witness) { registry_->set_witness(std::move(witness)); }
    uint64_t seed() const { return seed_; }
    const std::filesystem::path& folder() const { return folder_; } // of this test, empty at first

    // Announces an action; a crash or hang is attributed to the last one.
    void doing(const std::string& what) const;
    void fail(const std::string& what);                          // the test continues
    void skip(const std::string& why);                           // for one thing that the plugin provides
    void note(const std::string& what);                          // a remark, not a failure
    void require(const Status& status, const std::string& what); // fail() if it is an error
    void done() const;                                           // announces the end of the test

    const std::filesystem::path& cache_folder() const { return cache_; }

private:
    const plugin::Manifest* manifest_;
    plugin::Registry* registry_;
    std::vector<plugin::Provided> operations_;
    uint64_t seed_;
    std::filesystem::path folder_, cache_;
};

// Returns what is wrong with an error: no message, or an exception. Empty if nothing is.
std::string bad_refusal(const Status& status);

// Returns "architecture 'mixer'".
std::string name_of(const plugin::Provided& provided);

// Returns whether the manifest declares that a token depends only on those before it, with this configuration.
bool is_causal(const plugin::Provided& provided, const nlohmann::json& config);

// Creates a small network around one thing that the plugin provides. "check" of its manifest can set config, head,
// objective, head_config, objective_config, learning_rate and, for heads and objectives, architecture;
// plugins/README.md documents it. Data that the network can learn is written to `folder`. Errors: parts that do not fit
// together; cancelled: nothing to test.
Result<train::Recipe> small_recipe(const Trial& trial, const plugin::Provided& provided);

// The same network with its tokenizer and examples.
struct Small {
    std::unique_ptr<train::Recipe> recipe; // referenced by the data
    train::RunData data;
    std::unique_ptr<text::Tokenizer> tokenizer;
    plugin::CompositionSpec spec;
    std::unique_ptr<plugin::Composition> composition;
    std::vector<data::EncodedExample> examples;
    int64_t length = 0; // tokens per row
};
Result<Small> small_network(const Trial& trial, const plugin::Provided& provided);

// Makes the batch of these examples; further rows are the objective's padding.
Result<std::vector<data::Field>> batch_of(const Small& small, std::span<const data::EncodedExample> examples,
                                          int64_t batch, int64_t length, uint64_t seed);

// Returns parameters and buffers of a graph for the interpreter: initial values plus noise, so that no gain is exactly
// 1 and no bias 0. Equal for equal names and seeds.
graph::Feeds feeds_of(const graph::Graph& graph, std::span<const data::Field> fields, uint64_t seed);

// Overrides of device properties.
struct DeviceSetting {
    uint32_t subgroup = 0;            // lanes; 0: no override
    uint32_t shared_memory_bytes = 0; // limit per workgroup; 0: no override
    bool assisted = false;            // with the validation layer, which finds out-of-bounds addresses; slow
};
// Creates a runtime. Call it once per process, since drivers read some settings when they are loaded. cancelled: no
// device supports them.
Result<std::unique_ptr<program::Runtime>> make_runtime(const Trial& trial, const DeviceSetting& setting = {});

} // namespace hekla::check
