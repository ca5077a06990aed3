#version 450
#extension GL_GOOGLE_include_directive : require
// Cross entropy of rows whose logits are computed in chunks of the classes: `state` carries a row from chunk to chunk,
// and the last chunk writes the loss. One subgroup per row.
#include "common.glsl"
#include "lanes.glsl"
#include "math.glsl"
#include "loss/record.h"

layout(constant_id = 1) const uint W = 1;
layout(constant_id = 2) const uint WEIGHTS = 0;
layout(constant_id = 3) const uint SMOOTHING = 0;
layout(constant_id = 4) const uint BEST = 0; // whether to compute the first index of the largest logit

PUSH_RECORD(CrossEntropyChunkRecord);

void main() {
    CrossEntropyChunkRecord r = record;
    HEKLA_GROUP(group, r)
    const uint width = r.width;
    HEKLA_EACH_ROW(row, group, r.rows, {
        const uint64_t x = r.logits + uint64_t(row) * width * 4ul;
        const uint64_t weights = r.weights + uint64_t(r.first) * 4ul;
        float lane_max = -kInfinity;
        float sum = 0.0;
        float linear = 0.0;
        uint place = 0;
        HEKLA_EACH_SHARE(i, width, W, {
            vec2 v = load_part(x, i, width, W, -kInfinity);
            HEKLA_SHARE(at, i, W)
            if (BEST != 0) {
                if (v.x > lane_max) place = at;
                if (v.y > max(lane_max, v.x)) place = second(at);
            }
            const float new_max = max(lane_max, max(v.x, v.y));
            // While all logits are -inf, differences are relative to 0, to avoid -inf - -inf.
            const float from = new_max == -kInfinity ? 0.0 : new_max;
            sum = sum * exp_(lane_max - from) + exp_(v.x - from) + exp_(v.y - from);
            lane_max = new_max;
            if (SMOOTHING != 0) {
                vec2 w = WEIGHTS != 0 ? load_part(weights, i, width, W, 0.0) : vec2(1.0);
                if (at < width) linear += w.x * v.x;
                if (second(at) < width && W == 2) linear += w.y * v.y;
            }
        })
        // The maximum of this chunk, then combined with the earlier chunks.
        const float largest = lanes_max(lane_max);
        const float chunk_from = largest == -kInfinity ? 0.0 : largest;
        const float chunk_sum = lanes_sum(sum * exp_(lane_max - chunk_from));
        const uint64_t rows = uint64_t(r.rows);
        const bool begins = r.first == 0;
        const float before = begins ? -kInfinity : load_float(r.state, uint64_t(row), kF32);
        const float sum_before = begins ? 0.0 : load_float(r.state, rows + row, kF32);
        float own = begins ? 0.0 : load_float(r.state, 2 * rows + row, kF32);
        float all = begins ? 0.0 : load_float(r.state, 3 * rows + row, kF32);
        const float row_max = max(before, largest);
        const float from = row_max == -kInfinity ? 0.0 : row_max;
        const float total = sum_before * exp_(before - from) + chunk_sum * exp_(largest - from);
        const int label = load_int(r.labels, uint64_t(row));
        const uint of_all = uint(clamp(label, 0, int(r.classes) - 1));
        const uint here = of_all - r.first; // wraps to a large number if the label is in an earlier chunk
        const float found = load_float(x, uint64_t(min(here, width - 1)), kF32);
        if (here < width) own = found;
        if (SMOOTHING != 0) all += lanes_sum(linear);
        if (BEST != 0) {
            const float nearest = -lanes_max(lane_max == largest ? -float(place) : -kInfinity);
            const int best_before = begins ? 0 : load_int(r.best, uint64_t(row));
            const int best = largest > before ? int(r.first + uint(nearest)) : best_before;
            if (gl_SubgroupInvocationID == 0) store_int(r.best, uint64_t(row), best);
        }
        const bool ends = r.first + width >= r.classes;
        const float log_sum = log_(total);
        const float lse = row_max + log_sum;
        const float w = WEIGHTS != 0 ? load_float(r.weights, uint64_t(of_all), kF32) : 1.0;
        float loss = w * ((row_max - own) + log_sum);
        if (SMOOTHING != 0) {
            const float of_weights = WEIGHTS != 0 ? load_float(r.total, 0ul, kF32) : float(r.classes);
            loss = (1.0 - r.smoothing) * loss + r.smoothing / float(r.classes) * (of_weights * lse - all);
        }
        if (gl_SubgroupInvocationID == 0) {
            if (ends) {
                store_float(r.loss, uint64_t(row), label == r.ignore ? 0.0 : loss, kF32);
                store_float(r.lse, uint64_t(row) * 2, row_max, kF32);
                store_float(r.lse, uint64_t(row) * 2 + 1, log_sum, kF32);
            } else {
                store_float(r.state, uint64_t(row), row_max, kF32);
                store_float(r.state, rows + row, total, kF32);
                store_float(r.state, 2 * rows + row, own, kF32);
                store_float(r.state, 3 * rows + row, all, kF32);
            }
        }
    })
}
