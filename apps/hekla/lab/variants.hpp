// Variants of a product of float16 factors, measured against each other.
#pragma once

#include "lab/kernel.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hekla::lab {

struct Variant {
    std::string name;                                   // unique among those that are compared
    report::Line facts = report::Line::object();        // what a row of the report has besides name and speed
    int64_t rows = 0, columns = 0, depth = 0;           // of which M, N and K are multiples
    std::string missing = {};                           // why this device cannot run it; empty: it can
    bool rounds = false;                                // C is stored in float16, not float32
    double (*epilogue)(double sum, double x) = nullptr; // null: C is the sum
    bool reads_x = false;                               // float16 [M, N]
    // Dispatches that read the states "a", "b" and "x" and write "c".
    std::function<Result<program::Lowering>(const Product&)> lower = {};
};

// Each variant is checked before it is measured; then they are measured in turns. Products are shortened until one
// takes kMeasured. The outcome has "products", each with "variants": kernel, flops, and its facts.
Result<report::Outcome> compare_variants(const Input& input, const std::vector<Product>& products,
                                         const std::vector<Variant>& variants);

} // namespace hekla::lab
