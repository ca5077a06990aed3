// Measures the choices of one problem.
#pragma once

#include "base/log.hpp"
#include "program/tuning_bench.hpp"

namespace hekla::program {

// Returns the fastest choice whose results are correct, as far as it is found before `deadline` of benches.now().
Result<KernelChoice> fastest_choice(const TuningBenches& benches, const KernelProblem& problem, double deadline,
                                    const Log& log);

} // namespace hekla::program
