//! variant plain
//! variant 16 STORAGE16
// One pointwise operation on up to three strided operands, for hosts that cannot compile GLSL at run time. The result
// is dense.
#version 460
#include "pointwise/elements.glsl"
#include "pointwise/operations.glsl"
#include "pointwise/record.h"

layout(constant_id = 0) const uint OPERATION = 0;
layout(constant_id = 1) const uint RANK = 0; // 0: all operands are dense or one element

layout(constant_id = 2) const uint TYPES = 0; // with STORAGE16, two bits each of a, b, c and y: 0 for 32 bits

PUSH_RECORD(SingleRecord);

uint load_word(uint64_t address, int at, uint type) {
#ifdef STORAGE16
    if (type != 0) return floatBitsToUint(hekla_load_half(HalfArray(address), uint(at), type));
#endif
    return WordArray(address).at[at];
}
void store_word(uint64_t address, uint i, uint value, uint type) {
#ifdef STORAGE16
    if (type != 0) {
        hekla_store_half(HalfArray(address), i, uintBitsToFloat(value), type);
        return;
    }
#endif
    WordArray(address).at[i] = value;
}

#define F(word) uintBitsToFloat(word)
#define I(word) int(word)
#define CALL_f_ff(name) floatBitsToUint(op_##name(F(a), F(b)))
#define CALL_i_ff(name) uint(op_##name(F(a), F(b)))
#define CALL_f_iff(name) floatBitsToUint(op_##name(I(a), F(b), F(c)))
#define CALL_f_f(name) floatBitsToUint(op_##name(F(a)))
#define CALL_f_fpp(name) floatBitsToUint(op_##name(F(a), record.p, record.q))
#define CALL_i_f(name) uint(op_##name(F(a)))
#define CALL_f_i(name) floatBitsToUint(op_##name(I(a)))
#define CALL_i_ii(name) uint(op_##name(I(a), I(b)))
#define CALL_i_iii(name) uint(op_##name(I(a), I(b), I(c)))
#define CALL_i_i(name) uint(op_##name(I(a)))
#define CALL_i_ipp(name) uint(op_##name(I(a), record.p, record.q))

uint apply(uint a, uint b, uint c) {
    switch (OPERATION) {
#define HK_POINTWISE(number, name, signature) case number: return CALL_##signature(name);
#include "pointwise/operations.inc"
#undef HK_POINTWISE
    }
    return 0u;
}

void main() {
    HEKLA_GROUP(group, record)
    HEKLA_EACH_ELEMENT(i, group, record.count, {
        int at_a = int(i) * record.a_strides[0];
        int at_b = int(i) * record.b_strides[0];
        int at_c = int(i) * record.c_strides[0];
        if (RANK != 0u) {
            at_a = 0;
            at_b = 0;
            at_c = 0;
            uint rest = i;
            for (int d = int(RANK) - 1; d >= 0; --d) {
                const uint dim = record.dims[d];
                const uint whole = hekla_divide(rest, record.factors[d], record.shifts[d]);
                const int coordinate = int(rest - whole * dim);
                rest = whole;
                at_a += coordinate * record.a_strides[d];
                at_b += coordinate * record.b_strides[d];
                at_c += coordinate * record.c_strides[d];
            }
        }
        const uint value = apply(load_word(record.a, at_a, TYPES & 3), load_word(record.b, at_b, TYPES >> 2 & 3),
                                 load_word(record.c, at_c, TYPES >> 4 & 3));
        if (in_range) store_word(record.y, i, value, TYPES >> 6);
    })
}
