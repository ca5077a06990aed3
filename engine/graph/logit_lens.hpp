// What the head would say of each layer: for looking inside, not for training.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// A graph whose outputs have "logits" and "layer.0.hidden" to "layer.L.hidden" gets outputs "lens.0" to "lens.L": what
// lies between the last layer and the logits, done to "layer.N.hidden" instead. A norm that ends the network, not each
// layer of it, is part of that. "lens.L" is the logits themselves. Gives L + 1.
// not_found: one of those outputs is missing; unsupported: the logits do not depend on the last layer.
Result<int64_t> add_logit_lens(Graph& graph);

} // namespace hekla::graph
