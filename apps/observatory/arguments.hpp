// What the command line says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace observatory {

struct Arguments {
    std::string model, text, recipe, overrides, log, panel = "training";
    bool train = false, write = false, plan = false;
    bool headless = false, validate = false;
    std::string screenshot, controls, device, font, cache;
    std::vector<std::string> plugin_path;
    int width = 1600, height = 1000;
    double budget = 4000, seconds = 120, scale = 1.0;
};

// Panels by the names that --panel takes, in the order of the tabs.
inline constexpr const char* kPanelNames[] = {"training", "attention", "embeddings", "lens",
                                              "weights",  "write",     "plan"};

// Exits as CLI11 does where it says --help or is not understood: `exit_code` is that, and false comes back.
bool read_arguments(int argc, char** argv, Arguments& arguments, int& exit_code);

} // namespace observatory
