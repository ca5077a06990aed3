// The models of `hekla bench` and `hekla kernels --case`: GPT-2 in four sizes.
#pragma once

#include "base/log.hpp"
#include "plugin/compose.hpp"
#include "program/lowering/compile_options.hpp"
#include "train/recipe.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hekla::app {

// A step is `batch` rows of `context` tokens.
struct BenchCase {
    const char* name;
    int64_t vocabulary, layers, width, heads, context, batch;
};
std::vector<std::string> bench_case_names();
const BenchCase* find_bench_case(const std::string& name); // null if it does not exist

// Returns the model of a case with the objective clm and without dropout.
Result<std::unique_ptr<plugin::Composition>> compose_case(const plugin::Registry& registry, const BenchCase& c,
                                                          const Log& log);
// AdamW with clipping at 1.
train::TrainSection case_settings();
// `f16`, `bf16`; anything else is f32.
program::Storage storage_named(const std::string& type);

} // namespace hekla::app
