// A part of a lowering that several kernels can compute: which ones, and the same problem alone, for measuring them.
#pragma once

#include "program/lowering/view.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

class Lowering;

// A way to compute a problem. What it leaves open is decided by the rules of lowering, equally on every run. As text,
// "tiled.t64 splits=4 lanes=32", it is recorded with a run.
struct KernelChoice {
    std::string kernel;
    uint32_t splits = 0; // parts of a product's K; 0: by rule
    uint32_t lanes = 0;  // subgroup size; 0: by rule

    std::string text() const;
    // Text that is not a choice, as of another version, becomes the name of a kernel that does not exist.
    static KernelChoice parse(std::string_view text);
    bool operator==(const KernelChoice&) const = default;
};

// A kernel that can compute a problem, and what may be tried besides the rules.
struct KernelOption {
    std::string kernel;
    std::vector<uint32_t> splits = {}, lanes = {};
    bool matrix_units = false;
};

// A tensor of a trial: a state of this name, dense.
struct TrialTensor {
    std::string name;
    int64_t elements = 0;
    Storage storage = Storage::f32;
};

// A problem alone, with tensors of its own.
struct KernelTrial {
    double flops = 0;
    std::vector<TrialTensor> inputs; // any numbers from -1 to 1
    std::vector<TrialTensor> outputs;
    double tolerance = 0; // of the largest element of an output: kernels differ by rounding
    // Appends the dispatches. Lowering::trial has the choice, and Lowering::limits the device's limits.
    std::function<void(Lowering&)> lower;
};

struct KernelProblem {
    std::string key;                   // "matmul NT f32 [1x 512, 512, 512]": the key in Lowering::choices
    std::string bucket;                // equal for problems that share a measurement
    std::vector<KernelOption> kernels; // the preferred one first; not empty
    std::vector<std::string> forms;    // other forms of them, which no search takes and the lab compares
    std::string plainest;              // the simplest kernel, whose results others are compared with
    Storage units = Storage::f32;      // the factors' storage if a kernel uses matrix units
    double flops = 0;
    // Returns a trial of the problem's size, or of fewer batches and rows, so that neither is exceeded.
    std::function<KernelTrial(double most_flops, int64_t most_elements)> trial;
};

} // namespace hekla::program
