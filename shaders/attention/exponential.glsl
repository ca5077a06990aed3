// The exponential of a score, for kernels of GPUs.
// Returns e^x within 2 ulp for x <= 88, exactly 1 for 0, and 0 below -87: with fused multiplications half the instructions
// of exp_().
float exp_of_score(float x) {
    const float c = clamp(x, -87.0, 88.0);
    const float n = round(c * 1.44269504);
    const float r = fma(n, 2.12194440e-4, fma(n, -0.693359375, c)); // ln 2 in two parts, as in math.glsl
    float p = 1.9841270e-4;
    p = fma(p, r, 1.3888889e-3);
    p = fma(p, r, 8.3333333e-3);
    p = fma(p, r, 4.1666667e-2);
    p = fma(p, r, 1.6666667e-1);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    const float y = p * uintBitsToFloat(uint(int(n) + 127) << 23);
    return x < -87.0 ? 0.0 : is_nan(x) ? x : y;
}
