// Graphs of models, built without training: from recipes and from model folders.
#pragma once

#include "plugin/composition/compose.hpp"
#include "program/program.hpp"
#include "text/tokenizer.hpp"
#include "train/recipe/recipe.hpp"

#include <memory>

namespace hekla::app {

struct Described {
    std::unique_ptr<text::Tokenizer> tokenizer; // null if it was not needed
    std::unique_ptr<plugin::Composition> composition;
    std::vector<plugin::BatchField> fields;
    graph::Graph graph; // as the plugins described it
};

// Builds the model of a recipe in mode train, for its batch. The tokenizer is the run's if there is one, that of
// [tokenizer] from, or trained on the data (in memory) if only a trained one defines the vocabulary.
Result<Described> describe_recipe(const plugin::Registry& registry, const train::Recipe& recipe, const Log& log);

// Builds the model of a Hugging Face folder or checkpoint in mode evaluate, for rows of `length` tokens, with the
// objective it was trained with; if that needs models that the folder lacks, with its class's or without one, with a
// line in the log.
Result<Described> describe_folder(const plugin::Registry& registry, const std::filesystem::path& folder, int64_t batch,
                                  int64_t length, const Log& log);

struct Planned {
    program::MemoryPlan memory;
    double flops = 0; // of one pass
};

// Plans the memory of a graph on this device and counts its operations. Allocates nothing. A graph with gradients is
// planned with AdamW's moments, as for training.
Result<Planned> plan_of(const program::Runtime& runtime, const graph::Graph& graph);

// Prints a graph as text, with lists of more than 64 numbers shortened to the first ones and a count. The text cannot
// be parsed back.
std::string elide_lists(const std::string& graph_text);

// Returns the number of elements of all parameters.
int64_t parameter_count(const graph::Graph& graph);

} // namespace hekla::app
