// Division of n < 2^31 by a number that the host knows (engine/program/lowering/loop.hpp, Divisor): one multiplication. CPUs have no
// vector division, and a driver divides lane by lane.
#ifndef HEKLA_DIVIDE_GLSL
#define HEKLA_DIVIDE_GLSL

uint hekla_divide(uint n, uint factor, uint shift) { return uint((uint64_t(n) * uint64_t(factor)) >> shift); }

#endif
