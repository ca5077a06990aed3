// Elementary functions, within 4 ulp (tests/program/math_test.cpp), because drivers' are off by up to 4e-2. Polynomials
// are minimax fits or Taylor series whose remainder is less than half an ulp in the reduced interval. Everything is
// `precise`: a function gives the same bits in every kernel.
#ifndef HEKLA_MATH_GLSL
#define HEKLA_MATH_GLSL

#define kInfinity uintBitsToFloat(0x7F800000u)
#define kNaN uintBitsToFloat(0x7FC00000u)

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7F800000u) != 0x7F800000u; }

// Returns 2^n, -126 <= n <= 127.
precise float exponent_bits(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

// Returns e^r for |r| <= ln 2 / 2.
precise float exp_reduced(float r) {
    precise float p = 1.9841270e-4;
    p = p * r + 1.3888889e-3;
    p = p * r + 8.3333333e-3;
    p = p * r + 4.1666667e-2;
    p = p * r + 1.6666667e-1;
    p = p * r + 0.5;
    return (p * r) * r + r + 1.0;
}

precise float exp_(float x) {
    // exp underflows to 0 below -104 and overflows above 88.73; NaN is handled by the comparison at the end.
    precise float c = clamp(x, -104.0, 89.0);
    precise float n = round(c * 1.44269504);
    precise float r = c - n * 0.693359375;  // ln 2 in two parts: the first has few bits, so that the product is exact
    r = r + n * 2.12194440e-4;
    // The integer is in the low bits of n + 1.5 * 2^23: Mesa 26's lavapipe converts lane by lane.
    precise float shifted = n + 12582912.0;
    int whole = floatBitsToInt(shifted) - 0x4B400000;
    int half_ = whole >> 1; // in two steps: 2^128 and subnormal results cannot be reached with one factor
    precise float y = exp_reduced(r) * exponent_bits(half_) * exponent_bits(whole - half_);
    return is_nan(x) ? x : y;
}

// Returns e^x - 1 for |x| <= 0.6, without cancellation.
precise float expm1_small(float x) {
    precise float p = 2.7557319e-6;
    p = p * x + 2.4801587e-5;
    p = p * x + 1.9841270e-4;
    p = p * x + 1.3888889e-3;
    p = p * x + 8.3333333e-3;
    p = p * x + 4.1666667e-2;
    p = p * x + 1.6666667e-1;
    p = p * x + 0.5;
    return (p * x) * x + x;
}

// Returns log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, by the series in s = f / (2 + f).
precise float log_reduced(float f) {
    precise float s = f / (2.0 + f);
    precise float z = s * s;
    precise float p = 0.193626537;
    p = p * z + 0.221914008;
    p = p * z + 0.285717545;
    p = p * z + 0.399999988;
    p = p * z + 0.666666667;
    precise float half_square = 0.5 * f * f;
    return f - (half_square - s * (half_square + z * p));
}

precise float log_(float x) {
    bool tiny = x < 1.17549435e-38;
    uint bits = floatBitsToUint(tiny ? x * 8388608.0 : x);
    int e = int(bits >> 23) - 127 - (tiny ? 23 : 0);
    precise float m = uintBitsToFloat((bits & 0x007FFFFFu) | 0x3F800000u);
    if (m > 1.41421356) {
        m *= 0.5;
        ++e;
    }
    precise float n = float(e);
    precise float y = n * 0.693359375 + (log_reduced(m - 1.0) - n * 2.12194440e-4);
    if (x == kInfinity) y = x;
    if (x == 0.0) y = -kInfinity;
    if (x < 0.0 || is_nan(x)) y = kNaN;
    return y;
}

precise float log1p_(float x) {
    // log(1 + x) = log(u) + (x - (u - 1)) / u with u the rounded sum; near 0 the series itself.
    precise float near = log_reduced(clamp(x, -0.29, 0.41));
    precise float u = 1.0 + x;
    precise float far = log_(u) + (u < kInfinity ? (x - (u - 1.0)) / u : 0.0);
    if (x == -1.0) far = -kInfinity;
    return x > -0.29 && x < 0.41 ? near : far;
}

precise float tanh_(float x) {
    precise float a = abs(x);
    precise float h = expm1_small(min(a, 0.6)); // e^2a - 1 = h (h + 2)
    precise float e = h * (h + 2.0);
    precise float y = a < 0.6 ? e / (e + 2.0) : 1.0 - 2.0 / (exp_(min(2.0 * a, 40.0)) + 1.0);
    y = x < 0.0 ? -y : y;
    return is_nan(x) || x == 0.0 ? x : y;
}

precise float sigmoid_(float x) {
    precise float e = exp_(-abs(x));
    return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}

precise float softplus_(float x) { return max(x, 0.0) + log1p_(exp_(-abs(x))); }

// A polynomial in x^2 below 1; above, 1 - exp(-x^2) times a polynomial in 1 / x.
precise float erf_(float x) {
    precise float a = abs(x);
    precise float z = a * a;
    precise float p = 7.87587506e-5;
    p = p * z - 8.01686429e-4;
    p = p * z + 5.18908742e-3;
    p = p * z - 2.68542120e-2;
    p = p * z + 1.12835947e-1;
    p = p * z - 3.76126267e-1;
    p = p * z + 1.12837917;
    precise float b = clamp(a, 1.0, 4.0);
    precise float t = 1.0 / b;
    precise float q = -5.93402249e-3;
    q = q * t + 1.09451334e-2;
    q = q * t + 6.13541496e-2;
    q = q * t - 2.86535608e-1;
    q = q * t + 5.29070575e-1;
    q = q * t - 4.85939508e-1;
    q = q * t + 4.58379091e-2;
    q = q * t + 5.58479920e-1;
    q = q * t + 3.05017749e-4;
    precise float far = 1.0 - exp_(-b * b) * q; // 1 for arguments of 4 and above
    precise float y = a < 1.0 ? a * p : far;
    y = x < 0.0 ? -y : y;
    return is_nan(x) || x == 0.0 ? x : y;
}

// Reduces the argument for |x| <= 20,000 by subtracting multiples of pi / 2 in three parts, the first two of which have
// few bits.
precise vec2 sin_cos_reduced(float r) {
    precise float z = r * r;
    precise float s = 2.72499258e-6;
    s = s * z - 1.98400867e-4;
    s = s * z + 8.33333187e-3;
    s = s * z - 1.66666667e-1;
    precise float c = 2.45479421e-5;
    c = c * z - 1.38883030e-3;
    c = c * z + 4.16666647e-2;
    return vec2(r + r * z * s, 1.0 - 0.5 * z + z * z * c);
}
precise float sine_of_quarter(float x, int shift) {
    precise float n = round(x * 0.636619772);
    precise float r = ((x - n * 1.5703125) - n * 4.837512969970703125e-4) - n * 7.54978995489188216e-8;
    precise vec2 sc = sin_cos_reduced(r);
    int quarter = (int(n) + shift) & 3;
    precise float y = (quarter & 1) == 0 ? sc.x : sc.y;
    return (quarter & 2) == 0 ? y : -y;
}
precise float sin_(float x) { return is_finite(x) ? (x == 0.0 ? x : sine_of_quarter(x, 0)) : kNaN; }
precise float cos_(float x) { return is_finite(x) ? sine_of_quarter(x, 1) : kNaN; }

precise float gelu_tanh(float x) {
    return 0.5 * x * (1.0 + tanh_(0.797884561 * (x + 0.044715 * x * x * x)));
}
precise float gelu_erf(float x) { return 0.5 * x * (1.0 + erf_(x * 0.707106781)); }
// dy times the derivative at x.
precise float gelu_tanh_gradient(float dy, float x) {
    const float t = tanh_(0.797884561 * (x + 0.044715 * x * x * x));
    const float inner = 0.797884561 + 0.107032224 * x * x; // the derivative of the argument of tanh
    return dy * (0.5 * (1.0 + t) + 0.5 * x * ((1.0 - t * t) * inner));
}
precise float gelu_erf_gradient(float dy, float x) {
    return dy * (0.5 * (1.0 + erf_(x * 0.707106781)) + x * (0.398942280 * exp_(-0.5 * x * x)));
}

#endif
