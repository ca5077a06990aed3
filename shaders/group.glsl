// The dispatch convention on the shader's side (the host's side is in engine/gpu/commands.hpp): workgroups are counted
// linearly, and the host folds the count into three dimensions. The result may exceed the count: compare, clamp,
// return.
#ifndef HEKLA_GROUP_GLSL
#define HEKLA_GROUP_GLSL

#ifdef HEKLA_CHAIN
uint hekla_linear; // a chain executes its kernels' workgroups in a loop
uint hekla_group() { return hekla_linear; }
#else
uint hekla_group() {
    return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}
#endif

#endif
