#version 450
#extension GL_GOOGLE_include_directive : require
// counts[matrix] = the number of rows that choose it: one subgroup per matrix.
#include "common.glsl"
#include "lanes.glsl"
#include "row_linear/record.h"

PUSH_RECORD(CountRecord);

void main() {
    CountRecord r = record;
    HEKLA_GROUP(matrix, r)
    uint count = 0;
    uint base = 0;
    do {
        const uint row = base + gl_SubgroupInvocationID;
        const int choice = load_int(r.choice, uint64_t(min(row, r.rows - 1)));
        count += subgroupBallotBitCount(subgroupBallot(row < r.rows && choice == int(matrix)));
        base += S;
    } while (base < r.rows);
    if (gl_SubgroupInvocationID == 0) store_int(r.counts, uint64_t(matrix), int(count));
}
