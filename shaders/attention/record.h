// Shared by the kernels in shaders/attention and their lowering: constants and argument records.

// Bits of the specialization constant OPTIONS: the terms of a score, and which keys are allowed.
HK_CONSTANT(kCausal, 1);
HK_CONSTANT(kKeyPadding, 2);
HK_CONSTANT(kQueryPadding, 4);
HK_CONSTANT(kMask, 8);
HK_CONSTANT(kBias, 16);
HK_CONSTANT(kDistanceBias, 32);
HK_CONSTANT(kQueryDistance, 64);
HK_CONSTANT(kKeyDistance, 128);
HK_CONSTANT(kQueryClass, 256);
HK_CONSTANT(kGroups, 512);
HK_CONSTANT(kPrefix, 1024);
HK_CONSTANT(kPositions, 2048);
HK_CONSTANT(kWindow, 4096);
HK_CONSTANT(kDropout, 8192);
HK_CONSTANT(kZeroEmpty, 16384);
HK_CONSTANT(kSplit, 32768); // forward: a workgroup computes one part of the keys
// Gradients that a gradient kernel stores in addition to dq, dk and dv.
HK_CONSTANT(kBiasGradient, 0x10000);
HK_CONSTANT(kQueryDistanceGradient, 0x20000);
HK_CONSTANT(kKeyDistanceGradient, 0x40000);
HK_CONSTANT(kQueryClassGradient, 0x80000);
// More of the first kind.
HK_CONSTANT(kSoftcap, 0x100000);
HK_CONSTANT(kSinks, 0x200000); // of a forward pass; with kZeroEmpty
HK_CONSTANT(kWindowAfter, 0x400000);
// Forms of the kernels for matrix units, which `hekla doctor --lab` compares.
HK_CONSTANT(kNativeExponential, 0x800000); // of the hardware: within about 1e-5, not the same bits everywhere
HK_CONSTANT(kNativeConversion, 0x1000000); // to float16, of the hardware
HK_CONSTANT(kWholeBlocks, 0x2000000);      // no masks are computed in blocks of which every pair is allowed

// forward, gradient_query and gradient_key. Strides are in elements; the innermost dimension is dense.
HK_RECORD(Record) {
    HK_RECORD_HEAD;
    HK_READS(q);
    HK_READS(k);
    HK_READS(v);
    HK_READS_OR_WRITES(y);   // gradient_query reads it
    HK_READS_OR_WRITES(lse); // [B, H, Tq, 2]; the gradients read it
    HK_READS(dy);
    HK_READS_OR_WRITES(delta); // [B, H, Tq]; gradient_query writes it, gradient_key reads it
    HK_WRITES(dq);
    HK_WRITES(dk);
    HK_WRITES(dv);
    HK_READS(bias);
    HK_READS(distance_bias);  // distances as [.., P]
    HK_READS(query_distance);
    HK_READS(key_distance);
    HK_READS(query_class);    // classes as [.., 2]
    HK_WRITES(bias_gradient);
    HK_UPDATES(query_distance_gradient);
    HK_UPDATES(key_distance_gradient);
    HK_WRITES(query_class_gradient);
    HK_READS(table);
    HK_READS(key_table);
    HK_READS(q_class);
    HK_READS(k_class);
    HK_READS(key_padding);
    HK_READS(query_padding);
    HK_READS(mask); // packed by pack_mask.comp
    HK_READS(q_group);
    HK_READS(k_group);
    HK_READS(q_position);
    HK_READS(k_position);
    HK_READS(prefix);
    HK_READS(sinks);   // [H]
    HK_READS(runtime); // RuntimeRecord
    // With kSplit; forward_sum reads them:
    HK_READS_OR_WRITES(part_sums);    // [B, H, parts, Tq, DV] of values times e^(score - base)
    HK_READS_OR_WRITES(part_numbers); // [B, H, parts, Tq, 2]: the base, and the sum of e^(score - base)
    HK_U32(parts);
    HK_U32(part_keys); // a multiple of every kernel's block of keys
    HK_U32(rows);      // B * H * Tq
    HK_U32(heads);
    HK_U32(key_heads);
    HK_U32(queries);
    HK_U32(keys);
    HK_U32(blocks); // workgroups per head: of queries or of keys
    HK_U32(q_b);
    HK_U32(q_h);
    HK_U32(q_t);
    HK_U32(k_b);
    HK_U32(k_h);
    HK_U32(k_t);
    HK_U32(v_b);
    HK_U32(v_h);
    HK_U32(v_t);
    HK_U32(y_b);
    HK_U32(y_h);
    HK_U32(y_t);
    HK_U32(dy_b);
    HK_U32(dy_h);
    HK_U32(dy_t);
    HK_U32(dq_b);
    HK_U32(dq_h);
    HK_U32(dq_t);
    HK_U32(dk_b);
    HK_U32(dk_h);
    HK_U32(dk_t);
    HK_U32(dv_b);
    HK_U32(dv_h);
    HK_U32(dv_t);
    HK_U32(bias_b); // 0 repeats; rows are [i, j], dense
    HK_U32(bias_h);
    HK_U32(mask_b); // in words
    HK_U32(mask_h);
    HK_U32(buckets); // P of the distances
    HK_U32(key_buckets);
    HK_I32(distance_first);
    HK_I32(key_distance_first);
    HK_U32(table_length);
    HK_U32(key_table_length);
    HK_F32(scale);
    HK_F32(softcap);
    HK_I32(window);
    HK_I32(window_after);
    HK_U32(stream); // random stream of dropout
    HK_U32(threshold);
    HK_F32(dropout_factor);
};

