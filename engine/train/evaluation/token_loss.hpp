// Whether a loss is a mean over tokens, of which exp() is the perplexity.
#pragma once

#include "graph/graph.hpp"

namespace hekla::train {

// Returns whether the only loss of a graph is the mean negative log probability of tokens: a sum of cross entropies
// over `vocabulary` classes or more, without smoothing and weights. Classes, spans, rewards and preferences are not
// tokens.
bool is_token_loss(const graph::Graph& graph, int64_t vocabulary);

} // namespace hekla::train
