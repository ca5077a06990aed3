// Shared by the matmul kernels: the storage of the operands, the epilogue on a sum before it is stored, and the
// location of a workgroup's tile.
#include "math.glsl"
#include "matmul/record.h"

// Storage of A, B and C, two bits each; everything else is float32. Variants without 16-bit storage support only
// float32.
#ifdef STORAGE16
layout(constant_id = TYPES_ID) const uint TYPES = 0;
#else
const uint TYPES = 0;
#endif
const uint kA = TYPES & 3u;
const uint kB = (TYPES >> 2) & 3u;
const uint kC = (TYPES >> 4) & 3u;

#ifdef GROUPED_ID
layout(constant_id = GROUPED_ID) const uint GROUPED = 0;
#else
const uint GROUPED = 0;
#endif

PUSH_RECORD(Record);

bool has_argument(uint epilogue) { return (epilogue >> kActivationShift) >= kActivationGeluTanhGradient; }

// Returns the sum before the activation, as it is stored.
float before_activation(float x, float bias, uint epilogue) {
    if ((epilogue & kBias) != 0u) x += bias;
#ifdef STORAGE16
    if ((epilogue & kStoreBefore) != 0u && kC != kF32) x = unpack_half(kC, pack_half(kC, x));
#endif
    return x;
}
// Returns the activation whose gradient is in the epilogue, as the forward pass computed it.
float activation_of(float argument, uint epilogue) {
    return epilogue >> kActivationShift == kActivationGeluTanhGradient ? gelu_tanh(argument) : gelu_erf(argument);
}
// argument: of the activation's gradient.
float finish(float x, float bias, float residual, float before, float argument, uint epilogue) {
    x = before_activation(x, bias, epilogue);
    uint activation = epilogue >> kActivationShift;
    if (activation == kActivationRelu) x = x > 0.0 || is_nan(x) ? x : 0.0;
    if (activation == kActivationGeluTanh) x = gelu_tanh(x);
    if (activation == kActivationGelu) x = gelu_erf(x);
    if (activation == kActivationGeluTanhGradient) x = gelu_tanh_gradient(x, argument);
    if (activation == kActivationGeluGradient) x = gelu_erf_gradient(x, argument);
    if ((epilogue & kResidual) != 0u) x += residual;
    if ((epilogue & kAccumulate) != 0u) x += before;
    return x;
}

struct Tile {
    uint64_t a, b, c; // of this batch (c: of this split too)
    uint m0, n0, k0, k1;
};

Tile tile_at(Record r, uint row, uint column, uint split, uint batch, uint tile_m, uint tile_n) {
    Tile tile;
    tile.m0 = row * tile_m;
    tile.n0 = column * tile_n;
    uint inner = batch % r.batch_inner, outer = batch / r.batch_inner;
    const int chosen = GROUPED == kChosenB ? load_int(r.groups, uint64_t(batch)) : int(inner);
    tile.a = r.a + (uint64_t(outer) * r.a_outer + uint64_t(inner) * r.a_inner) * bytes_of(kA);
    tile.b = r.b + (uint64_t(outer) * r.b_outer + uint64_t(uint(max(chosen, 0))) * r.b_inner) * bytes_of(kB);
    tile.c = r.c + (uint64_t(outer) * r.c_outer + uint64_t(inner) * r.c_inner +
                 uint64_t(split) * r.batches * r.m * r.n) * bytes_of(kC);
    tile.k0 = split * r.k_split;
    tile.k1 = chosen < 0 ? tile.k0 : min(tile.k0 + r.k_split, r.k);
    if (GROUPED == kRangesOfK) {
        tile.k0 = uint(load_int(r.groups, uint64_t(batch)));
        tile.k1 = uint(load_int(r.groups, uint64_t(batch + 1)));
    }
    return tile;
}

// Groups count splits fastest, then columns, rows, batches, so that neighbors share A.
Tile tile_of(Record r, uint group, uint tile_m, uint tile_n) {
    uint split = group % r.splits, rest = group / r.splits;
    uint column = rest % r.tiles_n;
    rest /= r.tiles_n;
    return tile_at(r, rest % r.tiles_m, column, split, rest / r.tiles_m, tile_m, tile_n);
}

// Groups count rows fastest, then columns, splits, batches, so that neighbors share a split of B's columns, which then
// stays in a CPU's cache.
Tile tile_by_rows(Record r, uint group, uint tile_m, uint tile_n) {
    uint row = group % r.tiles_m, rest = group / r.tiles_m;
    uint column = rest % r.tiles_n;
    rest /= r.tiles_n;
    return tile_at(r, row, column, rest % r.splits, rest / r.splits, tile_m, tile_n);
}
