// A trained model opened from a folder, or from the file that `hekla export` wrote: its plugins or their graphs, its
// tokenizer and its weights, on a device or on the host.
#pragma once

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

// The folder that holds a model's weights: the folder itself, or, for a run, its newest complete checkpoint where the
// run has not been finished. not_found: it is neither.
Result<std::filesystem::path> weights_folder(const std::filesystem::path& folder);

struct ModelOptions {
    std::string class_name = {}; // of the reference implementation; "": the one that config.json names
    std::string head = {};       // "": the head of the class that config.json names, or none where it names none
    bool objective = false;      // with the objective that it was trained with, whose collate makes fields of texts
    // Tokenizer files that are missing or not understood are an error. false: tokenizer is null then, and
    // tokenizer_problem says why.
    bool tokenizer_required = true;
    program::Storage weights = program::Storage::f32; // StoreOptions::weights; not for the interpreter
    bool describe_only = false;                       // weights are looked up and left unread
    // Where the tokenizer's tables lie, which must outlive it; open_model() with a runtime: the host's.
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
    // Where weights that others of this device have loaded are found, and others find these; null: its own.
    program::WeightsPool* pool = nullptr;
    bool may_wait = false;                    // for another who is loading them
    std::function<bool()> stopping = nullptr; // ends that wait
};

// What a folder says of its model's parts: architecture and configuration, head, with ModelOptions::objective the
// objective it was trained with. Errors: parts that nobody provides, a folder that does not say what model it is.
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

// What stood before every text of a column when the model was trained ("translate English to French: "), as its
// config.json says: Hekla's own, or a T5's `prefix`. "" where it says nothing.
std::string trained_prefix(const nlohmann::json& config, const std::string& column);
// The text with it, once: one that begins with it stays as it is, and one that says nothing too.
std::string with_prefix(const std::string& prefix, std::string text);

// How a language model was trained to read prompts.
struct PromptStyle {
    bool both_sides = false;    // a prefix language model: see generate::Request
    std::vector<int32_t> begin; // ids before every prompt: its tokenizer's TextFrame::before
};
// Prompts of a model that was trained on rows (prompt and completion) begin with nothing: its objective laid those out.
Result<PromptStyle> prompt_style(const plugin::Registry& registry, const Model& model);
// Returns the ids of a prompt, which may be empty where the style or the tokenizer has a token to begin with.
Result<std::vector<int32_t>> prompt_ids(const Model& model, const PromptStyle& style, const std::string& prompt);

// What the folder says without its weights: neither runtime nor store nor parameters. Errors as open_model().
Result<Model> describe_model(const plugin::Registry& registry, const std::filesystem::path& path,
                             const ModelOptions& options, const Log& log);
// The model described for as little as it takes, when only its parameters matter: a row of one token; one image; a row
// of choices, for heads that compare them.
Result<graph::Graph> describe_smallest(const Model& model);
// Whether it reads one text and writes another, as its graph says; config.json need not.
Result<bool> encoder_decoder(const Model& model);

// Without a device it is opened for the float64 interpreter. The device is asked for when the folder's files are read
// and checked. Errors name the folder, and each tensor that is missing, left over or misshapen.
Result<Model> open_model(const plugin::Registry& registry, const program::RuntimeSource& device,
                         const std::filesystem::path& path, const ModelOptions& options, const Log& log);

} // namespace hekla::infer
