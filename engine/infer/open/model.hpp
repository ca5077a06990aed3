// A trained model, of a folder or of the file that `hekla export` wrote: its plugins or their graphs, its tokenizer and
// its weights, on a device or on the host. open_model.hpp opens it.
#pragma once

#include "base/stop_poll.hpp"
#include "generate/settings.hpp"
#include "infer/adapters/adapter_uses.hpp"
#include "infer/adapters/lora_slots.hpp"
#include "infer/adapters/separated_tie.hpp"
#include "infer/open/tensors.hpp"
#include "program/lowering/parameter_table.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

namespace hekla::model {
class ModelFolder;
}
namespace hekla::plugin {
struct BatchField;
struct BuildRequest;
class Composition;
struct CompositionSpec;
struct Described;
struct ModelTensor;
struct Provided;
struct ReferenceClass;
class Registry;
} // namespace hekla::plugin
namespace hekla::program {
class ParameterStore;
class Runtime;
class WeightsPool;
} // namespace hekla::program
namespace hekla::text {
class TextEncoder;
}

namespace hekla::infer {

struct ModelOptions {
    std::string class_name = {}; // of the reference implementation; "": the one in config.json
    std::string head = {};       // "": the head of the class in config.json, or none if it has none
    bool objective = false;      // with the objective that it was trained with, whose collate turns texts into fields
    // Whether missing or unsupported tokenizer files are an error. false: then tokenizer is null, and tokenizer_problem
    // has the reason.
    bool tokenizer_required = true;
    program::Storage weights = program::Storage::f32; // StoreOptions::weights; not for the interpreter
    bool panels = false;                              // StoreOptions::panels; only for weights that nothing else reads
    bool describe_only = false;                       // weights are found but not read
    AdapterUses adapters = {};                        // on the body that the model is
    bool adapters_by_row = false;                     // each row chooses one of them (kAdapterRows)
    SlotOptions slots = {};                           // count above 0: rows choose slots, which can change
    // The memory of the tokenizer's tables, which must outlive it; for open_model() with a runtime: the host's.
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
    // A pool through which models of this device share loaded weights; null: not shared.
    program::WeightsPool* pool = nullptr;
    bool may_wait = false; // for another model that is loading the same weights
    StopPoll stop = {};    // ends the wait
};

// Returns whether a model with these heads ("lm+value") has this one.
bool has_head(std::string_view heads, std::string_view head);

// Returns the parts of a folder's model: architecture and configuration, head, and with ModelOptions::objective the
// objective it was trained with. Errors: parts that no plugin provides, a folder without its model's type.
Result<plugin::CompositionSpec> stored_spec(const plugin::Registry& registry, const model::ModelFolder& folder,
                                            const ModelOptions& options = {});

// Returns what a class of the reference implementation computes with this configuration, which `file` contains,
// without what Hekla's training wrote there. objective: with that of the class.
plugin::CompositionSpec class_spec(const plugin::Provided& architecture, const plugin::ReferenceClass& reference,
                                   nlohmann::json config, std::string file, bool objective);

class ExportedFile;
struct StoredAdapter;

// An opened model. Ownership: registry and runtime outlive it. Thread: one at a time.
struct Model {
    Model();
    Model(Model&& other) noexcept;
    Model& operator=(Model&& other) noexcept;
    ~Model();

    std::filesystem::path path;                   // of the weights
    std::shared_ptr<const ExportedFile> exported; // the file of `hekla export`; null: a folder
    nlohmann::json config;
    generate::FolderSettings generation;
    std::unique_ptr<text::Tokenizer> tokenizer;
    Status tokenizer_problem;
    std::unique_ptr<plugin::Composition> composition;
    std::vector<StoredAdapter> adapters; // ModelOptions::adapters, in order
    std::optional<SeparatedTie> untied;  // tied in the folder, and not with its only adapter
    std::vector<SlotContent> slots;      // UsedAdapters::slots
    bool has_slots = false;              // these, or those of ModelOptions::slots
    bool rows_choose = false;            // each row chooses a slot or an adapter (kAdapterRows)
    std::vector<plugin::ModelTensor> slot_parameters;
    std::string body_weights;                       // with slots: the hash of the body's weights
    std::vector<program::ParameterEntry> table;     // of its parameters
    std::set<std::string, std::less<>> own;         // parameters that are not of the body's files
    program::Runtime* runtime = nullptr;            // null: the float64 interpreter is used
    std::unique_ptr<program::ParameterStore> store; // with a runtime
    Tensors parameters;                             // and buffers; without a runtime
};

// Returns what makes ids of texts by the rules that the model was trained by. Requires a tokenizer.
text::TextEncoder text_encoder(const Model& model);

// Returns the text before every text of a column in training ("translate English to French: "), from config.json:
// Hekla's own key, or a T5's `prefix`. "" without one.
std::string trained_prefix(const nlohmann::json& config, const std::string& column);
// Returns the text with the prefix. A text that begins with it, and an empty text, are unchanged.
std::string with_prefix(const std::string& prefix, const std::string& text);

// Returns the fields of the smallest batches that a model of this configuration may take, to be tried in order: a row
// of one token, then a row of one choice; for images one image.
std::vector<std::vector<plugin::BatchField>> smallest_batches(const nlohmann::json& config);
// Describes body and heads, without an objective, for the smallest batch; `request` gets its fields. Errors: the
// architecture's.
Result<plugin::Described> describe_smallest(const plugin::Composition& composition, const nlohmann::json& config,
                                            plugin::BuildRequest& request);
// Describes the model for the smallest batch, for callers that need only its parameters: a row of one token; one image;
// a row of choices, for heads that compare them.
Result<graph::Graph> describe_smallest(const Model& model);
// Returns whether the model's graph reads one text and generates another.
Result<bool> encoder_decoder(const Model& model);

} // namespace hekla::infer
