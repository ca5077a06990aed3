// Shared by all attention kernels over whole sequences: which pairs are allowed, the terms added to a score
// (operations.json defines them), dropout. The includer includes runtime.h, philox.glsl, math.glsl and
// attention/record.h, declares the specialization constant OPTIONS, and defines given_int(address, i) and
// given_float(address, i), which load an element of an input.

// lse of a row is its largest score m and log(sum exp(score - m)), stored separately because their sum would lose the
// logarithm if all scores are -1e30. This is the logarithm if no key is allowed: exp(score - kEmptyRow) is 0.
const float kEmptyRow = 1e30;

PUSH_RECORD(Record);

// How the tensors of heads are stored, two bits each.
#ifdef STORAGE16
layout(constant_id = 6) const uint TYPES = 0;
#else
const uint TYPES = 0;
#endif
const uint kTypeQ = TYPES & 3u;
const uint kTypeK = TYPES >> 2 & 3u;
const uint kTypeV = TYPES >> 4 & 3u;
const uint kTypeY = TYPES >> 6 & 3u;
const uint kTypeDy = TYPES >> 8 & 3u;
const uint kTypeDq = TYPES >> 10 & 3u;
const uint kTypeDk = TYPES >> 12 & 3u;
const uint kTypeDv = TYPES >> 14 & 3u;

// Returns the address of head h of row b of the batch, and in it of row t. A tensor has less than 2^31 elements.
uint64_t head_at(uint64_t tensor, uint b, uint b_stride, uint h, uint h_stride, uint type) {
    return tensor + uint64_t(b * b_stride + h * h_stride) * bytes_of(type);
}
uint64_t row_at(uint64_t head, uint t, uint t_stride, uint type) {
    return head + uint64_t(t * t_stride) * bytes_of(type);
}

bool has(uint option) { return (OPTIONS & option) != 0; }

int query_position(Record r, uint b, uint i) {
    return has(kPositions) && r.q_position != 0ul ? given_int(r.q_position, uint64_t(b) * r.queries + i) : int(i);
}
int key_position(Record r, uint b, uint j) {
    return has(kPositions) && r.k_position != 0ul ? given_int(r.k_position, uint64_t(b) * r.keys + j) : int(j);
}
uint bucket(Record r, int distance) {
    int at = clamp(distance - r.distance_first, 0, int(r.table_length) - 1);
    return uint(given_int(r.table, uint64_t(uint(at))));
}
uint key_bucket(Record r, int distance) {
    int at = clamp(-distance - r.key_distance_first, 0, int(r.key_table_length) - 1);
    return uint(given_int(r.key_table, uint64_t(uint(at))));
}
bool crosses(Record r, uint b, uint i, uint j) {
    return given_int(r.q_class, uint64_t(b) * r.queries + i) != given_int(r.k_class, uint64_t(b) * r.keys + j);
}

// Returns the mask of a query for key j in bit 0, and for the keys after it, up to a multiple of 32, in the next bits.
uint mask_of(Record r, uint b, uint h, uint i, uint j) {
    if (!has(kMask)) return ~0u;
    const uint words = (r.keys + 31) / 32;
    const uint at = b * r.mask_b + h * r.mask_h + i * words + min(j / 32, words - 1);
    return uint(given_int(r.mask, uint64_t(at))) >> j % 32;
}

// mask: of mask_of() for this key.
bool is_allowed(Record r, uint b, uint i, uint j, uint mask) {
    bool allowed = true;
    if (has(kCausal | kWindow | kWindowAfter)) {
        const int place = key_position(r, b, j);
        const int distance = query_position(r, b, i) - place;
        if (has(kCausal)) {
            bool ahead = distance < 0;
            if (has(kPrefix)) ahead = ahead && place >= given_int(r.prefix, uint64_t(b));
            allowed = !ahead;
        }
        if (has(kWindow)) allowed = allowed && distance < r.window;
        if (has(kWindowAfter)) allowed = allowed && -distance < r.window_after;
    }
    if (has(kKeyPadding)) allowed = allowed && given_int(r.key_padding, uint64_t(b) * r.keys + j) != 0;
    if (has(kQueryPadding)) allowed = allowed && given_int(r.query_padding, uint64_t(b) * r.queries + i) != 0;
    if (has(kGroups))
        allowed = allowed && given_int(r.q_group, uint64_t(b) * r.queries + i) ==
                                 given_int(r.k_group, uint64_t(b) * r.keys + j);
    if (has(kMask)) allowed = allowed && (mask & 1u) != 0;
    return allowed;
}

// Returns scale q.k with its soft cap, and the derivative of what that returns.
float capped(Record r, float s) { return has(kSoftcap) ? r.softcap * tanh_(s / r.softcap) : s; }
float slope_of_capped(Record r, float s) { return 1.0 - (s / r.softcap) * (s / r.softcap); }

// Returns the end of the keys that queries before `end_of_queries` see, with default positions and kWindowAfter.
uint end_of_window(Record r, uint end_of_queries, uint end) {
    return clamp(end_of_queries - 1 + min(uint(r.window_after), r.keys), 1, end);
}
// Returns the first query that keys from `first` on are seen by.
uint begin_of_window(Record r, uint first) {
    return min(first - min(first, uint(r.window_after) - 1), r.queries - 1);
}

// Returns the terms added to scale q.k.
float extra_score(Record r, uint b, uint h, uint i, uint j) {
    float extra = 0.0;
    if (has(kBias))
        extra += given_float(r.bias, uint64_t(b) * r.bias_b + uint64_t(h) * r.bias_h + uint64_t(i) * r.keys + j);
    if (has(kDistanceBias | kQueryDistance | kKeyDistance)) {
        const int distance = query_position(r, b, i) - key_position(r, b, j);
        const uint64_t head = uint64_t(b) * r.heads + h;
        if (has(kDistanceBias))
            extra += given_float(r.distance_bias, uint64_t(h) * r.buckets + bucket(r, distance));
        if (has(kQueryDistance))
            extra += given_float(r.query_distance, (head * r.queries + i) * r.buckets + bucket(r, distance));
        if (has(kKeyDistance))
            extra += given_float(r.key_distance, (head * r.keys + j) * r.key_buckets + key_bucket(r, distance));
    }
    if (has(kQueryClass))
        extra += given_float(r.query_class,
                             ((uint64_t(b) * r.heads + h) * r.queries + i) * 2 + (crosses(r, b, i, j) ? 1 : 0));
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