HK_RECORD(MaskRecord) {
    HK_RECORD_HEAD;
    HK_READS(mask);  // [rows, keys] of int32
    HK_WRITES(bits); // [rows, words]
    HK_U32(rows);
    HK_U32(keys);
    HK_U32(words); // of 32 keys
};

// sinks_gradient.comp.
HK_RECORD(SinksRecord) {
    HK_RECORD_HEAD;
    HK_READS(sinks);     // [H]
    HK_READS(lse);       // [B, H, Tq, 2]
    HK_READS(delta);     // [B, H, Tq]
    HK_WRITES(gradient); // [B, H, Tq]
    HK_U32(rows);        // B * H * Tq
    HK_U32(heads);
    HK_U32(queries);
};

HK_CONSTANT(kKeysPerPart, 128); // of cached_part.comp

// The record of cached.comp, cached_part.comp, cached_sum.comp and store.comp.
HK_RECORD(CachedRecord) {
    HK_RECORD_HEAD;
    HK_READS(q);
    HK_READS(k); // the new keys
    HK_READS(v);
    HK_WRITES(y);
    HK_UPDATES(key_cache);   // [rows, Hkv, capacity, D], dense
    HK_UPDATES(value_cache); // [rows, Hkv, capacity, DV], dense
    HK_READS(start);         // [B]
    HK_READS(count);         // [B]
    HK_READS(cache_row);     // [B, capacity]
    HK_READS(distance_bias); // [H, P]
    HK_READS(table);         // [table_length]
    HK_READS(sinks);         // [H]
    // With several parts; cached_part.comp writes them, cached_sum.comp reads them:
    HK_READS_OR_WRITES(sums);    // [B, H, parts, DV] of values times e^(score - maximum)
    HK_READS_OR_WRITES(numbers); // [B, H, parts, 2]: the maximum, and the sum of e^(score - maximum)
    HK_U32(parts);               // of kKeysPerPart keys each
    HK_U32(heads);
    HK_U32(key_heads);
    HK_U32(chunk); // queries per row of the batch
    HK_U32(rows);  // B * Hkv * chunk
    HK_U32(capacity);
    HK_U32(cache_rows);
    HK_U32(q_b);
    HK_U32(q_h);
    HK_U32(q_t);
    HK_U32(k_b);
    HK_U32(k_h);
    HK_U32(k_t);
    HK_U32(v_b);
    HK_U32(v_h);
    HK_U32(v_t);
    HK_U32(y_b);
    HK_U32(y_h);
    HK_U32(y_t);
    HK_U32(buckets);
    HK_U32(table_length);
    HK_I32(distance_first);
    HK_I32(window);
    HK_F32(scale);
    HK_F32(softcap);
};
