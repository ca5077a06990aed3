// One LoRA adapter from several, as PEFT's add_weighted_adapter makes it.
#pragma once

#include "lora/low_rank.hpp"
#include "lora/sparsify.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace hekla::lora {

enum class Form {
    matrices, // A and B are combined, each by itself: equal ranks
    stacked,  // the ranks are added: the exact weighted sum
    changes   // the changes of the weight are combined, and the result is decomposed
};

struct Combination {
    std::string_view name; // PEFT's combination_type
    Form form;
    Pruning pruning;
    bool elect_signs;
};

// linear, cat, svd, ties, dare_linear, dare_ties, magnitude_prune, and the last four with "_svd".
std::span<const Combination> combinations();
std::optional<Combination> combination_named(std::string_view name);

// What one adapter does at a module: its result is multiplied by `scale` (lora_alpha / r), and by `weight` in the
// combination.
struct Term {
    LowRank factors;
    double scale = 1.0, weight = 1.0;
};

struct CombinationOptions {
    Combination how;
    MajoritySign majority = MajoritySign::total;
    double density = 1.0;
    int64_t rank = 0; // of the result, for Form::changes
};

// Combines the terms of one module; the result is used with scale 1. Form::matrices multiplies A and B by the square
// root of |scale * weight| each, A with its sign. Error: invalid_argument, matrices of different sizes.
Result<LowRank> combine(std::span<const Term> terms, const CombinationOptions& options, RandomStream& random);

} // namespace hekla::lora
