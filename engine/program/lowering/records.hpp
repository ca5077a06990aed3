// The argument records of the built-in kernels, and the constants that kernels and lowering share, generated from the
// headers that the kernels' GLSL also includes: shaders/FAMILY/record.h is the namespace kernels::FAMILY. Every record
// has visit_members(record, visit), which calls visit(name, member) for each of its members in order.
#pragma once

#include "program/lowering/record.hpp"

// GLSL and C++ read the same lines. First the structs and constants:
#define HK_FAMILY(name) namespace name {
#define HK_FAMILY_END }
#define HK_CONSTANT(name, value) inline constexpr uint32_t name = value
#define HK_I32_CONSTANT(name, value) inline constexpr int32_t name = value
#define HK_F32_CONSTANT(name, value) inline constexpr float name = value
#define HK_RECORD(name) struct name
#define HK_BUFFER(name) struct name
#define HK_READS(name) AddressFor<AccessKind::reads> name = {}
#define HK_WRITES(name) AddressFor<AccessKind::writes> name = {}
#define HK_UPDATES(name) AddressFor<AccessKind::updates> name = {}
#define HK_READS_OR_WRITES(name) RecordAddress name = {}
#define HK_READS_ARRAY(name, size) AddressFor<AccessKind::reads> name[size] = {}
#define HK_WRITES_ARRAY(name, size) AddressFor<AccessKind::writes> name[size] = {}
#define HK_U32(name) uint32_t name = 0
#define HK_I32(name) int32_t name = 0
#define HK_F32(name) float name = 0
#define HK_U32_ARRAY(name, size) uint32_t name[size] = {}
#define HK_I32_ARRAY(name, size) int32_t name[size] = {}
#define HK_RECORD_HEAD                                                                                                 \
    uint32_t first_group = 0;                                                                                          \
    uint32_t end_group = 0
namespace hekla::program::kernels {
namespace common {}
using namespace common; // the other headers use its constants
#include "../shaders/records.inc"
} // namespace hekla::program::kernels
#undef HK_CONSTANT
#undef HK_I32_CONSTANT
#undef HK_F32_CONSTANT
#undef HK_RECORD
#undef HK_BUFFER
#undef HK_READS
#undef HK_WRITES
#undef HK_UPDATES
#undef HK_READS_OR_WRITES
#undef HK_READS_ARRAY
#undef HK_WRITES_ARRAY
#undef HK_U32
#undef HK_I32
#undef HK_F32
#undef HK_U32_ARRAY
#undef HK_I32_ARRAY
#undef HK_RECORD_HEAD

// Then the members of each struct.
#define HK_CONSTANT(name, value) static_assert(true)
#define HK_I32_CONSTANT(name, value) static_assert(true)
#define HK_F32_CONSTANT(name, value) static_assert(true)
#define HK_RECORD(name)                                                                                                \
    template<class Visit>                                                                                              \
    void visit_members(const name& record, Visit visit)
#define HK_BUFFER(name) HK_RECORD(name)
#define HK_MEMBER(name) visit(std::string_view(#name), record.name)
#define HK_READS(name) HK_MEMBER(name)
#define HK_WRITES(name) HK_MEMBER(name)
#define HK_UPDATES(name) HK_MEMBER(name)
#define HK_READS_OR_WRITES(name) HK_MEMBER(name)
#define HK_READS_ARRAY(name, size) HK_MEMBER(name)
#define HK_WRITES_ARRAY(name, size) HK_MEMBER(name)
#define HK_U32(name) HK_MEMBER(name)
#define HK_I32(name) HK_MEMBER(name)
#define HK_F32(name) HK_MEMBER(name)
#define HK_U32_ARRAY(name, size) HK_MEMBER(name)
#define HK_I32_ARRAY(name, size) HK_MEMBER(name)
#define HK_RECORD_HEAD                                                                                                 \
    HK_U32(first_group);                                                                                               \
    HK_U32(end_group)
namespace hekla::program::kernels {
#include "../shaders/records.inc"
} // namespace hekla::program::kernels
#undef HK_CONSTANT
#undef HK_I32_CONSTANT
#undef HK_F32_CONSTANT
#undef HK_RECORD
#undef HK_BUFFER
#undef HK_MEMBER
#undef HK_READS
#undef HK_WRITES
#undef HK_UPDATES
#undef HK_READS_OR_WRITES
#undef HK_READS_ARRAY
#undef HK_WRITES_ARRAY
#undef HK_U32
#undef HK_I32
#undef HK_F32
#undef HK_U32_ARRAY
#undef HK_I32_ARRAY
#undef HK_RECORD_HEAD
#undef HK_FAMILY
#undef HK_FAMILY_END

namespace hekla::program {

static_assert(kernels::kMaxRank == graph::kMaxRank);
static_assert(kernels::kF32 == static_cast<uint32_t>(Storage::f32) &&
              kernels::kF16 == static_cast<uint32_t>(Storage::f16) &&
              kernels::kBF16 == static_cast<uint32_t>(Storage::bf16) &&
              kernels::kI32 == static_cast<uint32_t>(Storage::i32));

using kernels::runtime::RuntimeRecord;

} // namespace hekla::program
