// hekla doctor --kernels: the kernels of a training step, a pass or a generated token, and what the driver's compiler
// reports about them.
#pragma once

#include "command.hpp"

namespace hekla::app {

struct KernelsArguments {
    std::string recipe, bench_case, model;
    std::vector<std::string> overrides, fixtures;
    bool generate = false;
    std::string type = "f32";
    int64_t rows = 1, length = 128;
    bool json = false;
    std::string isa;         // folder for the kernels' code; empty: not written
    bool candidates = false; // the kernels that could be chosen, in place of those that are
};

void add_kernels_options(CLI::App& parser, KernelsArguments& a); // all but recipe, overrides, --dtype and --json
int run_kernels(const Globals& globals, const KernelsArguments& a);

} // namespace hekla::app
