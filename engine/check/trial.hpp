// What a test has while it runs: the plugin, a place to say what it finds, and small networks that the plugin is part
// of.
#pragma once

#include "batch/collate.hpp"
#include "check/check.hpp"
#include "data/encoded.hpp"
#include "plugin/compose.hpp"
#include "program/program.hpp"
#include "train/recipe.hpp"
#include "train/run_data.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace hekla::check {

class Trial {
public:
    const plugin::Manifest& manifest() const { return *manifest_; }
    const plugin::Registry& registry() const { return *registry_; }
    // Operations of the plugin's own; they are not among what its manifest provides, from level 2 on.
    const std::vector<plugin::Provided>& operations() const { return operations_; }
    // Told which plugin's function is about to run in this process, and when none does any more.
    void watch(plugin::Registry::Witness witness) { registry_->set_witness(std::move(witness)); }
    uint64_t seed() const { return seed_; }
    const std::filesystem::path& folder() const { return folder_; } // of its own, empty at first

    // Said before something that may not come back: a crash or a hang is put down to it.
    void doing(const std::string& what) const;
    void fail(const std::string& what);                          // the test goes on
    void skip(const std::string& why);                           // of one thing that the plugin provides
    void note(const std::string& what);                          // to be read, and no fault
    void require(const Status& status, const std::string& what); // fail() where it is none

    const std::filesystem::path& cache_folder() const { return cache_; }

private:
    void done() const; // everything was tried
    friend Status run_test(const std::string& name, const CheckOptions& options);
    const plugin::Manifest* manifest_ = nullptr;
    plugin::Registry* registry_ = nullptr;
    std::vector<plugin::Provided> operations_;
    uint64_t seed_ = 1;
    std::filesystem::path folder_, cache_;
};

// What is wrong with how something was refused: without a reason, or by an exception. Empty where nothing is.
std::string bad_refusal(const Status& status);

// "architecture 'mixer'"
std::string name_of(const plugin::Provided& provided);

// A network around one thing that the plugin provides, as small as its manifest's "check" says: with it config, head,
// objective, head_config, objective_config and, for heads and objectives, architecture may be chosen; "skip", with the
// reason, leaves it out. Data for it,
// which can be learnt, is written into `folder`. Errors: parts that do not fit together; cancelled: there is nothing to
// be tried.
Result<train::Recipe> small_recipe(const Trial& trial, const plugin::Provided& provided);

// The same network with its tokenizer and examples.
struct Small {
    std::unique_ptr<train::Recipe> recipe; // the data points at it
    train::RunData data;
    std::unique_ptr<text::Tokenizer> tokenizer;
    plugin::CompositionSpec spec;
    std::unique_ptr<plugin::Composition> composition;
    std::vector<data::EncodedExample> examples;
    int64_t length = 0; // of rows
};
Result<Small> small_network(const Trial& trial, const plugin::Provided& provided);

// The batch of these examples; rows behind them are the objective's padding.
Result<std::vector<data::Field>> batch_of(const Small& small, std::span<const data::EncodedExample> examples,
                                          int64_t batch, int64_t length, uint64_t seed);

// Parameters and buffers of a graph for the interpreter: as they begin, plus noise, so that no gain is exactly 1 and no
// bias 0; the same for the same name and seed.
graph::Feeds feeds_of(const graph::Graph& graph, std::span<const data::Field> fields, uint64_t seed);

// How a device is to be.
struct DeviceSetting {
    uint32_t subgroup = 0;            // lanes; 0: as it is
    uint32_t shared_memory_bytes = 0; // of a group, at most; 0: as it is
    bool assisted = false;            // with the validation layer, which finds addresses out of bounds; slow
};
// Once a process: a driver reads some of this when it is loaded. cancelled: no device here can be so.
Result<std::unique_ptr<program::Runtime>> make_runtime(const Trial& trial, const DeviceSetting& setting = {});

} // namespace hekla::check
