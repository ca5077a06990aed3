// The options of verbs that generate text: how tokens are chosen, how many, and how the model is stored.
#pragma once

#include "hekla/hekla.h"
#include "hekla/options.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

struct GenerationChoice {
    GenerationChoice() { hk_generate_defaults(&options); }
    // Returns the options with what --greedy and --dtype mean. They point into this and into `views`.
    hk_generate_options chosen(hk::Views& views) const;
    int weights() const; // hk_generate_options.weights

    hk_generate_options options{};
    bool greedy = false;
    // --as-published, and the options that it sets where they are not given, with their HK_PUBLISHED_ bits.
    bool as_published = false;
    std::vector<std::pair<const CLI::Option*, int32_t>> published;
    std::vector<std::string> stop_texts, logit_biases;
    std::string dtype = "f32";
};

// The values of `choice` are the defaults.
void add_generation_options(CLI::App& parser, GenerationChoice& choice);

} // namespace hekla::app
