#include "program/lowering/matmul_problem.hpp"

#include "program/lowering/common.hpp"
#include "program/lowering/half.hpp"

#include <bit>
#include <fmt/format.h>

namespace hekla::program {

namespace {

double flops_of(const MatmulShape& s) {
    return 2.0 * static_cast<double>(s.batches * s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

int64_t elements_of(const MatmulShape& s) { return s.batches * (s.m * s.k + s.k * s.n + s.m * s.n); }

// Returns half of a size, so that rows that are aligned to eight elements stay so.
int64_t half_of(int64_t size) { return size % 8 == 0 ? divide_up(size, 16) * 8 : divide_up(size, 2); }

MatmulShape shortened(MatmulShape shape, double most_flops, int64_t most_elements) {
    const auto large = [&] { return flops_of(shape) > most_flops || elements_of(shape) > most_elements; };
    while (large() && shape.batches > 1) shape.batches = divide_up(shape.batches, 2);
    for (int64_t* size : {&shape.m, &shape.n, &shape.k})
        while (large() && *size > 512) *size = half_of(*size);
    return shape;
}

// unit: of the matrix units, if kernels use them.
KernelTrial trial_of(const MatmulShape& s, const MatmulStorage& storage, const MatrixUnit& unit) {
    KernelTrial trial;
    trial.flops = flops_of(s);
    trial.inputs = {{"a", s.batches * s.m * s.k, storage.a}, {"b", s.batches * s.k * s.n, storage.b}};
    trial.outputs = {{"c", s.batches * s.m * s.n, storage.c}};
    trial.tolerance = storage.c == Storage::f32 ? 1e-5 : storage.c == Storage::f16 ? 0x1p-10 : 0x1p-7;
    // NVIDIA's units cut off what is below the last bit of a sum, once for each multiplication of matrices.
    if (unit) trial.tolerance += static_cast<double>(divide_up(s.k, unit.k)) * 0x1p-23;
    trial.lower = [s, storage](Lowering& lowering) {
        const auto matrix = [&](const char* name, int64_t rows, int64_t columns, bool transposed, Storage stored) {
            if (transposed) std::swap(rows, columns);
            return lowering.named(ResourceKind::state, name, {s.batches, rows, columns}, stored);
        };
        multiply(lowering, matrix("a", s.m, s.k, s.transpose_a, storage.a), s.transpose_a,
                 matrix("b", s.k, s.n, s.transpose_b, storage.b), s.transpose_b,
                 matrix("c", s.m, s.n, false, storage.c), {});
    };
    return trial;
}

// Sizes are rounded up to powers of two, so that one measurement is used for all of them.
std::string bucket_of(const MatmulShape& s, const MatmulStorage& storage) {
    const auto up = [](int64_t size) { return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))); };
    return fmt::format("matmul {}{} {} {} {} [{}x {}, {}, {}]{}", s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N',
                       storage_name(storage.a), storage_name(storage.b), storage_name(storage.c), up(s.batches),
                       up(s.m), up(s.n), up(s.k), s.grouped ? " by groups" : "");
}

} // namespace

KernelProblem matmul_problem(const Limits& limits, const MatmulShape& shape, const MatmulStorage& storage) {
    KernelProblem problem;
    problem.bucket = bucket_of(shape, storage);
    problem.flops = flops_of(shape);
    problem.plainest = "direct.t4x4"; // no shared memory, the smallest tile
    for (const MatmulKernel* kernel : matmul_candidates(limits, shape)) {
        problem.kernels.push_back(matmul_option(limits, *kernel, shape));
        if (kernel->needs.matrix_units) problem.units = shape.factors;
    }
    const MatrixUnit unit = problem.units == Storage::f32 ? MatrixUnit{} : limits.matrix_unit(problem.units);
    problem.trial = [shape, storage, unit](double most_flops, int64_t most_elements) {
        return trial_of(shortened(shape, most_flops, most_elements), storage, unit);
    };
    return problem;
}

} // namespace hekla::program
