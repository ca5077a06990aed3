// Division of n < 2^31 by a number that the host knows (Divisor of engine/program/lowering/loop.hpp): one
// multiplication. CPUs have no vector division, so a driver divides lane by lane.
#ifndef HEKLA_DIVIDE_GLSL
#define HEKLA_DIVIDE_GLSL

uint hekla_divide(uint n, uint factor, uint shift) { return uint((uint64_t(n) * uint64_t(factor)) >> shift); }

#endif
