// The numbers of a step that was taken.
#pragma once

#include "exchange/communicator.hpp"
#include "train/update/step_outcome.hpp"

#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

// The loss of one step or batch, and its parts.
struct StepLoss {
    double total = 0.0;                                  // each loss times its weight, summed
    std::vector<std::pair<std::string, double>> losses;  // each before its weight; empty if there is one
    std::vector<std::pair<std::string, double>> metrics; // those that the objective reports in training
};

// The tokens of a step's batches, on all ranks.
struct StepTokens {
    double all = 0.0;    // of their rows, padding included
    double labels = 0.0; // that are predicted (data::Batch::label_tokens)
};

struct TakenStep {
    StepLoss loss;
    StepOutcome outcome;
    StepTokens tokens;
    exchange::Traffic exchange{}; // with other ranks
    bool labels = true;           // false: no element of its batch counts in a loss, so it changed no weight
};

} // namespace hekla::train
