// The k largest of each row, descending, the lower index first at ties: one invocation per row. Each iteration takes
// the largest of the elements that come after the previous one in this order.
#version 460
#include "pointwise/elements.glsl"
#include "scan/record.h"

PUSH_RECORD(TopKRecord);

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        const uint row = i * record.width;
        float last = 0.0;
        uint last_index = 0u;
        uint n = 0u;
        do {
            float best = 0.0;
            uint best_index = 0xFFFFFFFFu;
            uint j = 0u;
            do {
                const float v = FloatArray(record.x).at[row + j];
                const bool after = n == 0u || v < last || (v == last && j > last_index);
                if (after && (best_index == 0xFFFFFFFFu || v > best)) {
                    best = v;
                    best_index = j;
                }
            } while (++j < record.width);
            if (in_range) {
                FloatArray(record.values).at[i * record.k + n] = best;
                IntArray(record.indices).at[i * record.k + n] = int(best_index);
            }
            last = best;
            last_index = best_index;
        } while (++n < record.k);
    })
}
