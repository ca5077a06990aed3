#version 450
#extension GL_GOOGLE_include_directive : require
// Sorts rows by the matrix that they choose, and in a matrix by their number, into tiles of `height` slots. Each matrix has
// whole tiles, at least one, so that its slots are a range that is not empty. One subgroup per matrix writes its tiles and
// slots; the last also the tiles that are left, and the first the rows without a matrix.
#include "common.glsl"
#include "lanes.glsl"
#include "row_linear/record.h"

PUSH_RECORD(PlaceRecord);

uint tiles_of(PlaceRecord r, uint matrix) {
    return max(1u, (uint(load_int(r.counts, uint64_t(matrix))) + r.height - 1u) / r.height);
}

// Sets elements [first, end) to `value`.
void fill(uint64_t to, uint first, uint end, int value) {
    uint base = first;
    while (base < end) {
        const uint i = base + gl_SubgroupInvocationID;
        if (i < end) store_int(to, uint64_t(i), value);
        base += S;
    }
}

void main() {
    PlaceRecord r = record;
    HEKLA_GROUP(matrix, r)
    uint first_tile = 0;
    uint before = 0;
    while (before < matrix) {
        first_tile += tiles_of(r, before);
        ++before;
    }
    const uint end_tile = first_tile + tiles_of(r, matrix);
    uint slot = first_tile * r.height;
    if (gl_SubgroupInvocationID == 0) store_int(r.first_slot, uint64_t(matrix), int(slot));
    uint base = 0;
    do {
        const uint row = base + gl_SubgroupInvocationID;
        const int choice = load_int(r.choice, uint64_t(min(row, r.rows - 1)));
        const uvec4 mine = subgroupBallot(row < r.rows && choice == int(matrix));
        const uint at = slot + subgroupBallotExclusiveBitCount(mine);
        if (row < r.rows && choice == int(matrix)) {
            store_int(r.row_of_slot, uint64_t(at), int(row));
            store_int(r.slot_of_row, uint64_t(row), int(at));
        }
        const bool nowhere = choice < 0 || choice >= int(r.matrices);
        if (matrix == 0 && row < r.rows && nowhere) store_int(r.slot_of_row, uint64_t(row), -1);
        slot += subgroupBallotBitCount(mine);
        base += S;
    } while (base < r.rows);
    fill(r.row_of_slot, slot, end_tile * r.height, -1);
    fill(r.matrix_of_tile, first_tile, end_tile, int(matrix));
    if (matrix + 1 == r.matrices) {
        fill(r.row_of_slot, end_tile * r.height, r.tiles * r.height, -1);
        fill(r.matrix_of_tile, end_tile, r.tiles, -1);
        if (gl_SubgroupInvocationID == 0) store_int(r.first_slot, uint64_t(r.matrices), int(end_tile * r.height));
    }
}
