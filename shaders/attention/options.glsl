// Shared by the attention kernels: which pairs are allowed, the terms added to a score (operations.json defines them),
// dropout. A lane is a query (forward, dq) or a key (dk, dv); the other side is the same for all lanes.
#include "common.glsl"
#include "runtime.h"
#include "philox.glsl"
#include "math.glsl"
#include "lanes.glsl"
#include "attention/record.h"

layout(constant_id = 1) const uint D = 32;       // of queries and keys
layout(constant_id = 2) const uint DV = 32;      // of values
layout(constant_id = 3) const uint W = 1;        // elements per load: with 2 D, DV and all strides are even
layout(constant_id = 4) const uint BLOCK = 4;    // of the other side, processed together
layout(constant_id = 5) const uint OPTIONS = 0;

// lse of a row is its largest score m and log(sum exp(score - m)), stored separately because their sum would lose the
// logarithm if all scores are -1e30. This is the logarithm if no key is allowed: exp(score - kEmptyRow) is 0.
const float kEmptyRow = 1e30;

PUSH_RECORD(Record);

bool has(uint option) { return (OPTIONS & option) != 0; }

int query_position(Record r, uint b, uint i) {
    return has(kPositions) && r.q_position != 0ul ? load_int(r.q_position, uint64_t(b) * r.queries + i) : int(i);
}
int key_position(Record r, uint b, uint j) {
    return has(kPositions) && r.k_position != 0ul ? load_int(r.k_position, uint64_t(b) * r.keys + j) : int(j);
}
uint bucket(Record r, int distance) {
    int at = clamp(distance - r.distance_first, 0, int(r.table_length) - 1);
    return uint(load_int(r.table, uint64_t(uint(at))));
}
uint key_bucket(Record r, int distance) {
    int at = clamp(-distance - r.key_distance_first, 0, int(r.key_table_length) - 1);
    return uint(load_int(r.key_table, uint64_t(uint(at))));
}
bool crosses(Record r, uint b, uint i, uint j) {
    return load_int(r.q_class, uint64_t(b) * r.queries + i) != load_int(r.k_class, uint64_t(b) * r.keys + j);
}

bool is_allowed(Record r, uint b, uint h, uint i, uint j) {
    bool allowed = true;
    if (has(kCausal | kWindow)) {
        const int place = key_position(r, b, j);
        const int distance = query_position(r, b, i) - place;
        if (has(kCausal)) {
            bool ahead = distance < 0;
            if (has(kPrefix)) ahead = ahead && place >= load_int(r.prefix, uint64_t(b));
            allowed = !ahead;
        }
        if (has(kWindow)) allowed = allowed && distance < r.window;
    }
    if (has(kKeyPadding)) allowed = allowed && load_int(r.key_padding, uint64_t(b) * r.keys + j) != 0;
    if (has(kQueryPadding)) allowed = allowed && load_int(r.query_padding, uint64_t(b) * r.queries + i) != 0;
    if (has(kGroups))
        allowed = allowed && load_int(r.q_group, uint64_t(b) * r.queries + i) == load_int(r.k_group, uint64_t(b) * r.keys + j);
    if (has(kMask))
        allowed = allowed && load_int(r.mask, uint64_t(b) * r.mask_b + uint64_t(h) * r.mask_h + uint64_t(i) * r.keys + j) != 0;
    return allowed;
}

// Returns the terms added to scale q.k.
float extra_score(Record r, uint b, uint h, uint i, uint j) {
    float extra = 0.0;
    if (has(kBias))
        extra += load_float(r.bias, uint64_t(b) * r.bias_b + uint64_t(h) * r.bias_h + uint64_t(i) * r.keys + j, kF32);
    if (has(kDistanceBias | kQueryDistance | kKeyDistance)) {
        const int distance = query_position(r, b, i) - key_position(r, b, j);
        const uint64_t head = uint64_t(b) * r.heads + h;
        if (has(kDistanceBias))
            extra += load_float(r.distance_bias, uint64_t(h) * r.buckets + bucket(r, distance), kF32);
        if (has(kQueryDistance))
            extra += load_float(r.query_distance, (head * r.queries + i) * r.buckets + bucket(r, distance), kF32);
        if (has(kKeyDistance))
            extra += load_float(r.key_distance, (head * r.keys + j) * r.key_buckets + key_bucket(r, distance), kF32);
    }
    if (has(kQueryClass))
        extra += load_float(r.query_class,
                            ((uint64_t(b) * r.heads + h) * r.queries + i) * 2 + (crosses(r, b, i, j) ? 1 : 0), kF32);
    return extra;
}

// Returns the factor of dropout for a probability: 0 or 1 / (1 - p).
float keep(Record r, uvec4 key, uint b, uint h, uint i, uint j) {
    const uint e = (h * r.queries + i) * r.keys + j;
    return random_word(key, e, b, r.stream) >= r.threshold ? r.dropout_factor : 0.0;
}
uvec4 random_key(Record r) {
    if (!has(kDropout)) return uvec4(0);
    RuntimeRecord runtime = RuntimeRecord(r.runtime);
    return uvec4(runtime.seed_low, runtime.seed_high, runtime.step, runtime.first_example);
}

// BLOCK rows of `width` elements, distributed over the lanes: element e of the block is in share e / (S W) of lane
// (e / W) mod S. Rows past `rows` repeat the last.
#define SHARES(width) ((BLOCK * (width) + S * W - 1) / (S * W))
#define LOAD_SHARES(shares, address, stride, first, rows, width)                                                       \
    [[unroll]] for (uint hekla_q = 0; hekla_q < SHARES(width); ++hekla_q) {                                            \
        const uint hekla_e = min((hekla_q * S + gl_SubgroupInvocationID) * W, BLOCK * (width) - W);                    \
        const uint64_t hekla_at =                                                                                      \
            uint64_t(min((first) + hekla_e / (width), (rows) - 1)) * (stride) + hekla_e % (width);                     \
        shares[hekla_q] = W == 2 ? load_pair(address, hekla_at, kF32) : vec2(load_float(address, hekla_at, kF32), 0.0); \
    }
#define SHARED(shares, row, column, width)                                                                             \
    subgroupBroadcast(W == 2 && ((row) * (width) + (column)) % 2 == 1                                                  \
                          ? shares[((row) * (width) + (column)) / (S * W)].y                                           \
                          : shares[((row) * (width) + (column)) / (S * W)].x,                                          \
                      (((row) * (width) + (column)) / W) % S)

// Loads a row of this lane.
#define LOAD_ROW(row, address, width, factor)                                                                          \
    [[unroll]] for (uint hekla_d = 0; hekla_d < (width); hekla_d += W) {                                               \
        const vec2 hekla_x = W == 2 ? load_pair(address, uint64_t(hekla_d), kF32)                                      \
                                    : vec2(load_float(address, uint64_t(hekla_d), kF32), 0.0);                         \
        row[hekla_d] = hekla_x.x * (factor);                                                                           \
        if (W == 2) row[hekla_d + W - 1] = hekla_x.y * (factor);                                                       \
    }
#define STORE_ROW(row, address, width, factor)                                                                         \
    [[unroll]] for (uint hekla_d = 0; hekla_d < (width); hekla_d += W) {                                               \
        if (W == 2) store_pair(address, uint64_t(hekla_d), vec2(row[hekla_d], row[hekla_d + W - 1]) * (factor));       \
        else store_float(address, uint64_t(hekla_d), row[hekla_d] * (factor), kF32);                                   \
    }
