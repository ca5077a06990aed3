// Logit lens: the logits that the head gives for each layer. For inspection, not for training.
#pragma once

#include "graph/graph.hpp"

namespace hekla::graph {

// A graph whose outputs have "logits" and "layer.0.hidden" to "layer.L.hidden" gets outputs "lens.0" to "lens.L": the
// operations between the last layer and the logits, applied to "layer.N.hidden". A norm at the end of the network (not
// of each layer) is included. "lens.L" is the logits themselves. Returns L + 1.
// not_found: one of those outputs is missing; unsupported: the logits do not depend on the last layer.
Result<int64_t> add_logit_lens(Graph& graph);

} // namespace hekla::graph
