// Additional declarations for own/frame.glsl if an input is stored in 16 bits.
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#include "half.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer HeklaWords16 { uint16_t at[]; };
