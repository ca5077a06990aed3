// Sums over the rows of a product's factor, computed while the product's kernel reads it: a linear's bias has as its
// gradient the sum of the matrix that the gradient of the weight is multiplied from, so that matrix is read once less.
#pragma once

#include "graph/graph.hpp"

#include <map>
#include <vector>

namespace hekla::program {

struct ColumnSums {
    graph::NodeId node = 0; // the sum, of Op::sum
    bool of_b = false;      // of the second factor, [K, N]; otherwise of the first, which is stored [K, M]
};

// Returns the sums by the node of the product. A kernel may still leave them to a kernel of their own.
std::map<graph::NodeId, ColumnSums> find_column_sums(const graph::Graph& graph, const std::vector<bool>& needed);

} // namespace hekla::program
