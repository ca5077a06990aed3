// Counts a tensor's numbers in 64 equal bins from -m to m, where m is the greatest magnitude.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 128) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
struct Extremes {
    float least, greatest, sum, squares;
    uint wrong;
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Parts { Extremes at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Counts { uint at[]; };
layout(push_constant) uniform Push {
    Floats values;
    Parts parts;   // [groups], from extremes.comp
    Counts counts; // [64], must be zero before
    uint count, groups;
} push;
shared uint bins[64];
void main() {
    const uint me = gl_LocalInvocationIndex;
    if (me < 64u) bins[me] = 0u;
    barrier();
    float most = 0.0;
    for (uint i = 0u; i < push.groups; ++i)
        most = max(most, max(-push.parts.at[i].least, push.parts.at[i].greatest));
    const float scale = most > 0.0 ? 32.0 / most : 0.0;
    for (uint i = gl_WorkGroupID.x * 128u + me; i < push.count; i += push.groups * 128u) {
        const float x = push.values.at[i];
        if (!isnan(x) && !isinf(x)) atomicAdd(bins[uint(clamp(int(floor(x * scale)) + 32, 0, 63))], 1u);
    }
    barrier();
    if (me < 64u && bins[me] > 0u) atomicAdd(push.counts.at[me], bins[me]);
}
