#version 450
#extension GL_GOOGLE_include_directive : require
//! variant plain
//! variant 16 STORAGE16
// Packs B [batches, K, N] for matmul/uniform, which then reads each tile's columns from one stretch of memory: panels
// [batches, panels, K, W] of W = S * TN columns, in the order in which the kernel's vectors have them. A vector that would
// reach past the last column begins earlier; one that begins past it repeats another. B is stored so, or (TRANSPOSED)
// as [N, K], of which a group packs the columns of a vector; of [K, N] it packs kRowsPacked rows, so that it reads them from
// their begin to their end.
#include "common.glsl"
#include "lanes.glsl"
#include "matmul/record.h"

layout(constant_id = 1) const uint TN = 4;
layout(constant_id = 2) const uint TRANSPOSED = 0;
layout(constant_id = 3) const uint FROM = 0; // storage
layout(constant_id = 4) const uint TO = 0;   // FROM, or float32

PUSH_RECORD(PackRecord);

#ifdef STORAGE16
// Bits of 16, which are only moved, or of a float32.
#define ELEMENT uint
uint load_elements(uint64_t address) {
    const uint bits = load_consecutive_16(address);
    return TO == kF32 ? floatBitsToUint(unpack_half(FROM, bits)) : bits;
}
void store_element(uint64_t address, uint64_t i, uint x) {
    if (TO == kF32)
        Words(address + i * 4ul).v[0] = x;
    else
        Words16(address + i * 2ul).v[0] = uint16_t(x);
}
#else
#define ELEMENT float
float load_elements(uint64_t address) { return load_consecutive(address); }
void store_element(uint64_t address, uint64_t i, float x) { store_float(address, i, x, kF32); }
#endif

void main() {
    PackRecord r = record;
    HEKLA_GROUP(group, r)
    const uint W = S * TN, lane = gl_SubgroupInvocationID;
    const uint K = r.k, N = r.n;
    const uint groups = TRANSPOSED != 0 ? r.panels * TN : (K + kRowsPacked - 1) / kRowsPacked;
    const uint share = group % groups, batch = group / groups;
    const uint64_t from = r.from + (uint64_t(batch / r.batch_inner) * r.outer + uint64_t(batch % r.batch_inner) * r.inner) * bytes_of(FROM);
    const uint64_t to = r.to + uint64_t(batch) * r.panels * K * W * bytes_of(TO);
    const uint last = max(N, S) - S; // where a vector can begin
    if (TRANSPOSED != 0) {
        const uint n0 = min(share * S, last);
        const uint64_t panel = uint64_t(share / TN) * K;
        uint k0 = 0;
        do {
            const uint first = min(k0, max(K, S) - S);
            const uint k = first + lane;
            [[unroll]] for (uint i = 0; i < S; ++i) {
                const uint n = min(n0 + i, N - 1);
                const ELEMENT x = load_elements(from + (uint64_t(n) * r.ld + first) * bytes_of(FROM));
                if (k < K) store_element(to, (panel + k) * W + share % TN * S + i, x);
            }
            k0 += S;
        } while (k0 < K);
    } else {
        uint panel = 0;
        do {
            [[unroll]] for (uint i = 0; i < kRowsPacked; ++i) {
                const uint k = min(share * kRowsPacked + i, K - 1);
                const uint64_t row = from + uint64_t(k) * r.ld * bytes_of(FROM);
                const uint64_t place = (uint64_t(panel) * K + k) * W + lane;
                [[unroll]] for (uint c = 0; c < TN; ++c) {
                    const uint n0 = min((panel * TN + c) * S, last);
                    store_element(to, place + c * S, load_elements(row + uint64_t(n0) * bytes_of(FROM)));
                }
            }
        } while (++panel < r.panels);
    }
}
