// The float64 interpreter: a simple CPU implementation of every operation. Kernels, passes and plugins are compared
// with it, and `hekla doctor --test --reference` runs whole models on it.
#pragma once

#include "graph/feeds.hpp"
#include "graph/graph.hpp"
#include "graph/tensor.hpp"

#include <functional>

namespace hekla::graph {

// Random numbers of dropout, random_* and attention's dropout: element e of example b (the first dimension; e counts
// within the example, row-major) uses word e mod 4 of philox({e / 4, first_example + b, step, stream}, {seed low, seed
// high}); uniform = word / 2^32. dropout keeps where word >= probability * 2^32. attention's e = (h * Tq + i) * Tk + j.
// truncated_normal: TruncatedNormal of the word of random_uniform. random_normal: Box-Muller of words (0, 1) for even e
// and (2, 3) for odd e of element pair block e / 2: sqrt(-2 log((w0 + 1) / 2^32)) cos(2 pi w1 / 2^32). Counters keep
// the low 32 bits.
//
// Cases in which kernels must not differ: integers wrap at 32 bits; attention's lse [B, Hq, Tq, 2] is a row's greatest
// score m and log(sum exp(score - m)), stored separately because their sum loses the latter if all keys have a bias of
// -1e30; for a row with nothing allowed it is (0, 1e30), so that exp(score - lse) is 0, and dropout does not
// change that row's mean; attention_cached gives 0 in rows from count[b] on. These are errors here and undefined in
// kernels: indices, labels, positions and lengths outside their range, and integer division by 0.

// Returns the wanted values, in order. Computes only what they need, and frees values after their last use.
// Caches of attention_cached live in `caches` by cache name and are updated (keys "NAME.k", "NAME.v").
Result<std::vector<Tensor>> evaluate(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                     std::map<std::string, Tensor>* caches = nullptr);

// Like evaluate(), and calls `visit` with every node's outputs (verify --bisect, dumps).
Result<std::vector<Tensor>> evaluate_visiting(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                              const std::function<void(NodeId, std::span<const Tensor>)>& visit);

// Like evaluate(), with the float values that `chosen` (by value) contains replaced by round() of each element before
// anything reads them: what storing them in fewer bits does to the results.
Result<std::vector<Tensor>> evaluate_rounded(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                             const std::vector<bool>& chosen,
                                             const std::function<double(double)>& round);

} // namespace hekla::graph
