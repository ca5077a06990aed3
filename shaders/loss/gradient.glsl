// The gradient of cross entropy by logits v of a row:
//     dloss * ((1 - s) w[label] (p - onehot) + s / V (p sum(w) - w))
// Included after the constants WEIGHTS and SMOOTHING.

struct CrossEntropyRow {
    float largest, log_sum; // of the log-sum-exp
    uint label;
    float scale;        // dloss; 0 for an ignored row
    float label_weight; // w[label]
    float weights;      // sum(w), with SMOOTHING
    float smoothing, classes;
};

// v: logits of the classes `first` and `next`; w: their weights, with SMOOTHING.
vec2 cross_entropy_gradient(CrossEntropyRow row, vec2 v, uint first, uint next, vec2 w) {
    const vec2 x = (v - row.largest) - row.log_sum;
    const vec2 p = vec2(exp_(x.x), exp_(x.y));
    const vec2 hit = vec2(first == row.label ? 1.0 : 0.0, next == row.label ? 1.0 : 0.0);
    vec2 d = (SMOOTHING != 0 ? (1.0 - row.smoothing) * row.label_weight : row.label_weight) * (p - hit);
    if (SMOOTHING != 0) d += row.smoothing / row.classes * (p * row.weights - w);
    // An ignored row gets zeros even if its logits are not finite.
    return row.scale == 0.0 ? vec2(0.0) : row.scale * d;
}
