#version 450
#extension GL_GOOGLE_include_directive : require
// Transposes B [batches, N, K] as stored, with rows ldb apart, to dense [batches, K, N], for matmul/uniform: lanes
// along K, S rows per group.
#include "common.glsl"
#include "lanes.glsl"
#include "matmul/record.h"

PUSH_RECORD(TransposeRecord);

void main() {
    TransposeRecord r = record;
    HEKLA_GROUP(group, r)
    const uint n0 = (group % r.row_groups) * S;
    const uint batch = group / r.row_groups;
    const uint64_t from = r.from + (uint64_t(batch / r.batch_inner) * r.outer + uint64_t(batch % r.batch_inner) * r.inner) * 4ul;
    const uint64_t to = r.to + uint64_t(batch) * r.n * r.k * 4ul;
    uint k0 = 0;
    do {
        const uint first = min(k0, max(r.k, S) - S);
        const uint k = first + gl_SubgroupInvocationID;
        [[unroll]] for (uint i = 0; i < S; ++i) {
            const uint n = min(n0 + i, r.n - 1);
            const float x = load_consecutive(from + (uint64_t(n) * r.ld + first) * 4ul);
            if (k < r.k) store_float(to, uint64_t(k) * r.n + n, x, kF32);
        }
        k0 += S;
    } while (k0 < r.k);
}
