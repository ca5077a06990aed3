#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// The second pass of a matmul with split K: adds the partial sums in the order of K and applies the epilogue. The
// record is the matmul's own, with `a` the partial sums [splits, batches, M, N] and C the result; 64 elements per
// workgroup.
#include "common.glsl"
#define TYPES_ID 1
#include "matmul/tile.glsl"

layout(constant_id = 0) const uint EPILOGUE = 0;
layout(local_size_x = 64) in;

void main() {
    Record r = record;
    HEKLA_GROUP(group, r)
    const uint per_batch = (r.m * r.n + 63) / 64;
    const uint batch = group / per_batch;
    const uint element = (group % per_batch) * 64 + gl_LocalInvocationID.x;
    const bool in_range = element < r.m * r.n;
    const uint e = min(element, r.m * r.n - 1);
    const uint64_t step = uint64_t(r.batches) * r.m * r.n;
    float sum = 0.0;
    uint64_t at = uint64_t(batch) * r.m * r.n + e;
    uint split = 0;
    do {
        sum += load_float(r.a, at, kF32);
        at += step;
    } while (++split < r.splits);

    const uint m = e / r.n, n = e % r.n;
    const uint inner = batch % r.batch_inner, outer = batch / r.batch_inner;
    const uint64_t c = uint64_t(outer) * r.c_outer + uint64_t(inner) * r.c_inner + uint64_t(m) * r.ldc + n;
    float bias = (EPILOGUE & kBias) != 0 ? load_float(r.bias, n, kF32) : 0.0;
    float residual = (EPILOGUE & kResidual) != 0 ? load_float(r.residual, uint64_t(m) * r.ldr + n, kF32) : 0.0;
    float before = (EPILOGUE & kAccumulate) != 0 ? load_float(r.c, c, kC) : 0.0;
    float argument = has_argument(EPILOGUE) ? load_float(r.other, c, kC) : 0.0;
    float value = finish(sum, bias, residual, before, argument, EPILOGUE);
    if (in_range) {
        if ((EPILOGUE & kStoreBefore) != 0) store_float(r.other, c, before_activation(sum, bias, EPILOGUE), kC);
        if ((EPILOGUE & kStoreActivation) != 0) store_float(r.again, c, activation_of(argument, EPILOGUE), kC);
        store_float(r.c, c, value, kC);
    }
}
