// Shared by the kernels in shaders/embedding and their lowering: constants and argument records, named after them.

// The specialization constant MODE of segments: what becomes of a row that ids name.
HK_CONSTANT(kSumRows, 0); // the sum of its segment
HK_CONSTANT(kAddRows, 1); // the same, added to what it is
HK_CONSTANT(kReplaceRows, 2); // the last of its segment

HK_RECORD(LookupRecord) {
    HK_RECORD_HEAD;
    HK_READS(table);
    HK_READS(ids);
    HK_WRITES(y);
    HK_U32(rows);
    HK_U32(width);
    HK_U32(table_rows);
    HK_U32(table_stride); // elements between rows of the table
    HK_U32(per_batch);    // ids per batch
    HK_U32(batch_stride); // elements between the tables of two batches
};

HK_RECORD(SortRecord) {
    HK_RECORD_HEAD;
    HK_READS(ids);    // [batches, count]
    HK_WRITES(order); // [batches, count]
    HK_U32(count);
    HK_U32(groups_per_batch);
};

HK_RECORD(SegmentsRecord) {
    HK_RECORD_HEAD;
    HK_READS(dy);
    HK_READS(ids);
    HK_READS(order);
    HK_UPDATES(dtable);
    HK_U32(count); // ids per batch
    HK_U32(width);
    HK_U32(dy_stride);
    HK_U32(column_groups);
    HK_I32(rows); // ids from here on have no gradient
    HK_I32(no_gradient_id);
    HK_U32(batch_rows); // rows of dtable per batch
};
