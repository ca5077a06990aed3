// The float64 interpreter: every operation of the table on the CPU, plainly. It is what kernels, passes and plugins are
// held against, and `hekla verify --reference` runs whole models on it.
#pragma once

#include "graph/graph.hpp"

#include <functional>

namespace hekla::graph {

struct Tensor {
    Kind kind = Kind::float_;
    Shape shape;
    std::vector<double> data; // row-major; integers are exact
};

// Everything that a run of a graph reads from outside. Leaves that are missing are an error naming them; a buffer that
// is not given has the value described in the graph.
struct Feeds {
    std::map<std::string, Tensor, std::less<>> fields; // inputs
    std::map<std::string, Tensor, std::less<>> parameters;
    std::map<std::string, Tensor, std::less<>> buffers;
    std::map<std::string, double, std::less<>> step_scalars; // default: the leaf's initial
    uint64_t seed = 0;
    uint64_t step = 0;
    uint64_t first_example = 0; // of this micro-batch in the step
};

// Random numbers of dropout, random_* and attention's dropout: element e of example b (the first dimension; e counts
// within the example, row-major) uses word e mod 4 of philox({e / 4, first_example + b, step, stream}, {seed low, seed
// high}); uniform = word / 2^32. dropout keeps where word >= probability * 2^32. attention's e = (h * Tq + i) * Tk + j.
// random_normal: Box-Muller of words (0, 1) for even e and (2, 3) for odd e of element pair block e / 2:
// sqrt(-2 log((w0 + 1) / 2^32)) cos(2 pi w1 / 2^32). A counter keeps the low 32 bits of what does not fit.
//
// Where kernels could differ and must not: integers wrap at 32 bits; attention's lse [B, Hq, Tq, 2] is a row's greatest
// score m and log(sum exp(score - m)), apart because their sum loses the latter where a bias of -1e30 is on all keys;
// of a row with nothing allowed it is (0, 1e30), so that exp(score - lse) is 0, and dropout leaves that row's mean
// alone; attention_cached gives 0 in rows from count[b] on. Where a kernel has to make something up and this is an
// error: indices, labels, positions and lengths outside their range, and integer division by 0.

// Values of the wanted nodes, in their order. Computes only what they need; frees what is not needed any more.
// Caches of attention_cached live in `caches` by cache name and are updated (keys "NAME.k", "NAME.v").
Result<std::vector<Tensor>> evaluate(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                     std::map<std::string, Tensor>* caches = nullptr);

// As evaluate(), and hands every node's outputs to `visit` as they are computed (verify --bisect, dumps).
Result<std::vector<Tensor>> evaluate_visiting(const Graph& graph, const Feeds& feeds, std::span<const ValueId> wanted,
                                              const std::function<void(NodeId, std::span<const Tensor>)>& visit);

} // namespace hekla::graph
