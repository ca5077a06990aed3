// Random numbers and dropout. graph/reference.hpp defines the numbers.
#pragma once

#include "graph/feeds.hpp"

namespace hekla::graph {

// Returns the 32-bit word of element `element` of example `example` of a stream.
uint32_t random_word(const Feeds& feeds, int64_t stream, int64_t example, int64_t element);

// Returns the factor of dropout for an element: 0 or 1 / (1 - probability).
double dropout_factor(const Feeds& feeds, int64_t stream, double probability, int64_t example, int64_t element);

} // namespace hekla::graph
