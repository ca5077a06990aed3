// Measures the models of `hekla bench`: a training step, and greedy generation.
#pragma once

#include "bench_case.hpp"

#include <nlohmann/json.hpp>

namespace hekla::program {
class Runtime;
}

namespace hekla::app {

struct CaseOptions {
    std::string type = "f32";                // storage of what matrix products read
    double seconds = 10.0;                   // at least; and at least 5 steps
    bool profile = false;                    // also the time of every kernel
    std::vector<std::string> recompute = {}; // what is computed again for the gradients
    std::string frozen_type = "f32";         // storage of frozen matrices
};

// Returns "tokens_per_s", "ms_per_step" and more.
Result<nlohmann::ordered_json> measure_training(program::Runtime& runtime, const plugin::Registry& registry,
                                                const Log& log, const BenchCase& c, const CaseOptions& a);
// Returns "generate_tokens_per_s" and more. prompt: tokens.
Result<nlohmann::ordered_json> measure_generation(program::Runtime& runtime, const plugin::Registry& registry,
                                                  const Log& log, const BenchCase& c, program::Storage weights,
                                                  int64_t prompt);

// Adds the speed as a share of the device's measured peak.
Status add_share_of_peak(nlohmann::ordered_json& j, program::Runtime& runtime, program::Storage storage,
                         double flops_per_second);
// Rounds to a fraction of a unit: 10 keeps one digit after the point.
double rounded(double value, double per_unit);
const char* long_name(program::Storage storage); // "float32"

} // namespace hekla::app
