// The options of verbs that generate text: how tokens are chosen, how many, and how the model is stored.
#pragma once

#include "hekla/hekla.h"

#include <CLI/CLI.hpp>
#include <string>

namespace hekla::app {

struct GenerationChoice {
    GenerationChoice() { hk_generate_defaults(&options); }
    hk_generate_options chosen() const; // with what --greedy and --dtype mean
    int weights() const;                // hk_generate_options.weights

    hk_generate_options options{};
    bool greedy = false;
    std::string dtype = "f32";
};

// The values of `choice` are the defaults.
void add_generation_options(CLI::App& parser, GenerationChoice& choice);

} // namespace hekla::app
