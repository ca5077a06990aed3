// What the matmul kernels are told, and where a group's tile lies.
#include "math.glsl"

// How A, B and C are stored, two bits each; the rest is float32. Variants without 16-bit storage know float32 alone.
#ifdef STORAGE16
layout(constant_id = TYPES_ID) const uint TYPES = 0;
#else
const uint TYPES = 0;
#endif
const uint kA = TYPES & 3u;
const uint kB = (TYPES >> 2) & 3u;
const uint kC = (TYPES >> 4) & 3u;

RECORD(Record) {
    HEKLA_RECORD
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t bias;     // [N], with kBias
    uint64_t residual; // as C with its own row stride, with kResidual
    uint m, n, k;
    uint lda, ldb, ldc, ldr; // elements between rows as stored
    uint batch_inner;        // batches are outer * batch_inner + inner
    uint a_outer, a_inner;   // elements between batches; 0 repeats
    uint b_outer, b_inner;
    uint c_outer, c_inner;
    uint r_outer, r_inner;
    uint tiles_m, tiles_n;
    uint splits;  // of K, each a tile's own group; above 1 C is [splits, batches, M, N] of partial sums
    uint k_split; // the length of a split
    uint batches;
    uint unused;
};
PUSH_RECORD(Record);

const uint kBias = 1u;
const uint kResidual = 2u;
const uint kAccumulate = 4u;
const uint kActivationShift = 4u; // 0 none, 1 relu, 2 gelu by tanh, 3 gelu by erf

float finish(float x, float bias, float residual, float before, uint epilogue) {
    if ((epilogue & kBias) != 0u) x += bias;
    uint activation = epilogue >> kActivationShift;
    if (activation == 1u) x = x > 0.0 || is_nan(x) ? x : 0.0;
    if (activation == 2u) x = gelu_tanh(x);
    if (activation == 3u) x = gelu_erf(x);
    if ((epilogue & kResidual) != 0u) x += residual;
    if ((epilogue & kAccumulate) != 0u) x += before;
    return x;
}

struct Place {
    uint64_t a, b, c, residual; // of this batch (c: of this split too)
    uint m0, n0, k0, k1;
};

// Groups count splits fastest, then columns, rows, batches: neighbours share A.
Place place(Record r, uint group, uint tile_m, uint tile_n) {
    Place p;
    uint split = group % r.splits;
    uint rest = group / r.splits;
    p.n0 = (rest % r.tiles_n) * tile_n;
    rest /= r.tiles_n;
    p.m0 = (rest % r.tiles_m) * tile_m;
    uint batch = rest / r.tiles_m;
    uint inner = batch % r.batch_inner, outer = batch / r.batch_inner;
    p.a = r.a + (uint64_t(outer) * r.a_outer + uint64_t(inner) * r.a_inner) * bytes_of(kA);
    p.b = r.b + (uint64_t(outer) * r.b_outer + uint64_t(inner) * r.b_inner) * bytes_of(kB);
    p.c = r.c + (uint64_t(outer) * r.c_outer + uint64_t(inner) * r.c_inner +
                 uint64_t(split) * r.batches * r.m * r.n) * bytes_of(kC);
    p.residual = r.residual + (uint64_t(outer) * r.r_outer + uint64_t(inner) * r.r_inner) * 4ul;
    p.k0 = split * r.k_split;
    p.k1 = min(p.k0 + r.k_split, r.k);
    return p;
}
