// A product as a problem for Lowering::choose(), and its trials.
#pragma once

#include "program/lowering/kernel_problem.hpp"
#include "program/lowering/matmul_kernels.hpp"

namespace hekla::program {

// How the operands of a product are stored.
struct MatmulStorage {
    Storage a = Storage::f32, b = Storage::f32, c = Storage::f32;
};

// Returns the problem without its key.
KernelProblem matmul_problem(const Limits& limits, const MatmulShape& shape, const MatmulStorage& storage);

} // namespace hekla::program
