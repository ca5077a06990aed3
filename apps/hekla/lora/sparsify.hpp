// How the elements of several tensors become one: pruning, the election of signs, weighted sums. These are the methods
// of PEFT's add_weighted_adapter.
#pragma once

#include "base/philox.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace hekla::lora {

enum class Pruning {
    none,
    magnitude, // keeps the int(density * size) largest; of equal ones, the first
    random     // keeps each with the probability `density`, divided by it (DARE, Yu et al. 2023)
};

enum class MajoritySign {
    total,    // the sign of the sum
    frequency // the sign of the sum of signs
};

struct Sparsifying {
    Pruning pruning = Pruning::none;
    // TIES (Yadav et al. 2023): of each element only the values with the majority's sign are used, and averaged. 0
    // counts as positive. Without it, all are summed.
    bool elect_signs = false;
    MajoritySign majority = MajoritySign::total;
    double density = 1.0; // above 0, up to 1; 1: no pruning
};

// Returns one tensor from tensors of one size, each multiplied by its weight. random: for Pruning::random.
std::vector<double> combined(std::vector<std::vector<double>> tensors, std::span<const double> weights,
                             const Sparsifying& how, RandomStream& random);

} // namespace hekla::lora
