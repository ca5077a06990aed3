// The pointwise operations as functions, shared by the kernel of a single operation and by generated kernels of many,
// so that both give the same bits. `precise` everywhere: nothing is contracted or reordered across or inside them.
#ifndef HEKLA_OPERATIONS_GLSL
#define HEKLA_OPERATIONS_GLSL

#include "math.glsl"

float op_add(float a, float b) { precise float y = a + b; return y; }
float op_sub(float a, float b) { precise float y = a - b; return y; }
float op_mul(float a, float b) { precise float y = a * b; return y; }
float op_div(float a, float b) { precise float y = a / b; return y; }
float op_minimum(float a, float b) { return is_nan(a) || a < b ? a : b; } // NaN is propagated, as in PyTorch
float op_maximum(float a, float b) { return is_nan(a) || a > b ? a : b; }
int op_equal(float a, float b) { return a == b ? 1 : 0; }
int op_not_equal(float a, float b) { return a != b ? 1 : 0; }
int op_less(float a, float b) { return a < b ? 1 : 0; }
int op_less_equal(float a, float b) { return a <= b ? 1 : 0; }
int op_greater(float a, float b) { return a > b ? 1 : 0; }
int op_greater_equal(float a, float b) { return a >= b ? 1 : 0; }
float op_where(int condition, float a, float b) { return condition != 0 ? a : b; }
float op_neg(float x) { return -x; }
float op_abs(float x) { return abs(x); }
float op_sign(float x) { return (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0); }
float op_floor(float x) { return floor(x); }
float op_round(float x) { return roundEven(x); }
float op_exp(float x) { return exp_(x); }
float op_log(float x) { return log_(x); }
float op_log1p(float x) { return log1p_(x); }
float op_sqrt(float x) { precise float y = sqrt(x); return y; }
float op_rsqrt(float x) { precise float y = 1.0 / sqrt(x); return y; }
float op_sin(float x) { return sin_(x); }
float op_cos(float x) { return cos_(x); }
float op_erf(float x) { return erf_(x); }
float op_tanh(float x) { return tanh_(x); }
float op_sigmoid(float x) { return sigmoid_(x); }
float op_softplus(float x) {
    precise float y = max(x, 0.0) + log1p_(exp_(-abs(x)));
    return is_nan(x) ? x : y;
}
float op_log_sigmoid(float x) { return -op_softplus(-x); }
float op_relu(float x) { return x > 0.0 || is_nan(x) ? x : 0.0; }
float op_gelu(float x) { return gelu_erf(x); }
float op_gelu_tanh(float x) { return gelu_tanh(x); }
float op_gelu_gradient(float dy, float x) { return gelu_erf_gradient(dy, x); }
float op_gelu_tanh_gradient(float dy, float x) { return gelu_tanh_gradient(dy, x); }
float op_silu(float x) { precise float y = x * op_sigmoid(x); return y; }
float op_clamp(float x, float low, float high) { return is_nan(x) ? x : min(max(x, low), high); }
float op_pow(float a, float b) {
    if (b == 0.0 || a == 1.0) return 1.0;
    if (b == 1.0) return a;
    precise float square = a * a;
    if (b == 2.0) return square;
    precise float cube = square * a;
    if (b == 3.0) return cube;
    if (b == 0.5) return sqrt(a);
    precise float inverse = 1.0 / a;
    if (b == -1.0) return inverse;
    precise float magnitude = exp_(b * log_(abs(a)));
    // A negative base has a power if b is an integer: negative for odd b.
    const bool whole = b == floor(b);
    const float half_b = 0.5 * b;
    const bool odd = whole && half_b != floor(half_b);
    if (a < 0.0 && !whole) return uintBitsToFloat(0x7FC00000u);
    return a < 0.0 && odd ? -magnitude : magnitude;
}
float op_same(float x) { return x; }

int op_to_int(float x) { // rounds towards 0; limited to int32; 0 for NaN
    if (is_nan(x)) return 0;
    if (x >= 2147483648.0) return 0x7FFFFFFF;
    if (x < -2147483648.0) return int(0x80000000u);
    return int(x);
}
float op_to_float(int x) { return float(x); }
int op_add_int(int a, int b) { return a + b; }
int op_sub_int(int a, int b) { return a - b; }
int op_mul_int(int a, int b) { return a * b; }
// Rounds towards 0 by unsigned division, because GLSL's results for negative operands differ between devices.
int op_div_int(int a, int b) {
    const uint quotient = b == 0 ? 0u : uint(abs(a)) / uint(abs(b));
    return (a < 0) != (b < 0) ? -int(quotient) : int(quotient);
}
int op_minimum_int(int a, int b) { return min(a, b); }
int op_maximum_int(int a, int b) { return max(a, b); }
int op_equal_int(int a, int b) { return a == b ? 1 : 0; }
int op_not_equal_int(int a, int b) { return a != b ? 1 : 0; }
int op_less_int(int a, int b) { return a < b ? 1 : 0; }
int op_less_equal_int(int a, int b) { return a <= b ? 1 : 0; }
int op_greater_int(int a, int b) { return a > b ? 1 : 0; }
int op_greater_equal_int(int a, int b) { return a >= b ? 1 : 0; }
int op_where_int(int condition, int a, int b) { return condition != 0 ? a : b; }
int op_neg_int(int x) { return -x; }
int op_abs_int(int x) { return abs(x); }
int op_sign_int(int x) { return sign(x); }
int op_clamp_int(int x, float low, float high) { // the integers inside the bounds
    return min(max(x, op_to_int(ceil(low))), op_to_int(floor(high)));
}
int op_same_int(int x) { return x; }

#endif
