// hekla doctor --test: compares this device, or the float64 interpreter, with the reference implementation.
#pragma once

#include "bisect.hpp"
#include "command.hpp"

namespace hekla::app {

struct VerifyArguments {
    std::vector<std::string> folders;
    bool json = false, reference = false;
    bool bisect = false;
    BisectOptions bisection;
    // Tighter limits than the device's, for tests.
    gpu::CapabilityOverrides overrides;
    bool gpu_kernels = false;
    bool gpu_assisted = false;
    std::string dtype = "f32";
};

void add_verify_options(CLI::App& parser, VerifyArguments& a); // all but folders, --dtype and --json
int run_verify(const Globals& globals, const VerifyArguments& a);

} // namespace hekla::app
