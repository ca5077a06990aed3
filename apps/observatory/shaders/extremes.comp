// Minimum, maximum, sum and sum of squares of a part of a tensor, and its number of non-finite values. One workgroup
// per part.
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 128) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
struct Extremes {
    float least, greatest, sum, squares;
    uint wrong; // not finite
};
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Parts { Extremes at[]; };
layout(push_constant) uniform Push {
    Floats values;
    Parts parts; // [groups]
    uint count, groups;
} push;
shared Extremes all[128];
void main() {
    const uint me = gl_LocalInvocationIndex;
    Extremes mine = Extremes(3.4e38, -3.4e38, 0.0, 0.0, 0u);
    for (uint i = gl_WorkGroupID.x * 128u + me; i < push.count; i += push.groups * 128u) {
        const float x = push.values.at[i];
        if (isnan(x) || isinf(x)) {
            ++mine.wrong;
            continue;
        }
        mine.least = min(mine.least, x);
        mine.greatest = max(mine.greatest, x);
        mine.sum += x;
        mine.squares += x * x;
    }
    all[me] = mine;
    barrier();
    for (uint half_ = 64u; half_ > 0u; half_ /= 2u) {
        if (me < half_) {
            all[me].least = min(all[me].least, all[me + half_].least);
            all[me].greatest = max(all[me].greatest, all[me + half_].greatest);
            all[me].sum += all[me + half_].sum;
            all[me].squares += all[me + half_].squares;
            all[me].wrong += all[me + half_].wrong;
        }
        barrier();
    }
    if (me == 0u) push.parts.at[gl_WorkGroupID.x] = all[0];
}
