// What a model answered for one document.
#pragma once

#include "harness/document.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hekla::harness {

// The likelihood of one continuation.
struct ScoredText {
    std::string text; // with the delimiter before it
    double log_likelihood = 0.0;
    bool greedy = false; // every token is the most likely one
};

struct Answer {
    Document document;
    std::string context;                // the prompt, with description and demonstrations
    std::vector<ScoredText> scored;     // of choices, of the target, or of the whole text
    std::vector<std::string> responses; // generate_until: what the model wrote, Task::repeats times
    uint64_t cut = 0;                   // tokens that were left out on the left of the prompt

    // Set by score_answers(). By the name of the filter; of choices and likelihoods only "none".
    std::map<std::string, std::string> filtered;
    std::map<std::string, std::map<std::string, double>> metrics; // those that are means over documents
    std::size_t predicted = 0;                                    // multiple_choice: the choice by total likelihood
    std::vector<double> probabilities;                            // multiple_choice: of the choices, adding up to 1
    // multiple_choice: the predicted choice is right; otherwise by the first metric with the first filter, above 0.5.
    bool correct = false;
};

} // namespace hekla::harness
