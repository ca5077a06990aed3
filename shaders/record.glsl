// Constants, argument records (FAMILY/record.h) and buffers shared by kernels and the host are written once, in headers
// that both languages include. These are the macros of those headers for GLSL; engine/program/lowering/records.hpp has
// them for C++. The layout is scalar.
//
// An address is declared by what kernels do with the elements there: HK_READS, HK_WRITES, or HK_UPDATES (both). Barriers
// follow from that. Where kernels with the same record differ, it is HK_READS_OR_WRITES, and the lowering decides.
#ifndef HEKLA_RECORD_GLSL
#define HEKLA_RECORD_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#include "group.glsl"

#define HK_CONSTANT(name, value) const uint name = value
#define HK_I32_CONSTANT(name, value) const int name = value
#define HK_F32_CONSTANT(name, value) const float name = value
#define HK_RECORD(name) layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer name
#define HK_BUFFER(name) layout(buffer_reference, scalar, buffer_reference_align = 4) buffer name
#define HK_READS(name) uint64_t name
#define HK_WRITES(name) uint64_t name
#define HK_UPDATES(name) uint64_t name
#define HK_READS_OR_WRITES(name) uint64_t name
#define HK_READS_ARRAY(name, size) uint64_t name[size]
#define HK_WRITES_ARRAY(name, size) uint64_t name[size]
#define HK_U32(name) uint name
#define HK_I32(name) int name
#define HK_F32(name) float name
#define HK_U32_ARRAY(name, size) uint name[size]
#define HK_I32_ARRAY(name, size) int name[size]
// The first two words of every argument record: the first linear group of this part of the dispatch, and one past the
// last of all parts. The host sets them when it records the dispatch.
#define HK_RECORD_HEAD                                                                                                 \
    uint first_group;                                                                                                  \
    uint end_group

// Declares `record`, a kernel's argument record, with its address in the push constant.
#define PUSH_RECORD(name) layout(push_constant, scalar) uniform Push { name record; }

// What a kernel does before it may return (lanes.glsl).
#ifndef HEKLA_BEGIN
#define HEKLA_BEGIN
#endif

// Declares `name`, the workgroup's index within the whole dispatch, and returns if folding added groups past the end.
// `name` is clamped, so that addresses computed from it are inside their buffers even if a driver continues with no
// invocation left.
#define HEKLA_GROUP(name, record)                                                                                      \
    HEKLA_BEGIN                                                                                                        \
    const uint name##_unclamped = hekla_group() + (record).first_group;                                                \
    const uint name = min(name##_unclamped, (record).end_group - 1u);                                                  \
    if (name##_unclamped >= (record).end_group) return;

#endif
