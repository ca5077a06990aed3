// Logits of a linear, multiplied by a constant (SCALED) and then bounded to -c .. c by a soft cap c (SOFTCAP). Included
// after these constants, the records and gradient.glsl.

float capped(CrossEntropyRowsRecord r, float x) {
    if (SCALED != 0) x *= r.scale;
    return SOFTCAP != 0 ? r.softcap * tanh_(x / r.softcap) : x;
}

// d: gradients by capped logits v, already multiplied by the constant.
vec2 gradient_of_capped(CrossEntropyRowsRecord r, CrossEntropyRow row, vec2 d, vec2 v) {
    if (SOFTCAP == 0) return d;
    const vec2 t = v / r.softcap;
    // 0 past the end of a row, where v is -inf, and in an ignored row.
    return row.scale == 0.0 ? vec2(0.0) : d * max(1.0 - t * t, vec2(0.0));
}
