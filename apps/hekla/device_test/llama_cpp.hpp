// The cases of the lab in llama.cpp, if it is installed.
#pragma once

#include "bench_case.hpp"
#include "report/report_file.hpp"

namespace hekla::app {

// Generates 64 tokens with `llama-bench` (on the PATH) and a model of the case's shape, in float32, of zeros and
// without adapters, which is written to a temporary folder. cpu: on the CPU, else where it computes by itself. Returns
// "program" and "generate_tokens_per_s", or "problem". Errors: writing the model.
Result<report::Line> generate_with_llama_cpp(const plugin::Registry& registry, const BenchCase& c, bool cpu,
                                             double seconds);
// Whether llama-bench is on the PATH.
Result<bool> finds_llama_cpp();

} // namespace hekla::app
