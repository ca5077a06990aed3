// The options of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace observatory {

struct Arguments {
    std::string model, text, recipe, overrides, log, panel = "training", use;
    bool train = false, write = false, plan = false;
    bool headless = false, validate = false;
    std::string screenshot, controls, device, font, cache;
    std::vector<std::string> plugin_path, adapters;
    int width = 1600, height = 1000;
    double budget = 4000, seconds = 120, scale = 1.0;
};

// Panel names that --panel accepts, in the order of the tabs.
inline constexpr const char* kPanelNames[] = {"training", "attention", "embeddings", "lens", "weights",
                                              "write",    "adapters",  "routing",    "plan"};

// Returns false if the program should exit, after --help or a wrong option, with CLI11's status in `exit_code`.
bool read_arguments(int argc, char** argv, Arguments& arguments, int& exit_code);

} // namespace observatory
