// What the attention kernels share: the record, which pairs are allowed, what is added to a score (operations.json says what
// it means), dropout. A lane is a query (forward, dq) or a key (dk, dv); the other side is the same for all lanes.
#include "common.glsl"
#include "runtime.glsl"
#include "philox.glsl"
#include "math.glsl"
#include "lanes.glsl"

layout(constant_id = 1) const uint D = 32;       // of queries and keys
layout(constant_id = 2) const uint DV = 32;      // of values
layout(constant_id = 3) const uint W = 1;        // elements a load: with 2 D, DV and all strides are even
layout(constant_id = 4) const uint BLOCK = 4;    // of the other side, taken together
layout(constant_id = 5) const uint OPTIONS = 0;

const uint kCausal = 1, kKeyPadding = 2, kQueryPadding = 4, kMask = 8, kBias = 16, kDistanceBias = 32;
const uint kQueryDistance = 64, kKeyDistance = 128, kQueryClass = 256, kGroups = 512, kPrefix = 1024;
const uint kPositions = 2048, kWindow = 4096, kDropout = 8192, kZeroEmpty = 16384;
const uint kBiasGradient = 1u << 16, kQueryDistanceGradient = 1u << 17, kKeyDistanceGradient = 1u << 18;
const uint kQueryClassGradient = 1u << 19;

// lse of a row is its greatest score m and log(sum exp(score - m)): their sum loses the latter where all scores are -1e30.
// The latter, where nothing is allowed: exp(score - it) is 0.
const float kEmptyRow = 1e30;

RECORD(Record) {
    HEKLA_RECORD
    uint64_t q, k, v, y, lse;
    uint64_t dy, delta, dq, dk, dv;
    uint64_t bias, distance_bias, query_distance, key_distance, query_class; // distances as [.., P], classes as [.., 2]
    uint64_t bias_gradient, query_distance_gradient, key_distance_gradient, query_class_gradient;
    uint64_t table, key_table;
    uint64_t q_class, k_class, key_padding, query_padding, mask, q_group, k_group, q_position, k_position, prefix;
    uint64_t runtime;
    uint batch, heads, key_heads, queries, keys;
    uint blocks; // groups a head: of queries or of keys
    uint q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, y_b, y_h, y_t, dy_b, dy_h, dy_t; // strides in elements
    uint dq_b, dq_h, dq_t, dk_b, dk_h, dk_t, dv_b, dv_h, dv_t;
    uint bias_b, bias_h, mask_b, mask_h; // 0 repeats; rows are [i, j], dense
    uint buckets, key_buckets;           // P of the distances
    int distance_first, key_distance_first;
    uint table_length, key_table_length;
    float scale;
    int window;
    uint stream, threshold;
    float dropout_factor;
};
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

bool allowed(Record r, uint b, uint h, uint i, uint j) {
    bool open = true;
    if (has(kCausal | kWindow)) {
        const int place = key_position(r, b, j);
        const int distance = query_position(r, b, i) - place;
        if (has(kCausal)) {
            bool ahead = distance < 0;
            if (has(kPrefix)) ahead = ahead && place >= load_int(r.prefix, uint64_t(b));
            open = !ahead;
        }
        if (has(kWindow)) open = open && distance < r.window;
    }
    if (has(kKeyPadding)) open = open && load_int(r.key_padding, uint64_t(b) * r.keys + j) != 0;
    if (has(kQueryPadding)) open = open && load_int(r.query_padding, uint64_t(b) * r.queries + i) != 0;
    if (has(kGroups))
        open = open && load_int(r.q_group, uint64_t(b) * r.queries + i) == load_int(r.k_group, uint64_t(b) * r.keys + j);
    if (has(kMask))
        open = open && load_int(r.mask, uint64_t(b) * r.mask_b + uint64_t(h) * r.mask_h + uint64_t(i) * r.keys + j) != 0;
    return open;
}

// What is added to scale q.k.
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

// What multiplies a probability: 0 or 1 / (1 - p). Words of one quad serve four neighbours where the caller keeps it.
float keep(Record r, uvec4 key, uint b, uint h, uint i, uint j) {
    const uint e = (h * r.queries + i) * r.keys + j;
    return random_word(key, e, b, r.stream) >= r.threshold ? r.dropout_factor : 0.0;
}
uvec4 random_key(Record r) {
    if (!has(kDropout)) return uvec4(0);
    RuntimeRecord runtime = RuntimeRecord(r.runtime);
    return uvec4(runtime.seed_low, runtime.seed_high, runtime.step, runtime.first_example);
}

// BLOCK rows of `width` elements, spread over the lanes: element e of the block lies in share e / (S W), in lane
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

// A lane's own row.
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
