// The beginning of every kernel from a plugin's own GLSL; engine/program/lowering/own.cpp adds the rest, and
// hekla/plugin/operation.h documents it for authors. Names that are not documented there begin with hekla_ or Hekla.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_GOOGLE_cpp_style_line_directive : require

#include "group.glsl"

layout(local_size_x = HEKLA_WIDTH) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer HeklaFloats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer HeklaInts { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer HeklaWords { uint at[]; };
