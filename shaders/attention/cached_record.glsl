// What the kernels of attention over a cache are told.
RECORD(Record) {
    HEKLA_RECORD
    uint64_t q, k, v, y;               // k and v: the new ones
    uint64_t key_cache, value_cache;   // [rows, Hkv, capacity, D] and [.., DV], dense
    uint64_t start, count, cache_row;  // [B], [B], [B, capacity]
    uint64_t distance_bias, table;     // [H, P]; [table_length]
    uint batch, heads, key_heads, chunk, capacity, cache_rows;
    uint q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, y_b, y_h, y_t; // strides in elements
    uint buckets, table_length;
    int distance_first;
    int window;
    float scale;
};
PUSH_RECORD(Record);
