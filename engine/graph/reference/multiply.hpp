// Matrix products in double precision.
#pragma once

#include <cstdint>

namespace hekla::graph {

// c [m, n] = a [m, k] b [k, n], optionally added to c. A transposed operand is stored as [k, m] or [n, k].
struct Product {
    int64_t m = 0, k = 0, n = 0;
    bool transpose_a = false, transpose_b = false;
    bool accumulate = false;
};
void multiply(const Product& product, const double* a, const double* b, double* c);

} // namespace hekla::graph
