// A trained model opened from a folder, or from the file that `hekla export` wrote: its plugins or their graphs, its
// tokenizer and its weights, on a device or on the host.
#pragma once

#include "base/stop_poll.hpp"
#include "graph/reference.hpp"
#include "model/folder.hpp"
#include "plugin/compose.hpp"
#include "program/program.hpp"
#include "program/runtime_source.hpp"
#include "program/shared_weights.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>
#include <memory>

namespace hekla::infer {

using Tensors = std::map<std::string, graph::Tensor, std::less<>>;

// Returns the folder with a model's weights: the folder itself, or the newest complete checkpoint of an unfinished run.
// Error: not_found, where it is neither.
Result<std::filesystem::path> weights_folder(const std::filesystem::path& folder);

struct ModelOptions {
    std::string class_name = {}; // of the reference implementation; "": the one that config.json names
    std::string head = {};       // "": the head of the class that config.json names, or none where it names none
    bool objective = false;      // with the objective that it was trained with, whose collate makes fields of texts
    // Missing or unsupported tokenizer files are an error. false: then tokenizer is null, and tokenizer_problem has the
    // reason.
    bool tokenizer_required = true;
    program::Storage weights = program::Storage::f32; // StoreOptions::weights; not for the interpreter
    bool describe_only = false;                       // weights are looked up and left unread
    // The memory of the tokenizer's tables, which must outlive it; open_model() with a runtime: the host's.
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
    // A pool through which models of this device share loaded weights; null: not shared.
    program::WeightsPool* pool = nullptr;
    bool may_wait = false; // for another model that is loading them
    StopPoll stop = {};    // ends that wait
};

// Returns the parts of a folder's model: architecture and configuration, head, and with ModelOptions::objective the
// objective it was trained with. Errors: parts that no plugin provides, a folder that does not name its model's type.
Result<plugin::CompositionSpec> stored_spec(const plugin::Registry& registry, const model::ModelFolder& folder,
                                            const ModelOptions& options = {});

class ExportedFile;

// Ownership: registry and runtime outlive it. Thread: one at a time.
struct Model {
    std::filesystem::path path;                   // of the weights
    std::shared_ptr<const ExportedFile> exported; // the file of `hekla export` that it is; null: a folder
    nlohmann::json config;
    std::unique_ptr<text::Tokenizer> tokenizer;
    Status tokenizer_problem;
    std::unique_ptr<plugin::Composition> composition;
    std::vector<program::ParameterEntry> table;     // of its parameters
    program::Runtime* runtime = nullptr;            // null: the float64 interpreter computes
    std::unique_ptr<program::ParameterStore> store; // with a runtime
    Tensors parameters;                             // and buffers; without one
};

// Returns the text before every text of a column in training ("translate English to French: "), from config.json:
// Hekla's own key, or a T5's `prefix`. "" without one.
std::string trained_prefix(const nlohmann::json& config, const std::string& column);
// Returns the text with the prefix. A text that begins with it, and an empty text, stay as they are.
std::string with_prefix(const std::string& prefix, std::string text);

// How a language model was trained to read prompts.
struct PromptStyle {
    bool both_sides = false;    // a prefix language model: see generate::Request
    std::vector<int32_t> begin; // ids before every prompt: its tokenizer's TextFrame::before
};
// Returns the style of a model. Prompts of one that Hekla trained on rows (prompt and completion) begin without those
// ids, because its objective laid out the rows without them.
Result<PromptStyle> prompt_style(const plugin::Registry& registry, const Model& model);
// Returns the ids of a prompt. The prompt may be empty where the style or the tokenizer has a token to begin with.
Result<std::vector<int32_t>> prompt_ids(const Model& model, const PromptStyle& style, const std::string& prompt);

// Opens a model without its weights: it has neither runtime nor store nor parameters. Errors as open_model().
Result<Model> describe_model(const plugin::Registry& registry, const std::filesystem::path& path,
                             const ModelOptions& options, const Log& log);
// Describes the model for the smallest batch, for callers that need only its parameters: a row of one token; one image;
// a row of choices, for heads that compare them.
Result<graph::Graph> describe_smallest(const Model& model);
// Returns whether the model's graph reads one text and writes another.
Result<bool> encoder_decoder(const Model& model);

// Opens a model; without a device it is opened for the float64 interpreter. The device is asked for after the folder's
// files were read and checked. Errors name the folder, and each tensor that is missing, unused or of the wrong shape.
Result<Model> open_model(const plugin::Registry& registry, const program::RuntimeSource& device,
                         const std::filesystem::path& path, const ModelOptions& options, const Log& log);

} // namespace hekla::infer
