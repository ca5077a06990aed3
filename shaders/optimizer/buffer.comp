// Writes a buffer of the graph: the mean of its updates over the micro-batches of a step. A skipped step writes nothing.
#version 460
#include "pointwise/elements.glsl"
#include "optimizer/record.h"

PUSH_RECORD(BufferRecord);

void main() {
    HEKLA_GROUP(group, record)
    if (OptimizerState(record.state).skip != 0u) return;
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        precise float mean = FloatArray(record.sum).at[i] * FloatArray(record.share).at[0];
        if (in_range) FloatArray(record.to).at[i] = mean;
    })
}
