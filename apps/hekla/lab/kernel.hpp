// What the stages of the lab share: its kernels, inputs whose results are known, and times.
#pragma once

#include "gpu/capabilities.hpp"
#include "lab/lab.hpp"
#include "program/lowering/dispatch.hpp"
#include "program/tuning_bench.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::lab {

// The longest time of one dispatch, in seconds: others wait for the device meanwhile.
constexpr double kLongest = 0.1;
// The time of the dispatches that are measured.
constexpr double kMeasured = 0.02;

// Returns whether the build has a kernel of the lab: those of matrix units need a newer glslc, or lab/shaders/compiled.
bool has_kernel(const std::string& name);
// Returns a dispatch of a kernel of lab/shaders, by the name of its row.
Result<program::Dispatch> dispatch_of(const std::string& name, std::vector<uint32_t> constants);
// Returns a record with its head, to which the members are added in the order of the kernel.
program::Record begin_record();

Result<std::unique_ptr<program::TuningBench>> make_bench(program::Runtime& runtime);
// Works until the clock of a GPU has risen.
Status warm_up(program::Runtime& runtime);

// Numbers from -1 to 1, as stored; large tensors repeat their first million.
std::vector<std::byte> random_numbers(int64_t elements, program::Storage storage, uint64_t stream);
// Element i of a tensor in memory.
double number_at(std::span<const std::byte> bytes, program::Storage storage, uint64_t i);

// A product A B of stored factors.
struct Product {
    int64_t m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
    std::string layout() const { return {transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N'}; }
};
// Halves the sizes, none below `least`, until the product takes kMeasured at this speed.
Product shortened(Product product, double flops_per_second, int64_t least);

// The outcome of a stage that this device, or this build, cannot run.
report::Outcome not_measured(const std::string& why);

// Compares 64 elements of c = f(A B, x) with float64. x: float16, one for each element of c; empty: zeros. Returns what
// is wrong; empty: nothing.
std::string compare_product(const Product& product, std::span<const std::byte> a, std::span<const std::byte> b,
                            program::Storage factors, std::span<const std::byte> c, program::Storage result,
                            double (*f)(double, double) = nullptr, std::span<const std::byte> x = {});

// Returns the speed of the stage units in operations per second: of matrix units for factors in this storage, or of
// float32; measured now if the report does not have it.
Result<double> peak_of(const Input& input, program::Storage factors);

const char* component_name(gpu::ComponentType type); // as in reports: "f16", "bf16", "f32", "other"

// Rounds to four digits, for reports.
double rounded(double value);

} // namespace hekla::lab
